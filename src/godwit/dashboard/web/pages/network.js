/**
 * Network: brokers and links as a graph, and the tables of the broker that was picked.
 *
 * The graph is drawn on a canvas; everything in it is in the tables below it, too, for those who cannot see or point.
 */

import { forceCenter, forceCollide, forceLink, forceManyBody, forceSimulation } from "d3-force";
import { html } from "htm/preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { go, Link } from "../address.js";
import { useAnswer } from "../asking.js";
import { count, Problem, Table, Unanswered } from "../parts.js";

const REFRESH_MS = 2_000;
const ROWS = 500; // of a routing table
const RADIUS = 16;

export function Network({ parameters }) {
  const { answer, error } = useAnswer("/everywhere/links", {}, REFRESH_MS);
  const { brokers, links } = useMemo(() => graphOf(answer), [answer]);
  const chosen = parameters.broker ?? "";
  return html`
    <h1>Network</h1>
    <${Problem} error=${error} />
    <${Unanswered} found=${answer} />
    ${answer && html`
      <${Graph} brokers=${brokers} links=${links} chosen=${chosen} />
      <${Brokers} brokers=${brokers} />
      <${Links} links=${links} />`}
    ${chosen && html`<${Routes} broker=${chosen} />`}`;
}

/** Brokers and links, from what every broker says of its own links. A link is up if both ends say so. */
export function graphOf(found) {
  const answers = found?.answers ?? {};
  const names = new Set([...Object.keys(answers), ...(found?.unanswered ?? [])]);
  const links = new Map();
  for (const [broker, rows] of Object.entries(answers)) {
    for (const row of Array.isArray(rows) ? rows : []) {
      names.add(row.peer);
      const key = [broker, row.peer].sort().join(" ");
      const [a, b] = [broker, row.peer].sort();
      const link = links.get(key) ?? { key, a, b, isUp: true, outbox: 0, faults: [], roundTripS: null };
      link.isUp = link.isUp && row.up;
      link.outbox += row.outbox;
      link.roundTripS ??= row.round_trip_s;
      if (row.fault) link.faults.push(`${broker}: ${row.fault}`);
      links.set(key, link);
    }
  }
  const silent = new Set(found?.unanswered ?? []);
  const brokers = [...names].sort().map((name) => ({ name, isSilent: silent.has(name) }));
  return { brokers, links: [...links.values()] };
}

function Graph({ brokers, links, chosen }) {
  const canvas = useRef(null);
  const nodes = useRef(new Map());
  const shape = JSON.stringify([brokers.map(({ name }) => name), links.map(({ key }) => key)]);
  useEffect(() => {
    for (const { name } of brokers) if (!nodes.current.has(name)) nodes.current.set(name, { id: name });
    const present = brokers.map(({ name }) => nodes.current.get(name));
    const simulation = forceSimulation(present)
      .force("charge", forceManyBody().strength(-420))
      .force("link", forceLink(links.map(({ a, b }) => ({ source: a, target: b }))).id((node) => node.id).distance(120))
      .force("collide", forceCollide(3 * RADIUS))
      .force("center", forceCenter(0, 0))
      .stop();
    simulation.tick(300);
    draw(canvas.current, nodes.current, brokers, links, chosen);
  }, [shape]);
  useEffect(() => {
    const again = () => draw(canvas.current, nodes.current, brokers, links, chosen);
    again();
    addEventListener("resize", again);
    return () => removeEventListener("resize", again);
  });
  const pick = (click) => {
    const name = brokerAt(canvas.current, nodes.current, brokers, click.offsetX, click.offsetY);
    if (name) go("network", { broker: name });
  };
  const label = `${brokers.length} brokers and ${links.length} links; the tables below say the same`;
  return html`<canvas class="graph" ref=${canvas} role="img" aria-label=${label} onClick=${pick}></canvas>`;
}

/** How points of the layout become points of the canvas. */
function scaleOf(canvas, nodes, brokers) {
  const found = brokers.map(({ name }) => nodes.get(name)).filter((node) => node?.x !== undefined);
  const [left, right] = [Math.min(...found.map(({ x }) => x)), Math.max(...found.map(({ x }) => x))];
  const [top, bottom] = [Math.min(...found.map(({ y }) => y)), Math.max(...found.map(({ y }) => y))];
  const margin = 60;
  const factor = Math.min(1.6, (canvas.clientWidth - 2 * margin) / (right - left || 1), (canvas.clientHeight - 2 * margin) / (bottom - top || 1));
  const [middleX, middleY] = [(left + right) / 2, (top + bottom) / 2];
  return ({ x, y }) => [canvas.clientWidth / 2 + (x - middleX) * factor, canvas.clientHeight / 2 + (y - middleY) * factor];
}

function draw(canvas, nodes, brokers, links, chosen) {
  if (!canvas || brokers.length === 0) return;
  const style = getComputedStyle(canvas);
  const colour = (name) => style.getPropertyValue(name).trim();
  const ratio = devicePixelRatio || 1;
  [canvas.width, canvas.height] = [canvas.clientWidth * ratio, canvas.clientHeight * ratio];
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = "14px system-ui, sans-serif";
  pen.textAlign = "center";
  const at = scaleOf(canvas, nodes, brokers);
  for (const { a, b, isUp, outbox } of links) {
    const [from, to] = [at(nodes.get(a)), at(nodes.get(b))];
    pen.strokeStyle = isUp ? colour("--line") : colour("--bad");
    pen.lineWidth = isUp ? 2 + Math.min(6, Math.log10(1 + outbox) * 2) : 2;
    pen.setLineDash(isUp ? [] : [6, 6]);
    pen.beginPath();
    pen.moveTo(...from);
    pen.lineTo(...to);
    pen.stroke();
  }
  pen.setLineDash([]);
  for (const { name, isSilent } of brokers) {
    const [x, y] = at(nodes.get(name));
    pen.fillStyle = isSilent ? colour("--bad") : colour("--accent");
    pen.beginPath();
    pen.arc(x, y, name === chosen ? RADIUS + 4 : RADIUS, 0, 2 * Math.PI);
    pen.fill();
    pen.fillStyle = colour("--text");
    pen.fillText(name.length > 24 ? `${name.slice(0, 23)}…` : name, x, y + RADIUS + 18);
  }
}

function brokerAt(canvas, nodes, brokers, x, y) {
  const at = scaleOf(canvas, nodes, brokers);
  const near = brokers.find(({ name }) => Math.hypot(at(nodes.get(name))[0] - x, at(nodes.get(name))[1] - y) <= RADIUS + 6);
  return near?.name;
}

function Brokers({ brokers }) {
  const rows = brokers.map(({ name, isSilent }) => [
    html`<${Link} page="network" parameters=${{ broker: name }}>${name}<//>`,
    isSilent ? html`<span class="fails">does not answer</span>` : html`<span class="holds">answers</span>`,
  ]);
  return html`<h2>Brokers</h2><${Table} label="Brokers" head=${["broker", "state"]} rows=${rows} empty="There is no broker." />`;
}

function Links({ links }) {
  const rows = links.map(({ a, b, isUp, outbox, roundTripS, faults }) => [
    `${a} – ${b}`,
    isUp ? html`<span class="holds">up</span>` : html`<span class="fails">down</span>`,
    count(outbox),
    roundTripS ? `${(1000 * roundTripS).toFixed(1)} ms` : "",
    faults.join("; "),
  ]);
  const head = ["link", "state", "messages that wait", "round trip", "last fault"];
  return html`<h2>Links</h2><${Table} label="Links" head=${head} rows=${rows} empty="This broker stands alone." />`;
}

/** The routing tables of a broker: which filter leads where. */
function Routes({ broker }) {
  const { answer, error } = useAnswer("/everywhere/routes", { at: broker, limit: ROWS }, REFRESH_MS);
  const found = answer?.answers?.[broker];
  if (!found) return html`<h2>Tables of ${broker}</h2><${Problem} error=${error} /><p class="empty">${answer ? "It does not answer." : "Asking…"}</p>`;
  if (found.error) return html`<h2>Tables of ${broker}</h2><p class="warning">${found.error}</p>`;
  const sizes = Object.entries(found.sizes).map(([name, size]) => `${name} ${count(size)}`).join(" · ");
  const rows = found.entries.map((row) => [
    row.from ? `neighbour ${row.from}` : "client here", row.table, html`<code>${row.filter}</code>`, `${row.owner} ${row.name}`,
  ]);
  return html`
    <h2>Tables of ${broker}</h2>
    <p>${found.family} · ${found.reduction} · ${found.settled ? "settled" : "changing"} · ${sizes}</p>
    <${Table} label="Routing table" head=${["leads to", "table", "filter", "told by"]} rows=${rows} empty="Nobody has subscribed to anything." />
    ${found.is_cut && html`<p class="dim">The first ${count(ROWS)} entries are shown.</p>`}`;
}
