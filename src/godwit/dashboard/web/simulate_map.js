/** The map of a recorded run, where the scenario knows positions: brokers, and clients as they move along their tracks. */

import { cornersOf, outlineStyle } from "./outlines.js";
import { colourOf } from "./simulate_graph.js";

const GAP_S = 120; // of the run, between two positions of a track: in between nobody knows

/** A map in an element. `summary.about.map` has positions of brokers and tracks of clients. */
export function makeRunMap(Leaflet, countries, element, { about, names }) {
  const style = getComputedStyle(element);
  const colour = (name) => style.getPropertyValue(name).trim();
  const map = Leaflet.map(element, { preferCanvas: true, attributionControl: false }).setView([20, 0], 2);
  Leaflet.geoJSON(countries, { style: outlineStyle(colour), interactive: false }).addTo(map);
  Leaflet.control.scale({ imperial: false }).addTo(map);
  const canvas = Leaflet.DomUtil.create("canvas", "points", element);
  const numbers = new Map(names.map((name, number) => [name, number]));
  const brokers = Object.entries(about.map.positions ?? {}).map(([name, [lon, lat]]) => ({ broker: numbers.get(name), name, at: [lat, lon] }));
  const tracks = Object.entries(about.map.tracks ?? {}).map(([name, track]) => ({ client: numbers.get(name), track }));
  const ranges = about.scenario?.clients?.roaming?.range_m;
  const areas = ranges > 0 ? brokers.flatMap(({ at }) => cornersOf(Leaflet, at, ranges)) : [];
  const all = [...brokers.map(({ at }) => at), ...areas, ...tracks.flatMap(({ track }) => track.map(([, lon, lat]) => [lat, lon]))];
  if (all.length) map.fitBounds(Leaflet.latLngBounds(all).pad(0.1), { maxZoom: 14, animate: false });
  for (const { broker, at } of brokers) {
    if (ranges > 0) Leaflet.circle(at, { radius: ranges, color: colourOf(broker ?? 0), weight: 1, fillOpacity: 0.1, interactive: false }).addTo(map);
    Leaflet.circleMarker(at, { radius: 5, color: colourOf(broker ?? 0), fillOpacity: 1, interactive: false }).addTo(map);
  }
  let shown = null;
  map.on("move zoom resize", () => shown && show(...shown));

  function show(state, at, flashS) {
    shown = [state, at, flashS];
    const [width, height, ratio] = [element.clientWidth, element.clientHeight, devicePixelRatio || 1];
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    for (const { client, track } of tracks) {
      const place = placeOn(track, at);
      if (!place) continue;
      const { x, y } = map.latLngToContainerPoint(place);
      const broker = client === undefined ? -1 : state.brokerOf[client];
      const isNew = client !== undefined && at - state.movedAt[client] < flashS;
      pen.fillStyle = broker < 0 ? colour("--dim") : colourOf(broker);
      pen.beginPath();
      pen.arc(x, y, isNew ? 8 : 5, 0, 2 * Math.PI);
      pen.fill();
      if (isNew) {
        pen.strokeStyle = colour("--warn");
        pen.lineWidth = 2;
        pen.stroke();
      }
    }
  }

  return { show, remove: () => map.remove() };
}

/** Where a track is at a time, as [lat, lon]; null where that is not known. */
export function placeOn(track, at) {
  let [low, high] = [0, track.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (track[middle][0] <= at) low = middle + 1;
    else high = middle;
  }
  if (low === 0 || low === track.length) return null;
  const [[from, lon, lat], [to, toLon, toLat]] = [track[low - 1], track[low]];
  if (to - from > GAP_S) return null;
  const share = (at - from) / (to - from || 1);
  return [lat + (toLat - lat) * share, lon + (toLon - lon) * share];
}
