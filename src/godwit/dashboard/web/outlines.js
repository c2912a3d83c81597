/**
 * Outlines of countries, cut at the 180th meridian: a ring that crosses it would draw a line across the whole map.
 *
 * What is filled and what is drawn as a line are apart, so that the cut itself is not seen.
 */

const EDGE = 180;
const NEAR = 0.02; // degrees: the outlines are rounded to about that

/** Features to fill, and features to draw as lines. */
export function outlinesOf(countries) {
  const found = [];
  for (const { geometry } of countries.features) {
    for (const polygon of geometry.type === "Polygon" ? [geometry.coordinates] : geometry.coordinates) {
      const [outer, ...holes] = polygon.map(split);
      outer.forEach((ring, at) => found.push(feature("Polygon", at === 0 ? [ring, ...holes.flat()] : [ring])));
      const lines = polygon.flatMap(linesOf);
      if (lines.length) found.push(feature("MultiLineString", lines));
    }
  }
  return { type: "FeatureCollection", features: found };
}

/** The look of a feature, in the colours of the page. */
export function outlineStyle(colour) {
  return ({ geometry }) => (geometry.type === "Polygon" ? { stroke: false, fillColor: colour("--land"), fillOpacity: 1 } : { color: colour("--coast"), weight: 1, fill: false });
}

function feature(type, coordinates) {
  return { type: "Feature", properties: {}, geometry: { type, coordinates } };
}

/** The parts of a ring on either side of the meridian, each within -180 to 180. */
export function split(ring) {
  const whole = unwrapped(ring);
  if (whole === null) return [ring]; // it goes around a pole
  const parts = [-360, 0, 360].map((shift) => clipped(whole, shift - EDGE, shift + EDGE).map(([lon, lat]) => [lon - shift, lat]));
  return parts.filter((part) => part.length > 3);
}

/** A ring that goes on beyond the meridian; null: its end is not where it began. */
function unwrapped(ring) {
  let shift = 0;
  const whole = ring.map(([lon, lat], at) => {
    const step = at ? lon - ring[at - 1][0] : 0;
    if (Math.abs(step) > EDGE) shift -= 360 * Math.sign(step);
    return [lon + shift, lat];
  });
  return shift === 0 ? whole : null;
}

/** What of a ring lies between two meridians. */
function clipped(ring, west, east) {
  const cut = (points, isIn, edge) => points.flatMap((point, at) => {
    const before = points.at(at - 1);
    if (isIn(point) === isIn(before)) return isIn(point) ? [point] : [];
    const share = (edge - before[0]) / (point[0] - before[0]);
    const crossing = [edge, before[1] + share * (point[1] - before[1])];
    return isIn(point) ? [crossing, point] : [crossing];
  });
  const eastOfWest = cut(ring.slice(0, -1), ([lon]) => lon >= west, west);
  const inside = eastOfWest.length ? cut(eastOfWest, ([lon]) => lon <= east, east) : [];
  const [lons, lats] = [inside.map(([lon]) => lon), inside.map(([, lat]) => lat)];
  const isThin = Math.max(...lons) - Math.min(...lons) < NEAR || Math.max(...lats) - Math.min(...lats) < NEAR;
  return inside.length && !isThin ? [...inside, inside[0]] : [];
}

/** A ring as lines, without the steps across and along the meridian. */
export function linesOf(ring) {
  const lines = [[]];
  ring.forEach((point, at) => {
    const before = ring[at - 1];
    if (before && (Math.abs(point[0] - before[0]) > EDGE || (isOnEdge(point) && isOnEdge(before)))) lines.push([]);
    lines.at(-1).push(point);
  });
  return lines.filter((line) => line.length > 1);
}

function isOnEdge([lon]) {
  return EDGE - Math.abs(lon) < NEAR;
}

/** Two corners of the square around a circle: a map that is fitted to them shows all of the circle. */
export function cornersOf(Leaflet, at, radiusM) {
  const square = Leaflet.latLng(at).toBounds(2 * radiusM);
  return [square.getSouthWest(), square.getNorthEast()];
}
