/** Leaflet and the outlines of countries, loaded when a map is first shown. */

import { outlinesOf } from "./outlines.js";

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
  const countries = outlinesOf(globalThis.topojson.feature(world, world.objects.countries));
  return { Leaflet: globalThis.L, countries };
}

function script(src) {
  return new Promise((resolve, reject) => {
    const element = Object.assign(document.createElement("script"), { src });
    element.onload = resolve;
    element.onerror = () => reject(new Error(`${src} could not be loaded`));
    document.head.append(element);
  });
}
