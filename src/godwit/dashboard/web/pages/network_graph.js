/** Network: brokers and links on a canvas. */

import { forceCenter, forceCollide, forceLink, forceManyBody, forceSimulation } from "d3-force";
import { html } from "htm/preact";
import { useEffect, useRef } from "preact/hooks";
import { go } from "../address.js";

const RADIUS = 16;
const MARGIN = 60;
const NEAR = 0.3; // of a link: where the rate of what comes to a broker stands

export function Graph({ brokers, links, chosen }) {
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

/** How points of the layout become points of the canvas. It lies on its longer side, so that texts have room. */
function scaleOf(canvas, nodes, brokers) {
  const found = brokers.map(({ name }) => nodes.get(name)).filter((node) => node?.x !== undefined);
  const span = (values) => [Math.min(...values), Math.max(...values)];
  const [xs, ys] = [span(found.map(({ x }) => x)), span(found.map(({ y }) => y))];
  const isTall = ys[1] - ys[0] > xs[1] - xs[0];
  const [[left, right], [top, bottom]] = isTall ? [ys, xs] : [xs, ys];
  const [width, height] = [canvas.clientWidth - 2 * MARGIN, canvas.clientHeight - 2 * MARGIN];
  const factor = Math.min(2.2, width / (right - left || 1), height / (bottom - top || 1));
  const [middleX, middleY] = [(left + right) / 2, (top + bottom) / 2];
  return ({ x, y }) => {
    const [along, across] = isTall ? [y, x] : [x, y];
    return [canvas.clientWidth / 2 + (along - middleX) * factor, canvas.clientHeight / 2 + (across - middleY) * factor];
  };
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
  for (const { a, b, isUp, toA, toB } of links) {
    const [from, to] = [at(nodes.get(a)), at(nodes.get(b))];
    pen.strokeStyle = isUp ? colour("--line") : colour("--bad");
    pen.lineWidth = isUp ? widthOf((toA ?? 0) + (toB ?? 0)) : 2;
    pen.setLineDash(isUp ? [] : [6, 6]);
    pen.beginPath();
    pen.moveTo(...from);
    pen.lineTo(...to);
    pen.stroke();
    pen.setLineDash([]);
    if (isUp) {
      label(pen, between(to, from, NEAR), rateText(toB), colour);
      label(pen, between(from, to, NEAR), rateText(toA), colour);
    }
  }
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

/** The width of a link that carries so many events a second. */
export function widthOf(rate) {
  return 2 + Math.min(8, 2 * Math.log10(1 + rate));
}

/** A rate in few characters; "…": it is not known yet. */
export function rateText(rate) {
  if (rate === null) return "…";
  return `${rate >= 100 ? Math.round(rate).toLocaleString("en-US") : rate.toFixed(rate < 10 && rate > 0 ? 1 : 0)}/s`;
}

function between([fromX, fromY], [toX, toY], share) {
  return [fromX + (toX - fromX) * share, fromY + (toY - fromY) * share];
}

function label(pen, [x, y], text, colour) {
  const width = pen.measureText(text).width + 8;
  pen.fillStyle = colour("--paper");
  pen.fillRect(x - width / 2, y - 9, width, 18);
  pen.fillStyle = colour("--text");
  pen.fillText(text, x, y + 5);
}

function brokerAt(canvas, nodes, brokers, x, y) {
  const at = scaleOf(canvas, nodes, brokers);
  const near = brokers.find(({ name }) => Math.hypot(at(nodes.get(name))[0] - x, at(nodes.get(name))[1] - y) <= RADIUS + 6);
  return near?.name;
}
