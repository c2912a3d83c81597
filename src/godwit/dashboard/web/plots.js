/** Plots over time, by uPlot, which is loaded when the first plot is shown. */

import { html } from "htm/preact";
import { useEffect, useRef } from "preact/hooks";
import { isPause } from "./series.js";

const HEIGHT = 200;
const SHORTEST_S = 60;
const DAY_S = 86_400;
const COLOURS = ["--accent", "--bad", "--warn", "--text", "--dim", "--good"]; // of the first lines; a network may have more brokers

let library = null;

function loaded() {
  library ??= new Promise((resolve, reject) => {
    const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: "/dashboard/vendor/uplot/uPlot.min.css" });
    const script = Object.assign(document.createElement("script"), { src: "/dashboard/vendor/uplot/uPlot.iife.min.js" });
    script.onload = () => resolve(globalThis.uPlot);
    script.onerror = () => reject(new Error("the library of plots could not be loaded"));
    document.head.append(style, script);
  });
  return library;
}

/** A time on an axis whose marks are so many seconds apart, by a clock of 24 hours. */
function timeText(at, stepS) {
  const time = new Date(1000 * at);
  if (stepS >= DAY_S) return time.toLocaleDateString("sv-SE"); // as in 2026-11-17
  const text = time.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...(stepS < 60 ? { second: "2-digit" } : {}) });
  return stepS < 1 ? `${text}.${String(time.getMilliseconds()).padStart(3, "0")}` : text;
}

/** The times that are shown: a minute, where there is nothing or one sample yet. */
function rangeOf(_, first, last) {
  const now = Date.now() / 1000;
  if (first == null || last == null) return [now - SHORTEST_S, now];
  if (last > now + DAY_S) return [first - SHORTEST_S, first]; // uPlot takes a single sample for years
  return last - first < SHORTEST_S / 6 ? [last - SHORTEST_S, last] : [first, last];
}

/** Of the gaps in a line, in pixels, the pauses: a series has no value at the times of others. */
function longGaps(plot, _series, _first, _last, gaps) {
  const last = plot.data[0].at(-1);
  return gaps.filter(([from, to]) => isPause(plot.posToVal(from, "x", true), plot.posToVal(to, "x", true), last));
}

/** Whose line it is: p50 and p99 of a broker have one colour, and p99 is dashed. */
function baseOf(label) {
  return label.replace(/ p(50|99)$/, "");
}

/** The colour of a line, by its number. */
function inkOf(at, colour) {
  return at < COLOURS.length ? colour(COLOURS[at]) : `hsl(${(at * 137) % 360} 65% 50%)`;
}

/** A value beside its name, while a time is pointed at. */
function valueText(_, value) {
  return value == null ? "" : value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
}

/** Series over time: `data` is the times in seconds since 1970, and the values of each series in `names`. */
export function Plot({ title, names, data }) {
  const place = useRef(null);
  const plot = useRef(null);
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    let isOver = false;
    const resize = () => plot.current?.setSize({ width: place.current.clientWidth - 16, height: HEIGHT });
    loaded().then((Plots) => {
      if (isOver) return;
      const style = getComputedStyle(place.current);
      const colour = (name) => style.getPropertyValue(name).trim();
      const axis = { stroke: colour("--text"), grid: { stroke: colour("--faint"), width: 1 }, ticks: { stroke: colour("--faint"), width: 1 } };
      const bases = [...new Set(names.map(baseOf))];
      const lines = names.map((label) => ({ label, stroke: inkOf(bases.indexOf(baseOf(label)), colour), dash: label.endsWith(" p99") ? [6, 4] : undefined, width: 2, value: valueText, gaps: longGaps, points: { show: latest.current[0].length < 100, size: 4 } }));
      const options = { width: place.current.clientWidth - 16, height: HEIGHT, series: [{ label: " ", value: (_, at) => (at == null ? "" : timeText(at, 1)) }, ...lines], scales: { x: { range: rangeOf } }, axes: [{ ...axis, space: 80, values: (_, times, __, ___, step) => times.map((at) => timeText(at, step)) }, { ...axis, size: 70 }], legend: { show: names.length > 1, markers: { dash: (_, line) => (lines[line - 1]?.dash ? "dashed" : "solid") } } };
      plot.current = new Plots(options, latest.current, place.current);
    }).catch((error) => {
      library = null; // the next plot tries again
      if (!isOver) place.current.textContent = error.message;
    });
    addEventListener("resize", resize);
    return () => {
      isOver = true;
      removeEventListener("resize", resize);
      plot.current?.destroy();
      plot.current = null;
    };
  }, [names.join("\n")]);
  useEffect(() => plot.current?.setData(data), [data]);
  return html`<figure class="plot"><figcaption>${title}</figcaption><div ref=${place} role="img" aria-label=${`${title} over time`}></div></figure>`;
}
