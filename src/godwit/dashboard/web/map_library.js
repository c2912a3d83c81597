/** Leaflet and the outlines of countries, loaded when a map is first shown. */

const FILES = "/dashboard/vendor/";

let library = null;

/** Both of them. What could not be loaded is tried again with the next map. */
export function loaded() {
  library ??= load().catch((error) => {
    library = null;
    throw error;
  });
  return library;
}

async function load() {
  document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: `${FILES}leaflet/leaflet.css` }));
  await script(`${FILES}leaflet/leaflet.js`);
  await script(`${FILES}topojson-client/topojson-client.min.js`);
  const world = await (await fetch(`${FILES}world-atlas/countries-110m.json`)).json();
  const countries = globalThis.topojson.feature(world, world.objects.countries);
  countries.features.forEach(({ geometry }) => rings(geometry).forEach(unwrap));
  return { Leaflet: globalThis.L, countries };
}

function rings({ type, coordinates }) {
  return type === "Polygon" ? coordinates : coordinates.flat();
}

/** Let a ring that crosses the 180th meridian go on beyond it: its parts would be joined by a line across the map. */
function unwrap(ring) {
  let shift = 0;
  const shifts = ring.map(([longitude], at) => {
    const step = at ? longitude - ring[at - 1][0] : 0;
    if (Math.abs(step) > 180) shift -= 360 * Math.sign(step);
    return shift;
  });
  if (shift !== 0) return; // it goes around a pole
  ring.forEach(([longitude, latitude], at) => { ring[at] = [longitude + shifts[at], latitude]; });
}

function script(src) {
  return new Promise((resolve, reject) => {
    const element = Object.assign(document.createElement("script"), { src });
    element.onload = resolve;
    element.onerror = () => reject(new Error(`${src} could not be loaded`));
    document.head.append(element);
  });
}
