/** Plots over time, by uPlot, which is loaded when the first plot is shown. */

import { html } from "htm/preact";
import { useEffect, useRef } from "preact/hooks";

const HEIGHT = 200;
const AWAY_S = 15; // series have no value at the times of others: only where there is none for longer, a line ends
const COLOURS = ["--accent", "--bad", "--warn", "--good", "--dim"];

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

/** Of the gaps in a line, in pixels, those that mean something. */
function longGaps(plot, _series, _first, _last, gaps) {
  return gaps.filter(([from, to]) => plot.posToVal(to, "x", true) - plot.posToVal(from, "x", true) > AWAY_S);
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
      const lines = names.map((label, at) => ({ label, stroke: colour(COLOURS[at % COLOURS.length]), width: 2, gaps: longGaps, points: { show: latest.current[0].length < 100, size: 4 } }));
      const options = { width: place.current.clientWidth - 16, height: HEIGHT, series: [{}, ...lines], axes: [axis, { ...axis, size: 70 }], legend: { show: names.length > 1 } };
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
