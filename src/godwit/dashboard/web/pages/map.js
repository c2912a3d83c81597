/**
 * Map: clients whose place is known, as they move, with trails, over country outlines that come with the broker.
 *
 * Points are drawn on one canvas over the map, and are no markers of Leaflet's: thousands of them move at once. Between
 * two answers of the brokers a point moves from its last place to its next one.
 */

import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { go } from "../address.js";
import { useAnswer } from "../asking.js";
import { count, Problem, Table, Unanswered } from "../parts.js";

const REFRESH_MS = 1_000;
const TRAIL = 60; // places
const ROWS = 500; // in the table
const FILES = "/dashboard/vendor/";

let library = null;

/** Leaflet and the outlines of countries, loaded when a map is first shown. */
function loaded() {
  library ??= (async () => {
    document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: `${FILES}leaflet/leaflet.css` }));
    await script(`${FILES}leaflet/leaflet.js`);
    await script(`${FILES}topojson-client/topojson-client.min.js`);
    const world = await (await fetch(`${FILES}world-atlas/countries-110m.json`)).json();
    return { Leaflet: globalThis.L, countries: globalThis.topojson.feature(world, world.objects.countries) };
  })();
  return library;
}

function script(src) {
  return new Promise((resolve, reject) => {
    const element = Object.assign(document.createElement("script"), { src });
    element.onload = resolve;
    element.onerror = () => reject(new Error(`${src} could not be loaded`));
    document.head.append(element);
  });
}

export function Map({ parameters }) {
  const { answer, error } = useAnswer("/everywhere/positions", {}, REFRESH_MS);
  const rows = Object.entries(answer?.answers ?? {}).flatMap(([broker, found]) => (Array.isArray(found) ? found.map((row) => ({ ...row, broker })) : []));
  const brokers = Object.keys(answer?.answers ?? {});
  return html`
    <h1>Map</h1>
    <${Problem} error=${error} />
    <${Unanswered} found=${answer} />
    <${Canvas} rows=${rows} brokers=${brokers} chosen=${parameters.client ?? ""} />
    <p>${answer ? `${count(rows.length)} clients have said where they are, in their context or in an event.` : "Asking…"} The colour is that of the broker.</p>
    <${List} rows=${rows} />`;
}

function Canvas({ rows, brokers, chosen }) {
  const place = useRef(null);
  const scene = useRef(null);
  const [isReady, setReady] = useState(false);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    let isOver = false;
    loaded().then(({ Leaflet, countries }) => {
      if (isOver) return;
      scene.current = makeScene(Leaflet, countries, place.current);
      setReady(true);
    }).catch((error) => {
      library = null; // the next map tries again
      if (!isOver) setProblem(error);
    });
    return () => {
      isOver = true;
      scene.current?.remove();
    };
  }, []);
  useEffect(() => {
    if (isReady) scene.current.show(rows, brokers, chosen);
  }, [rows, isReady]);
  if (problem) return html`<${Problem} error=${problem} />`;
  return html`<div class="map" ref=${place} role="application" aria-label="Map of clients; the table below says the same"></div>`;
}

/** A map in an element, with moving points over it. */
export function makeScene(Leaflet, countries, element) {
  const style = getComputedStyle(element);
  const colour = (name) => style.getPropertyValue(name).trim();
  const map = Leaflet.map(element, { preferCanvas: true, worldCopyJump: true, attributionControl: false }).setView([20, 0], 2);
  Leaflet.geoJSON(countries, { style: { color: colour("--line"), weight: 1, fillColor: colour("--faint"), fillOpacity: 0.6 }, interactive: false }).addTo(map);
  Leaflet.control.scale({ imperial: false }).addTo(map);
  const canvas = Leaflet.DomUtil.create("canvas", "points", element);
  const points = new globalThis.Map(); // by client: where it is drawn, from, to, since, trail
  let colours = new globalThis.Map();
  let chosen = "";
  let hasFitted = false;
  let frame = 0;
  let frames = 0;

  function show(rows, brokers, who) {
    chosen = who;
    colours = new globalThis.Map([...brokers].sort().map((name, at) => [name, `hsl(${(172 + at * 137) % 360} 70% 45%)`]));
    const now = performance.now();
    const seen = new Set();
    for (const { client, lon, lat, broker, attached } of rows) {
      seen.add(client);
      const before = points.get(client);
      const here = before ? between(before, now) : [lat, lon];
      const trail = before?.trail ?? [];
      if (!before || before.to[0] !== lat || before.to[1] !== lon) trail.push([lat, lon]);
      if (trail.length > TRAIL) trail.shift();
      points.set(client, { from: here, to: [lat, lon], since: now, trail, broker, attached });
    }
    for (const client of points.keys()) if (!seen.has(client)) points.delete(client);
    if (!hasFitted && points.size > 0) {
      hasFitted = true;
      map.fitBounds(Leaflet.latLngBounds([...points.values()].map(({ to }) => to)).pad(0.2), { maxZoom: 10, animate: false });
    }
  }

  function between({ from, to, since }, now) {
    const share = Math.min(1, (now - since) / REFRESH_MS);
    return [from[0] + (to[0] - from[0]) * share, from[1] + (to[1] - from[1]) * share];
  }

  function draw(now) {
    frame = requestAnimationFrame(draw);
    frames += 1;
    const [width, height, ratio] = [element.clientWidth, element.clientHeight, devicePixelRatio || 1];
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const onCanvas = (latLng) => map.latLngToContainerPoint(latLng);
    const withTrails = points.size <= 500;
    for (const [client, point] of points) {
      const { x, y } = onCanvas(between(point, now));
      if (x < -20 || y < -20 || x > width + 20 || y > height + 20) continue;
      const ink = colours.get(point.broker) ?? colour("--accent");
      if ((withTrails || client === chosen) && point.trail.length > 1) {
        pen.strokeStyle = ink;
        pen.globalAlpha = 0.45;
        pen.beginPath();
        for (const [at, latLng] of point.trail.slice(0, -1).entries()) {
          const { x: tx, y: ty } = onCanvas(latLng);
          at === 0 ? pen.moveTo(tx, ty) : pen.lineTo(tx, ty);
        }
        pen.lineTo(x, y);
        pen.stroke();
        pen.globalAlpha = 1;
      }
      pen.fillStyle = ink;
      pen.globalAlpha = point.attached ? 1 : 0.4;
      pen.beginPath();
      pen.arc(x, y, client === chosen ? 8 : 4, 0, 2 * Math.PI);
      pen.fill();
      pen.globalAlpha = 1;
      if (client === chosen) {
        pen.fillStyle = colour("--text");
        pen.font = "14px system-ui, sans-serif";
        pen.fillText(client, x + 12, y + 5);
      }
    }
  }

  const pick = ({ containerPoint: { x, y } }) => {
    const now = performance.now();
    const near = [...points].map(([client, point]) => {
      const on = map.latLngToContainerPoint(between(point, now));
      return [client, Math.hypot(on.x - x, on.y - y)];
    }).sort((a, b) => a[1] - b[1])[0];
    if (near && near[1] < 12) go("map", { client: near[0] }, { replace: true });
  };
  map.on("click", pick);
  frame = requestAnimationFrame(draw);
  return {
    show,
    frames: () => frames,
    remove() {
      cancelAnimationFrame(frame);
      map.remove();
    },
  };
}

function List({ rows }) {
  const cells = rows.slice(0, ROWS).map((row) => [row.client, row.broker, `${row.lat.toFixed(4)}, ${row.lon.toFixed(4)}`, row.attached ? "attached" : "away"]);
  return html`
    <details>
      <summary>Clients as a table</summary>
      <${Table} label="Clients" head=${["client", "broker", "latitude, longitude", "state"]} rows=${cells} empty="No client has said where it is. A place in its context, or in an event, is shown here." />
      ${rows.length > ROWS && html`<p class="dim">The first ${count(ROWS)} are shown.</p>`}
    </details>`;
}
