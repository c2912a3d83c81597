/** The map of a plan: positions of clients, brokers with their areas, and gaps. A click puts a broker there. */

import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { loaded } from "./map_library.js";
import { cornersOf, outlineStyle } from "./outlines.js";
import { Problem } from "./parts.js";

const STRAYS = 0.01; // of all points, at each end

/** `brokers`: name, lon, lat, radius_m. `points`: [lat, lon]. `gaps`: lon, lat, share. `links`: a, b. */
export function PlanMap({ brokers, points = [], gaps = [], links = [], cellM = 0, onClick }) {
  const place = useRef(null);
  const scene = useRef(null);
  const clicked = useRef(onClick);
  clicked.current = onClick;
  const [isReady, setReady] = useState(false);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    let isOver = false;
    loaded().then(({ Leaflet, countries }) => {
      if (isOver) return;
      scene.current = makeScene(Leaflet, countries, place.current, (lat, lon) => clicked.current?.(lat, lon));
      setReady(true);
    }).catch((error) => isOver || setProblem(error));
    return () => {
      isOver = true;
      scene.current?.remove();
    };
  }, []);
  const key = JSON.stringify([brokers, points.length, gaps, links]);
  useEffect(() => {
    if (isReady) scene.current.show({ brokers, points, gaps, links, cellM });
  }, [key, points, isReady]);
  if (problem) return html`<${Problem} error=${problem} />`;
  return html`<div class="map" ref=${place} role="application" aria-label="Map of brokers and positions; the tables say the same"></div>`;
}

/** Points between the first and the last hundredth, to the north and to the east: one wrong position must not hide all others. */
function withoutStrays(points) {
  const [south, north, west, east] = [0, 1].flatMap((axis) => {
    const sorted = points.map((point) => point[axis]).sort((a, b) => a - b);
    const few = Math.floor(STRAYS * sorted.length);
    return [sorted[few], sorted[sorted.length - 1 - few]];
  });
  return points.filter(([lat, lon]) => lat >= south && lat <= north && lon >= west && lon <= east);
}

function makeScene(Leaflet, countries, element, onClick) {
  const style = getComputedStyle(element);
  const colour = (name) => style.getPropertyValue(name).trim();
  const map = Leaflet.map(element, { preferCanvas: true, attributionControl: false }).setView([20, 0], 2);
  Leaflet.geoJSON(countries, { style: outlineStyle(colour), interactive: false }).addTo(map);
  Leaflet.control.scale({ imperial: false }).addTo(map);
  const layer = Leaflet.layerGroup().addTo(map);
  let fitted = "";
  map.on("click", ({ latlng }) => onClick(latlng.lat, latlng.lng));

  function show({ brokers, points, gaps, links, cellM }) {
    layer.clearLayers();
    const add = (shape) => shape.addTo(layer);
    for (const point of points) add(Leaflet.circleMarker(point, { radius: 2, stroke: false, fillColor: colour("--dim"), fillOpacity: 0.6, interactive: false }));
    const placed = brokers.map((each) => ({ ...each, lon: Number(each.lon), lat: Number(each.lat), radius: Number(each.radius_m) }))
      .filter(({ lon, lat }) => Math.abs(lat) <= 90 && Math.abs(lon) <= 180);
    const at = new globalThis.Map(placed.map(({ broker, lat, lon }) => [broker, [lat, lon]]));
    for (const { a, b, moves } of links) {
      if (at.has(a) && at.has(b)) add(Leaflet.polyline([at.get(a), at.get(b)], { color: colour("--accent"), weight: 2 + Math.min(6, Math.log2(1 + moves)), opacity: 0.8, interactive: false }));
    }
    for (const { lat, lon, radius } of placed) {
      if (radius > 0) add(Leaflet.circle([lat, lon], { radius, color: colour("--accent"), weight: 1, fillOpacity: 0.12, interactive: false }));
      add(Leaflet.circleMarker([lat, lon], { radius: 6, color: colour("--accent"), fillOpacity: 1, interactive: false }));
    }
    for (const { lat, lon } of gaps) add(Leaflet.circle([lat, lon], { radius: cellM / 2, color: colour("--bad"), weight: 2, fillOpacity: 0.3, interactive: false }));
    const areas = placed.filter(({ radius }) => radius > 0).flatMap(({ lat, lon, radius }) => cornersOf(Leaflet, [lat, lon], radius));
    fit(placed.map(({ lat, lon }) => [lat, lon]), points, areas);
  }

  /** Show all of it, but only when something else is to be seen than before: a click must not move the map. */
  function fit(places, points, areas) {
    const key = `${points.length} ${points[0]} ${places.length > 1 ? places[0] : ""}`;
    const all = [...places, ...areas, ...withoutStrays(points)];
    if (key === fitted || all.length === 0 || (points.length === 0 && places.length === 1)) return;
    fitted = key;
    map.fitBounds(Leaflet.latLngBounds(all).pad(0.15), { maxZoom: 14, animate: false });
  }

  return { show, remove: () => map.remove() };
}
