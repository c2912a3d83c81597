/** The player of a recorded run: graph, map, a line of time to scrub on, and the rows of the trace at that time. */

import { html } from "htm/preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { go } from "./address.js";
import { loaded } from "./map_library.js";
import { count, Problem, Table } from "./parts.js";
import { drawGraph, layoutOf } from "./simulate_graph.js";
import { makeRunMap } from "./simulate_map.js";
import { RunState } from "./simulate_state.js";

const SPEEDS = [0.01, 0.1, 1, 2, 5, 10, 60, 600];
const PLAYED_IN_S = 40; // the whole run, at the speed that is chosen first
const ROWS = 40;
const ROWS_EVERY_MS = 500;
const FLASH_MS = 1_500; // for which a client that has moved is marked
const SERIES = [["messages", "--dim"], ["published", "--accent"], ["delivered", "--good"], ["moves", "--warn"], ["faults", "--bad"]];

/** `summary`: see simulate_index.js. `rowsFrom(at, limit)` asks for rows. `begin`: the time to begin with. */
export function Player({ summary, rowsFrom, begin }) {
  const { begins, ends } = summary;
  const [at, setAt] = useState(Math.min(ends, Math.max(begins, begin || begins)));
  const [isPlaying, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(() => SPEEDS.findLast((each) => each <= (ends - begins) / PLAYED_IN_S) ?? SPEEDS[0]);
  const state = useMemo(() => new RunState(summary), [summary]);
  const layout = useMemo(() => layoutOf(summary), [summary]);
  const now = useRef(at);
  now.current = at;
  useEffect(() => {
    if (!isPlaying) return undefined;
    let last = performance.now();
    let frame = requestAnimationFrame(function step(time) {
      const next = now.current + ((time - last) / 1000) * speed;
      last = time;
      setAt(Math.min(next, ends));
      if (next >= ends) setPlaying(false);
      else frame = requestAnimationFrame(step);
    });
    return () => cancelAnimationFrame(frame);
  }, [isPlaying, speed, summary]);
  const seek = (time) => {
    setPlaying(false);
    setAt(time);
  };
  const play = () => {
    if (at >= ends) setAt(begins);
    setPlaying(!isPlaying);
  };
  const flashS = (speed * FLASH_MS) / 1000;
  state.go(at);
  return html`
    <${Graph} summary=${summary} layout=${layout} state=${state} at=${at} flashS=${flashS} />
    <div class="row">
      <button type="button" onClick=${play}>${isPlaying ? "Pause" : "Play"}</button>
      <label>Speed <select value=${speed} onChange=${({ target }) => setSpeed(Number(target.value))}>
        ${SPEEDS.map((each) => html`<option value=${each}>${each} ×</option>`)}</select></label>
      <input class="scrubber" type="range" aria-label="Time" aria-valuetext=${`${at.toFixed(2)} seconds`} min=${begins} max=${ends} step=${(ends - begins) / 2000 || 1} value=${at}
        onInput=${({ target }) => seek(Number(target.value))} onChange=${({ target }) => go("simulate", { at: Number(target.value).toFixed(3) }, { replace: true })} />
      <output>${at.toFixed(2)} s of ${ends.toFixed(2)} s</output>
    </div>
    <${TimeLine} summary=${summary} at=${at} seek=${seek} />
    <p role="status">${`${count(state.attached())} clients attached, ${count(state.moves)} moves so far`}${state.down.size ? html`, <span class="fails">${state.down.size} nodes down</span>` : ""}.</p>
    <${RunMap} summary=${summary} state=${state} at=${at} flashS=${flashS} />
    <${Attached} summary=${summary} state=${state} />
    <${Rows} at=${at} rowsFrom=${rowsFrom} />`;
}

function Graph({ summary, layout, state, at, flashS }) {
  const canvas = useRef(null);
  useEffect(() => {
    const draw = () => drawGraph(canvas.current, summary, layout, state, at, flashS);
    draw();
    addEventListener("resize", draw);
    return () => removeEventListener("resize", draw);
  });
  const label = `${layout.places.size} brokers, their links and clients; the tables below say the same`;
  return html`<canvas class="graph" ref=${canvas} role="img" aria-label=${label}></canvas>
    <p class="dim">A link is as thick as its traffic. Dots are clients; the coloured ones have just moved.</p>`;
}

/** How much of what happened when; a click goes there. */
function TimeLine({ summary: { series, buckets, begins, ends }, at, seek }) {
  const canvas = useRef(null);
  useEffect(() => {
    const [pen, ratio] = [canvas.current.getContext("2d"), devicePixelRatio || 1];
    const [width, height] = [canvas.current.clientWidth, canvas.current.clientHeight];
    [canvas.current.width, canvas.current.height] = [width * ratio, height * ratio];
    pen.scale(ratio, ratio);
    const style = getComputedStyle(canvas.current);
    for (const [name, ink] of SERIES) {
      const most = series[name].reduce((a, b) => Math.max(a, b), 0);
      if (!most) continue;
      pen.strokeStyle = style.getPropertyValue(ink).trim();
      pen.lineWidth = 1.5;
      pen.beginPath();
      series[name].forEach((value, bucket) => {
        const [x, y] = [(bucket / buckets) * width, height - 2 - (value / most) * (height - 4)];
        bucket ? pen.lineTo(x, y) : pen.moveTo(x, y);
      });
      pen.stroke();
    }
    pen.fillStyle = style.getPropertyValue("--text").trim();
    pen.fillRect(((at - begins) / (ends - begins || 1)) * width - 1, 0, 2, height);
  });
  const click = ({ offsetX }) => seek(begins + (offsetX / canvas.current.clientWidth) * (ends - begins));
  const legend = SERIES.map(([name]) => `${name} ${count(series[name].reduce((a, b) => a + b, 0))}`).join(" · ");
  return html`<canvas class="timeline" ref=${canvas} role="img" aria-label=${`Over time: ${legend}`} onClick=${click}></canvas>
    <p class="dim">${legend}, each with a scale of its own</p>`;
}

function RunMap({ summary, state, at, flashS }) {
  const place = useRef(null);
  const scene = useRef(null);
  const [problem, setProblem] = useState(null);
  const [isReady, setReady] = useState(false);
  const hasPlaces = Boolean(summary.about?.map?.positions || summary.about?.map?.tracks);
  useEffect(() => {
    if (!hasPlaces) return undefined;
    let isOver = false;
    loaded().then(({ Leaflet, countries }) => {
      if (isOver) return;
      scene.current = makeRunMap(Leaflet, countries, place.current, summary);
      setReady(true);
    }).catch((error) => isOver || setProblem(error));
    return () => {
      isOver = true;
      scene.current?.remove();
      scene.current = null;
      setReady(false);
    };
  }, [summary]);
  useEffect(() => {
    if (isReady) scene.current?.show(state, at, flashS);
  });
  if (problem) return html`<${Problem} error=${problem} />`;
  if (!hasPlaces) return html`<p class="dim">This scenario knows no positions on the globe, so there is no map.</p>`;
  return html`<div class="map" ref=${place} role="application" aria-label="Map of the run; the tables below say the same"></div>`;
}

function Attached({ summary: { names }, state }) {
  const rows = [...state.clients()].sort((one, other) => other[1].length - one[1].length).map(([broker, here]) => [
    broker < 0 ? html`<span class="dim">nowhere</span>` : names[broker], count(here.length), here.slice(0, 20).map((client) => names[client]).join(", ") + (here.length > 20 ? ", …" : ""),
  ]);
  return html`<details><summary>Who is where</summary><${Table} label="Clients by broker" head=${["broker", "clients", ""]} rows=${rows} empty="No client has connected yet." /></details>`;
}

/** The rows of the trace from this time on, asked for again when time has passed. */
function Rows({ at, rowsFrom }) {
  const [isOpen, setOpen] = useState(false);
  const [rows, setRows] = useState([]);
  const last = useRef(0);
  useEffect(() => {
    if (!isOpen) return undefined;
    const ask = () => {
      last.current = performance.now();
      rowsFrom(at, ROWS).then(setRows, () => {});
    };
    const timer = setTimeout(ask, Math.max(0, last.current + ROWS_EVERY_MS - performance.now()));
    return () => clearTimeout(timer);
  }, [at, isOpen]);
  const cells = rows.map((row) => [
    row.at.toFixed(4), row.node, row.kind, row.peer, row.message, row.publisher ? `${row.publisher}:${row.sequence}` : "", html`<span class="line">${row.detail.length > 200 ? `${row.detail.slice(0, 200)}…` : row.detail}</span>`,
  ]);
  return html`
    <details onToggle=${({ target }) => setOpen(target.open)}><summary>Rows of the trace</summary>
      <${Table} label="Rows" head=${["second", "node", "kind", "peer", "message", "event", "detail"]} rows=${cells} empty="There is no row from here on." /></details>`;
}
