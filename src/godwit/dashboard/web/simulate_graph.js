/** The graph of a recorded run: brokers and links, with clients around their brokers, on one canvas. */

import { forceCenter, forceCollide, forceLink, forceManyBody, forceSimulation } from "d3-force";

const RADIUS = 9;
const SHOWN_AT_BROKER = 150; // clients around one broker; more are a number
const TICKS = 200;
const NAMES_SHOWN = 60;

/** Where each broker is drawn, by number: computed once, for the links of the whole run. */
export function layoutOf({ isBroker, traffic, about, names }) {
  const numbers = new Map(names.map((name, number) => [name, number]));
  const nodes = [...isBroker.keys()].filter((number) => isBroker[number]).map((id) => ({ id }));
  const known = (about?.map?.links ?? []).map(([a, b]) => [numbers.get(a), numbers.get(b)]);
  const pairs = (known.length ? known : traffic.map(({ ends }) => ends)).filter(([a, b]) => isBroker[a] && isBroker[b]);
  forceSimulation(nodes)
    .force("charge", forceManyBody().strength(-200))
    .force("link", forceLink(pairs.map(([source, target]) => ({ source, target }))).id(({ id }) => id).distance(60))
    .force("collide", forceCollide(30))
    .force("center", forceCenter(0, 0))
    .stop()
    .tick(nodes.length > 500 ? 60 : TICKS);
  return { places: new Map(nodes.map(({ id, x, y }) => [id, [x, y]])), pairs };
}

export function colourOf(broker) {
  return `hsl(${(172 + broker * 137) % 360} 70% 45%)`;
}

/** Draw a run at a time. `flashS`: for how long a client that has moved is marked. */
export function drawGraph(canvas, summary, layout, state, at, flashS) {
  const style = getComputedStyle(canvas);
  const colour = (name) => style.getPropertyValue(name).trim();
  const [width, height, ratio] = [canvas.clientWidth, canvas.clientHeight, devicePixelRatio || 1];
  if (canvas.width !== width * ratio || canvas.height !== height * ratio) [canvas.width, canvas.height] = [width * ratio, height * ratio];
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const put = scaleOf(layout, width, height);
  const bucket = Math.min(summary.buckets - 1, Math.max(0, Math.floor(((at - summary.begins) / (summary.ends - summary.begins || 1)) * summary.buckets)));
  const counts = new Map(summary.traffic.map(({ ends: [a, b], counts: held }) => [`${a} ${b}`, held[bucket]]));
  for (const [one, other] of layout.pairs) {
    const key = one < other ? `${one} ${other}` : `${other} ${one}`;
    const isUp = state.links.get(key) !== false && !state.down.has(one) && !state.down.has(other);
    line(pen, put(one), put(other), isUp ? colour("--line") : colour("--bad"), 1 + Math.min(8, Math.log2(1 + (counts.get(key) ?? 0))), isUp ? [] : [6, 6]);
  }
  const clients = state.clients();
  for (const broker of layout.places.keys()) {
    const [x, y] = put(broker);
    const here = clients.get(broker) ?? [];
    pen.fillStyle = state.down.has(broker) ? colour("--bad") : colourOf(broker);
    disc(pen, x, y, RADIUS);
    for (const [number, client] of here.slice(0, SHOWN_AT_BROKER).entries()) {
      const [angle, away] = [number * 2.4, RADIUS + 4 + 3.2 * Math.sqrt(number)];
      const isNew = at - state.movedAt[client] < flashS;
      pen.fillStyle = isNew ? colour("--warn") : colour("--text");
      disc(pen, x + away * Math.cos(angle), y + away * Math.sin(angle), isNew ? 3.5 : 2);
    }
    if (layout.places.size <= NAMES_SHOWN) {
      pen.fillStyle = colour("--text");
      pen.font = "12px system-ui, sans-serif";
      pen.textAlign = "center";
      const name = summary.names[broker];
      pen.fillText(`${name.length > 20 ? `${name.slice(0, 19)}…` : name}${here.length ? ` (${here.length})` : ""}`, x, y - RADIUS - 6);
    }
  }
}

function scaleOf({ places }, width, height) {
  const [xs, ys] = [[...places.values()].map(([x]) => x), [...places.values()].map(([, y]) => y)];
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const margin = 50;
  const factor = Math.min(2, (width - 2 * margin) / (right - left || 1), (height - 2 * margin) / (bottom - top || 1));
  return (broker) => {
    const [x, y] = places.get(broker);
    return [width / 2 + (x - (left + right) / 2) * factor, height / 2 + (y - (top + bottom) / 2) * factor];
  };
}

function line(pen, from, to, ink, thick, dash) {
  pen.strokeStyle = ink;
  pen.lineWidth = thick;
  pen.setLineDash(dash);
  pen.beginPath();
  pen.moveTo(...from);
  pen.lineTo(...to);
  pen.stroke();
  pen.setLineDash([]);
}

function disc(pen, x, y, radius) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fill();
}
