/**
 * A map in an element: what stands still (tiles, outlines, areas, regions) is drawn by Leaflet, and what moves (clients,
 * trails, hand-overs, events) on one canvas over it, since thousands of points move at once.
 *
 * Places are kept as shares of the whole world in Mercator's projection, so that a frame only scales and shifts them.
 * Between two answers of the brokers a point glides from its last place to its next one.
 */

import { outlineStyle } from "./outlines.js";

const REFRESH_MS = 1_000;
const GLIDE_MS_MAX = 3_000;
const SLACK = 1.1; // updates do not come like clockwork
const TRAIL = 60; // places
const TRAIL_STEP_MS = 500;
const TRAILS_MAX = 500; // clients
const HAND_OVER_MS = 4_000;
const EVENT_MS = 1_500;
const EVENTS_MAX = 2_000;
const LABELS_MAX = 150;
const NEAR = 12; // pixels
const HALF = 0.5; // of the world
const FONT = "13px system-ui, sans-serif";

/** The colour of each broker, by its name. */
export function coloursOf(brokers) {
  return new Map([...brokers].sort().map((name, at) => [name, `hsl(${(172 + at * 137) % 360} 70% 45%)`]));
}

/** A map. `onPick`: a client was clicked. */
export function makeScene(Leaflet, countries, element, { onPick = () => {} } = {}) {
  const style = getComputedStyle(element);
  const colour = (name) => style.getPropertyValue(name).trim();
  const map = Leaflet.map(element, { preferCanvas: true, zoomAnimation: false, zoomSnap: 0.25, attributionControl: false, maxZoom: 19 }).setView([20, 0], 2);
  const outlines = Leaflet.geoJSON(countries, { style: outlineStyle(colour), interactive: false }).addTo(map);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const onScheme = () => outlines.setStyle(outlineStyle(colour));
  scheme.addEventListener("change", onScheme);
  Leaflet.control.scale({ imperial: false }).addTo(map);
  const areas = Leaflet.layerGroup().addTo(map);
  const regions = Leaflet.layerGroup().addTo(map);
  const canvas = Leaflet.DomUtil.create("canvas", "points", element);
  canvas.setAttribute("aria-hidden", "true");
  const points = new Map(); // by client: where it is drawn from and to, since when, its trail
  let stands = new Map(); // by broker: its name, place, and whether it answers
  let places = [];
  let lines = []; // hand-overs that are still seen
  let rings = []; // events that are still seen
  let tiles = null;
  let colours = new Map();
  let layers = { trails: true, areas: true, handOvers: true, events: true, places: true };
  let chosen = "";
  let hasFitted = false;
  let frame = 0;
  let frames = 0;

  // ---------------------------------------------------------------- what to show

  /**
   * These clients have changed: each glides to where it is now, for as long as it took since it last moved. So one that
   * says every second where it is moves all the time, and does not jump once a second.
   */
  function show({ changed, gone, brokers, untilNextMs = REFRESH_MS }, who) {
    chosen = who;
    colours = coloursOf(new Set([...brokers, ...stands.keys()]));
    const now = performance.now();
    for (const { client, lon, lat, broker, attached } of changed) {
      const [x, y] = worldOf(lon, lat);
      const point = points.get(client) ?? { x, y, toX: x, toY: y, trail: [], trailedAt: -Infinity, since: -Infinity, takesMs: 1 };
      [point.broker, point.attached] = [broker, attached];
      points.set(client, point);
      if (point.toX === x && point.toY === y) continue;
      [point.fromX, point.fromY] = between(point, now);
      const stoodMs = now - point.since;
      point.takesMs = Math.max(untilNextMs, stoodMs > GLIDE_MS_MAX ? REFRESH_MS : SLACK * stoodMs);
      [point.toX, point.toY, point.since] = [x, y, now];
      if (Math.abs(x - point.fromX) > HALF) { // over the meridian where the world is cut: it does not go around the world
        [point.fromX, point.fromY, point.trail] = [x, y, []];
        continue;
      }
      if (now - point.trailedAt >= TRAIL_STEP_MS) {
        point.trail.push(point.fromX, point.fromY);
        if (point.trail.length > 2 * TRAIL) point.trail.splice(0, 2);
        point.trailedAt = now;
      }
    }
    for (const client of gone) points.delete(client);
    fit();
  }

  /** Brokers stand here, and serve these areas. */
  function setBrokers(brokers) {
    stands = new Map(brokers.map(({ name, position, area, isSilent }) => [name, { name, isSilent, at: position && worldOf(position.lon, position.lat) }]));
    colours = coloursOf(new Set([...colours.keys(), ...stands.keys()]));
    areas.clearLayers();
    if (!layers.areas) return;
    for (const { name, area, isSilent } of brokers) {
      const ink = isSilent ? colour("--bad") : colours.get(name);
      const look = { color: ink, weight: 1.5, fillColor: ink, fillOpacity: 0.08, dashArray: isSilent ? "6 6" : null, interactive: false };
      if (area) shapeOf(Leaflet, area, look).addTo(areas);
    }
  }

  /** These places have names. */
  function setPlaces(rows) {
    places = rows.map(({ name, lon, lat }) => ({ name, at: worldOf(lon, lat) }));
  }

  /** Subscriptions name these regions; `text` describes the one under the pointer. */
  function setRegions(rows) {
    regions.clearLayers();
    for (const { region, text } of rows) {
      const look = { color: colour("--accent"), weight: 1.5, dashArray: "4 5", fillColor: colour("--accent"), fillOpacity: 0.05 };
      const said = document.createElement("span"); // as an element: a text would be read as HTML
      said.textContent = text;
      shapeOf(Leaflet, region, look).bindTooltip(said, { sticky: true }).addTo(regions);
    }
  }

  /** Pictures below everything else, instead of outlines. */
  function setTiles(told) {
    tiles?.remove();
    tiles = null;
    if (!told) return;
    const [level_min, level_max] = told.levels ?? [0, 19];
    tiles = Leaflet.tileLayer(told.url, { minNativeZoom: level_min, maxNativeZoom: level_max, maxZoom: 19, noWrap: false, referrerPolicy: "origin" }).addTo(map);
    outlines.remove();
  }

  /** This has just happened. */
  function happen({ handOvers, events }) {
    const now = performance.now();
    if (layers.handOvers) lines.push(...handOvers.map((each) => ({ ...each, since: now })));
    if (layers.events) rings.push(...events.map(({ lon, lat, broker }) => ({ at: worldOf(lon, lat), broker, since: now })));
    rings = rings.slice(-EVENTS_MAX);
  }

  /** What is drawn and what is not. */
  function setLayers(wanted) {
    layers = { ...layers, ...wanted };
    if (!layers.areas) areas.clearLayers();
  }

  /** Show all there is, the first time that there is anything. */
  function fit() {
    const known = [...[...points.values()].map(({ toX, toY }) => [toX, toY]), ...[...stands.values()].map(({ at }) => at).filter(Boolean)];
    if (hasFitted || known.length === 0) return;
    hasFitted = true;
    const bounds = Leaflet.latLngBounds(known.map(([x, y]) => latLngOf(x, y)));
    areas.eachLayer((layer) => bounds.extend(layer.getBounds()));
    map.fitBounds(bounds.pad(0.05), { maxZoom: 15, animate: false });
  }

  // ---------------------------------------------------------------- drawing

  function between({ fromX, fromY, toX, toY, since, takesMs }, now) {
    if (now - since >= takesMs) return [toX, toY];
    const share = Math.max(0, (now - since) / takesMs);
    return [fromX + (toX - fromX) * share, fromY + (toY - fromY) * share];
  }

  function draw(now) {
    frame = requestAnimationFrame(draw);
    frames += 1;
    const [width, height, ratio] = [element.clientWidth, element.clientHeight, devicePixelRatio || 1];
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) [canvas.width, canvas.height] = [width * ratio, height * ratio];
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const view = viewOf(map, width, height);
    for (const point of points.values()) [point.x, point.y] = between(point, now);
    if (layers.trails) drawTrails(pen, view);
    if (layers.places) drawPlaces(pen, view);
    drawEvents(pen, view, now);
    drawPoints(pen, view);
    if (layers.areas) drawBrokers(pen, view);
    drawHandOvers(pen, view, now);
    drawChosen(pen, view);
  }

  function drawTrails(pen, view) {
    const isFew = points.size <= TRAILS_MAX;
    pen.globalAlpha = 0.5;
    pen.lineWidth = 2;
    for (const [client, point] of points) {
      if ((!isFew && client !== chosen) || point.trail.length < 4 || !view.sees(point.x, point.y)) continue;
      pen.strokeStyle = colours.get(point.broker);
      pen.beginPath();
      for (let at = 0; at < point.trail.length; at += 2) pen.lineTo(view.x(point.trail[at]), view.y(point.trail[at + 1]));
      pen.lineTo(view.x(point.x), view.y(point.y));
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  /** All of one colour at once: a path each would take most of a frame. */
  function drawPoints(pen, view) {
    const groups = new Map();
    for (const point of points.values()) {
      if (!view.sees(point.x, point.y)) continue;
      const key = `${point.broker} ${point.attached}`;
      const group = groups.get(key) ?? { ink: colours.get(point.broker), isFaint: !point.attached, found: [] };
      group.found.push(point);
      groups.set(key, group);
    }
    for (const { ink, isFaint, found } of groups.values()) {
      pen.fillStyle = ink ?? colour("--accent");
      pen.globalAlpha = isFaint ? 0.4 : 1;
      pen.beginPath();
      for (const { x, y } of found) {
        pen.moveTo(view.x(x) + 4, view.y(y));
        pen.arc(view.x(x), view.y(y), 4, 0, 2 * Math.PI);
      }
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  function drawPlaces(pen, view) {
    const seen = places.filter(({ at }) => view.sees(...at));
    pen.font = FONT;
    for (const { name, at } of seen) {
      const [x, y] = [view.x(at[0]), view.y(at[1])];
      pen.fillStyle = colour("--dim");
      pen.fillRect(x - 2, y - 2, 5, 5);
      if (seen.length <= LABELS_MAX) write(pen, name, x + 6, y + 4, "--dim");
    }
  }

  function drawBrokers(pen, view) {
    pen.font = `600 ${FONT}`;
    pen.lineWidth = 2;
    for (const { name, at, isSilent } of stands.values()) {
      if (!at || !view.sees(...at)) continue;
      const [x, y] = [view.x(at[0]), view.y(at[1])];
      pen.fillStyle = isSilent ? colour("--bad") : colours.get(name);
      pen.strokeStyle = colour("--paper");
      pen.fillRect(x - 6, y - 6, 12, 12);
      pen.strokeRect(x - 6, y - 6, 12, 12);
      write(pen, isSilent ? `${name} does not answer` : name, x + 11, y + 5);
    }
  }

  /** A line from broker to broker that fades, with a point that goes along it. */
  function drawHandOvers(pen, view, now) {
    lines = lines.filter(({ since }) => now - since < HAND_OVER_MS);
    for (const { client, from, to, since } of lines) {
      const [a, end] = [placeOf(from), placeOf(to)];
      if (!a || !end) continue;
      const b = [end[0] + (Math.abs(end[0] - a[0]) > HALF ? Math.sign(a[0] - end[0]) : 0), end[1]]; // the short way
      const share = (now - since) / HAND_OVER_MS;
      const [ax, ay, bx, by] = [view.x(a[0]), view.y(a[1]), view.x(b[0]), view.y(b[1])];
      const along = Math.min(1, 2.5 * share);
      pen.globalAlpha = 1 - share;
      pen.strokeStyle = colours.get(to) ?? colour("--accent");
      pen.lineWidth = 3;
      pen.beginPath();
      pen.moveTo(ax, ay);
      pen.lineTo(bx, by);
      pen.stroke();
      pen.fillStyle = colour("--text");
      pen.beginPath();
      pen.arc(ax + (bx - ax) * along, ay + (by - ay) * along, 5, 0, 2 * Math.PI);
      pen.fill();
      pen.font = FONT;
      write(pen, client, ax + (bx - ax) * along + 9, ay + (by - ay) * along - 6);
    }
    pen.globalAlpha = 1;
  }

  /** Where a broker stands or, if nobody has said so, in the middle of its clients. */
  function placeOf(broker) {
    const stand = stands.get(broker);
    if (stand?.at) return stand.at;
    const clients = [...points.values()].filter((point) => point.broker === broker);
    if (clients.length === 0) return null;
    return [clients.reduce((sum, { x }) => sum + x, 0) / clients.length, clients.reduce((sum, { y }) => sum + y, 0) / clients.length];
  }

  function drawEvents(pen, view, now) {
    rings = rings.filter(({ since }) => now - since < EVENT_MS);
    pen.lineWidth = 1.5;
    for (const { at, broker, since } of rings) {
      if (!view.sees(...at)) continue;
      const share = (now - since) / EVENT_MS;
      pen.globalAlpha = 0.8 * (1 - share);
      pen.strokeStyle = colours.get(broker) ?? colour("--accent");
      pen.beginPath();
      pen.arc(view.x(at[0]), view.y(at[1]), 5 + 11 * share, 0, 2 * Math.PI);
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  function drawChosen(pen, view) {
    const point = points.get(chosen);
    if (!point) return;
    pen.fillStyle = colours.get(point.broker) ?? colour("--accent");
    pen.beginPath();
    pen.arc(view.x(point.x), view.y(point.y), 8, 0, 2 * Math.PI);
    pen.fill();
    pen.font = `600 ${FONT}`;
    write(pen, chosen, view.x(point.x) + 12, view.y(point.y) + 5);
  }

  /** A text that can be read on anything. */
  function write(pen, text, x, y, ink = "--text") {
    pen.lineWidth = 3;
    pen.strokeStyle = colour("--paper");
    pen.fillStyle = colour(ink);
    pen.strokeText(text.slice(0, 40), x, y);
    pen.fillText(text.slice(0, 40), x, y);
  }

  map.on("click", ({ containerPoint }) => {
    const view = viewOf(map, element.clientWidth, element.clientHeight);
    const away = ({ x, y }) => Math.hypot(view.x(x) - containerPoint.x, view.y(y) - containerPoint.y);
    const [nearest] = [...points].map(([client, point]) => [client, away(point)]).sort((a, b) => a[1] - b[1]);
    if (nearest?.[1] < NEAR) onPick(nearest[0]);
  });
  frame = requestAnimationFrame(draw);
  return {
    show,
    setBrokers,
    setPlaces,
    setRegions,
    setTiles,
    setLayers,
    happen,
    frames: () => frames,
    remove() {
      cancelAnimationFrame(frame);
      scheme.removeEventListener("change", onScheme);
      map.remove();
    },
  };
}

/** A place as shares of the world from west and from north. */
function worldOf(lon, lat) {
  const sine = Math.sin((Math.max(-85.05, Math.min(85.05, lat)) * Math.PI) / 180);
  return [lon / 360 + 0.5, 0.5 - Math.log((1 + sine) / (1 - sine)) / (4 * Math.PI)];
}

function latLngOf(x, y) {
  return [(Math.atan(Math.sinh(Math.PI * (1 - 2 * y))) * 180) / Math.PI, (x - 0.5) * 360];
}

/** How shares of the world become pixels of the canvas. */
function viewOf(map, width, height) {
  const size = map.options.crs.scale(map.getZoom());
  const { min } = map.getPixelBounds();
  const x = (share) => share * size - min.x;
  const y = (share) => share * size - min.y;
  const sees = (atX, atY) => x(atX) > -20 && x(atX) < width + 20 && y(atY) > -20 && y(atY) < height + 20;
  return { x, y, sees };
}

/** A region, as the filter language writes it in JSON, as a layer of Leaflet's. */
function shapeOf(Leaflet, region, look) {
  if (region.circle) {
    const [lon, lat, radius] = region.circle;
    return Leaflet.circle([lat, lon], { ...look, radius });
  }
  if (region.box) {
    const [west, south, east, north] = region.box;
    return Leaflet.rectangle([[south, west], [north, east < west ? east + 360 : east]], look);
  }
  return Leaflet.polygon(region.polygon.map(([lon, lat]) => [lat, lon]), look);
}
