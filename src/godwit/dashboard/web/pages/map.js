/**
 * Map: clients whose place is known, as they move, and what happens to them: hand-overs and events. Brokers stand where
 * their configuration says, with the areas that they serve. Everything on it is in the tables below it, too.
 */

import { html } from "htm/preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { go, Link } from "../address.js";
import { useAnswer } from "../asking.js";
import { startFeed } from "../map_feed.js";
import { loaded } from "../map_library.js";
import { coloursOf, makeScene } from "../map_scene.js";
import { clock, count, counted, Problem, Table, Unanswered } from "../parts.js";

export { makeScene };

const TELL_MS = 1_000; // how often texts and tables follow the map
const BROKERS_MS = 5_000;
const REGIONS_MS = 5_000;
const ROWS = 500; // in a table
const KEPT = 200; // hand-overs
const LAYERS = [
  ["areas", "Brokers and areas"],
  ["trails", "Trails"],
  ["handOvers", "Hand-overs"],
  ["events", "Events"],
  ["places", "Named places"],
];
const NOTHING = { clients: [], handOvers: [], handOverCount: 0, brokers: [], unanswered: [], perSecond: 0, isCut: false, isTold: false };

export function Map({ parameters }) {
  const chosen = parameters.client ?? "";
  const hidden = useMemo(() => new Set((parameters.hide ?? "").split(",").filter(Boolean)), [parameters.hide]);
  const wantsRegions = parameters.regions === "1";
  const network = useAnswer("/everywhere/network", {}, BROKERS_MS);
  const here = useAnswer("/network");
  const named = useAnswer("/everywhere/places");
  const wanted = useAnswer(wantsRegions ? "/everywhere/regions" : null, {}, REGIONS_MS);
  const brokers = useStands(network.answer);
  const places = useMemo(() => placesOf(named.answer), [named.answer]);
  const regions = useMemo(() => regionsOf(wantsRegions ? wanted.answer : null), [wanted.answer, wantsRegions]);
  const [told, setTold] = useState(NOTHING);
  const [error, setError] = useState(null);
  const tiles = here.answer?.tiles ?? null;
  const seen = [...new Set([...told.brokers, ...brokers.map(({ name }) => name)])].sort();
  return html`
    <h1>Map</h1>
    <${Problem} error=${error ?? network.error} />
    <${Unanswered} found=${{ unanswered: told.unanswered, answers: answered(told) }} />
    <${Layers} hidden=${hidden} wantsRegions=${wantsRegions} parameters=${parameters} />
    ${(network.answer || network.error) && html`
      <${Canvas} brokers=${brokers} places=${places} regions=${regions} tiles=${tiles} hidden=${hidden} chosen=${chosen} onTold=${setTold} onError=${setError} />`}
    ${tiles?.attribution && html`<p class="dim">${tiles.attribution}</p>`}
    <${Legend} brokers=${seen} clients=${told.clients} />
    <p>${told.isTold ? `${counted(told.clients.length, "client")} ${told.clients.length === 1 ? "has said where it is, in its" : "have said where they are, in their"} context or in an event.` : "Asking…"}
      ${told.isTold && html` <span class="dim">${told.perSecond.toFixed(1)} updates a second.${told.isCut ? " More events come than are drawn: the latest 50 of each broker are." : ""}</span>`}</p>
    <${HandOvers} rows=${told.handOvers} all=${told.handOverCount} />
    <${Clients} rows=${told.clients} parameters=${parameters} />
    <${Places} brokers=${brokers} places=${places} regions=${regions} wantsRegions=${wantsRegions} />`;
}

function answered({ brokers, unanswered }) {
  return Object.fromEntries(brokers.filter((name) => !unanswered.includes(name)).map((name) => [name, true]));
}

/** Brokers that have said where they stand, also those that do not answer any more. */
function useStands(answer) {
  const known = useRef(new globalThis.Map());
  return useMemo(() => {
    for (const [name, told] of Object.entries(answer?.answers ?? {})) {
      if (told?.broker) known.current.set(name, { name, position: told.position, area: told.area });
    }
    const silent = new Set(answer?.unanswered ?? []);
    return [...known.current.values()].map((each) => ({ ...each, isSilent: silent.has(each.name) }));
  }, [answer]);
}

/** Named places of all brokers, each once. */
function placesOf(found) {
  const rows = Object.values(found?.answers ?? {}).flatMap((told) => told?.places ?? []);
  return [...new globalThis.Map(rows.map((row) => [row.name, row])).values()];
}

/** Regions in subscriptions, from all brokers, each once. */
function regionsOf(found) {
  const known = new globalThis.Map();
  for (const told of Object.values(found?.answers ?? {})) {
    for (const row of told?.regions ?? []) {
      const key = JSON.stringify(row.region);
      const other = known.get(key);
      known.set(key, other ? { ...other, count: other.count + row.count } : row);
    }
  }
  return [...known.values()].map((row) => ({ ...row, text: `${row.client}: ${row.subscription}${row.count > 1 ? ` and ${count(row.count - 1)} more` : ""}` }));
}

/** What is drawn: a box for each. */
function Layers({ hidden, wantsRegions, parameters }) {
  const toggle = (name) => {
    const next = new Set(hidden);
    next.has(name) ? next.delete(name) : next.add(name);
    go("map", { ...parameters, hide: [...next].join(",") }, { replace: true });
  };
  const box = (label, isOn, onChange) => html`<label class="check"><input type="checkbox" checked=${isOn} onChange=${onChange} /> ${label}</label>`;
  return html`
    <fieldset class="layers">
      <legend>Show</legend>
      ${LAYERS.map(([name, label]) => box(label, !hidden.has(name), () => toggle(name)))}
      ${box("Regions of subscriptions", wantsRegions, () => go("map", { ...parameters, regions: wantsRegions ? "" : "1" }, { replace: true }))}
    </fieldset>`;
}

function Canvas({ brokers, places, regions, tiles, hidden, chosen, onTold, onError }) {
  const place = useRef(null);
  const scene = useRef(null);
  const who = useRef(chosen);
  who.current = chosen;
  const [isReady, setReady] = useState(false);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    let isOver = false;
    const onPick = (client) => go("map", { ...Object.fromEntries(new URLSearchParams(location.search)), client }, { replace: true });
    loaded().then(({ Leaflet, countries }) => {
      if (isOver) return;
      scene.current = makeScene(Leaflet, countries, place.current, { onPick });
      setReady(true);
    }).catch((error) => isOver || setProblem(error));
    return () => {
      isOver = true;
      scene.current?.remove();
    };
  }, []);
  useEffect(() => {
    if (!isReady) return;
    scene.current.setLayers(Object.fromEntries(LAYERS.map(([name]) => [name, !hidden.has(name)])));
    scene.current.setBrokers(brokers);
  }, [isReady, hidden, brokers]);
  useEffect(() => void (isReady && scene.current.setPlaces(places)), [isReady, places]);
  useEffect(() => void (isReady && scene.current.setRegions(regions)), [isReady, regions]);
  useEffect(() => void (isReady && scene.current.setTiles(tiles)), [isReady, tiles]);
  useEffect(() => {
    if (!isReady) return undefined;
    const teller = makeTeller(onTold);
    return startFeed({
      onAnswer(found) {
        scene.current.show({ ...found, untilNextMs: found.takesMs }, who.current);
        scene.current.happen(found);
        teller(found);
        onError(null);
      },
      onError,
    });
  }, [isReady]);
  if (problem) return html`<${Problem} error=${problem} />`;
  return html`<div class="map" ref=${place} role="application" aria-label="Map of clients; the tables below say the same"></div>`;
}

/** Tells the page of answers, at most every `TELL_MS`: tables need not be written ten times a second. */
function makeTeller(onTold) {
  let toldAt = -Infinity;
  let answers = 0;
  let handOvers = [];
  let handOverCount = 0;
  let isCut = false;
  return (found) => {
    answers += 1;
    isCut ||= found.isCut;
    handOverCount += found.handOvers.length;
    handOvers = [...found.handOvers.reverse(), ...handOvers].slice(0, KEPT);
    const now = performance.now();
    if (now - toldAt < TELL_MS) return;
    const perSecond = toldAt === -Infinity ? 1_000 / found.takesMs : (1_000 * answers) / (now - toldAt);
    onTold({ ...found, clients: [...found.clients.values()], handOvers, handOverCount, isCut, perSecond, isTold: true });
    [toldAt, answers, isCut] = [now, 0, false];
  };
}

/** Which colour is which broker, and how many clients it has. */
function Legend({ brokers, clients }) {
  const colours = coloursOf(brokers);
  const counts = {};
  for (const { broker } of clients) counts[broker] = (counts[broker] ?? 0) + 1;
  const dot = (name) => html`<svg class="dot" width="12" height="12" aria-hidden="true"><circle cx="6" cy="6" r="6" fill=${colours.get(name)} /></svg>`;
  return html`<ul class="legend" aria-label="Brokers">${brokers.map((name) => html`<li>${dot(name)} ${name} <span class="dim">${count(counts[name] ?? 0)}</span></li>`)}</ul>`;
}

function HandOvers({ rows, all }) {
  const cells = rows.map(({ at, client, from, to, waiting }) => [
    html`<time>${clock(at)}</time>`, html`<${Link} page="sessions" parameters=${{ client }}>${client}<//>`, html`<span class="nowrap">${from} → ${to}</span>`, count(waiting),
  ]);
  return html`
    <h2>Hand-overs: <span class="hand-overs">${count(all)}</span></h2>
    <${Table} label="Hand-overs" head=${["time", "client", "from → to", "events that waited"]} rows=${cells} empty="No client has gone to another broker since this page was opened." />`;
}

function Clients({ rows, parameters }) {
  const cells = rows.slice(0, ROWS).map(({ client, broker, lat, lon, attached }) => [
    html`<${Link} page="map" parameters=${{ ...parameters, client }}>${client}<//>`, broker, `${lat.toFixed(4)}, ${lon.toFixed(4)}`, attached ? "attached" : "away",
  ]);
  return html`
    <details>
      <summary>Clients as a table</summary>
      <${Table} label="Clients" head=${["client", "broker", "latitude, longitude", "state"]} rows=${cells} empty="No client has said where it is. A place in its context, or in an event, is shown here." />
      ${rows.length > ROWS && html`<p class="dim">The first ${count(ROWS)} are shown.</p>`}
    </details>`;
}

/** What stands still, as tables. */
function Places({ brokers, places, regions, wantsRegions }) {
  const written = (region) => (region ? Object.entries(region).map(([kind, values]) => `${kind}(${values.join(", ")})`)[0] : "");
  const point = (at) => (at ? `${at.lat.toFixed(4)}, ${at.lon.toFixed(4)}` : "not set");
  const stands = brokers.map(({ name, position, area, isSilent }) => [name, point(position), written(area) || "not set", isSilent ? html`<span class="fails">does not answer</span>` : "answers"]);
  const named = places.slice(0, ROWS).map((row) => [row.name, point(row)]);
  const wanted = regions.slice(0, ROWS).map(({ region, client, subscription, count: many }) => [html`<code>${written(region)}</code>`, client, subscription, count(many)]);
  return html`
    <details>
      <summary>Brokers, places and regions as tables</summary>
      <h2>Brokers</h2>
      <${Table} label="Brokers" head=${["broker", "latitude, longitude", "area", "state"]} rows=${stands} empty="No broker has answered." />
      <p class="dim">A broker's place is <code>broker.position</code> in its configuration, and its area <code>broker.area</code>.</p>
      <h2>Named places</h2>
      <${Table} label="Named places" head=${["place", "latitude, longitude"]} rows=${named} empty="No movement graph says where its places lie." />
      ${wantsRegions && html`
        <h2>Regions of subscriptions</h2>
        <${Table} label="Regions" head=${["region", "client", "subscription", "subscriptions"]} rows=${wanted} empty="No subscription names a region." />`}
    </details>`;
}
