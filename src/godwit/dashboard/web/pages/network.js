/**
 * Network: brokers and links as a graph with rates, table sizes and what is down, and the tables of the broker that
 * was picked.
 *
 * The graph is drawn on a canvas; everything in it is in the tables below it, too, for those who cannot see or point.
 * Brokers count the events on links only while this page asks for that.
 */

import { html } from "htm/preact";
import { useMemo, useRef } from "preact/hooks";
import { Link } from "../address.js";
import { useAnswer } from "../asking.js";
import { count, Problem, Table, Unanswered } from "../parts.js";
import { Graph, rateText } from "./network_graph.js";
import { Routes, sizesText } from "./network_tables.js";

const REFRESH_MS = 2_000;

export function Network({ parameters }) {
  const { answer, error } = useAnswer("/everywhere/links", { rates: "yes" }, REFRESH_MS);
  const tables = useAnswer("/everywhere/routes", { limit: 0 }, 2 * REFRESH_MS);
  const rates = useRates(answer);
  const known = useRef([]); // links, as they were told last
  const { brokers, links } = useMemo(() => withKnown(graphOf(answer, rates), known), [answer]);
  const chosen = parameters.broker ?? "";
  return html`
    <h1>Network</h1>
    <${Problem} error=${error} />
    <${Unanswered} found=${answer} />
    ${answer && html`
      <${Graph} brokers=${brokers} links=${links} chosen=${chosen} />
      <p class="dim">Beside each end of a link: events a second that come to that broker. A broken line is a link that is down.</p>
      <${Brokers} brokers=${brokers} tables=${tables.answer?.answers ?? {}} />
      <${Links} links=${links} />`}
    ${chosen && html`<${Routes} key=${chosen} broker=${chosen} from=${parameters.from} local=${parameters.local} />`}`;
}

/** Events a second by "from to", from the sums of two answers; null while there is only one. */
function useRates(answer) {
  const before = useRef({ answer: null, sums: {}, rates: {} });
  if (answer && before.current.answer !== answer) {
    const sums = {};
    const rates = {};
    for (const [broker, rows] of Object.entries(answer.answers)) {
      for (const { peer, at, received_events: events } of Array.isArray(rows) ? rows : []) {
        const key = `${peer} ${broker}`;
        const last = before.current.sums[key];
        sums[key] = { at, events };
        rates[key] = last && at > last.at && events >= last.events ? (events - last.events) / (at - last.at) : null;
      }
    }
    before.current = { answer, sums, rates };
  }
  return before.current.rates;
}

/** Brokers and links, from what every broker says of its own links. A link is up if both ends say so. */
export function graphOf(found, rates = {}) {
  const answers = found?.answers ?? {};
  const names = new Set([...Object.keys(answers), ...(found?.unanswered ?? [])]);
  const links = new Map();
  for (const [broker, rows] of Object.entries(answers)) {
    for (const row of Array.isArray(rows) ? rows : []) {
      names.add(row.peer);
      const [a, b] = [broker, row.peer].sort();
      const key = JSON.stringify([a, b]);
      const link = links.get(key) ?? { key, a, b, isUp: true, outbox: 0, faults: [], roundTripS: null, toA: null, toB: null };
      link.isUp = link.isUp && row.up;
      link.outbox += row.outbox;
      link.roundTripS ??= row.round_trip_s;
      link[broker === a ? "toA" : "toB"] = rates[`${row.peer} ${broker}`] ?? null;
      if (row.fault) link.faults.push(`${broker}: ${row.fault}`);
      links.set(key, link);
    }
  }
  const silent = new Set(found?.unanswered ?? []);
  const brokers = [...names].sort().map((name) => ({ name, isSilent: silent.has(name) }));
  return { brokers, links: [...links.values()] };
}

/** The same, with links between brokers that are both silent now: nobody tells of them. */
export function withKnown({ brokers, links }, known) {
  const silent = new Set(brokers.filter(({ isSilent }) => isSilent).map(({ name }) => name));
  const told = new Set(links.map(({ key }) => key));
  const untold = known.current.filter(({ key, a, b }) => !told.has(key) && silent.has(a) && silent.has(b));
  known.current = [...links, ...untold.map((link) => ({ ...link, isUp: false, outbox: 0, faults: ["neither end answers"], roundTripS: null, toA: null, toB: null }))];
  return { brokers, links: known.current };
}

function Brokers({ brokers, tables }) {
  const rows = brokers.map(({ name, isSilent }) => {
    const found = tables[name];
    return [
      html`<${Link} page="network" parameters=${{ broker: name }}>${name}<//>`,
      isSilent ? html`<span class="fails">does not answer</span>` : html`<span class="holds">answers</span>`,
      found?.sizes ? html`<span class="line">${sizesText(found.sizes)}</span>` : "",
      found?.sizes ? `${found.family}, ${found.reduction}${found.settled ? "" : ", changing"}` : "",
    ];
  });
  const head = ["broker", "state", "table entries", "routing"];
  return html`<h2>Brokers</h2><${Table} label="Brokers" head=${head} rows=${rows} empty="There is no broker." />`;
}

function Links({ links }) {
  const rows = links.map(({ a, b, isUp, outbox, roundTripS, faults, toA, toB }) => [
    html`<span class="nowrap">${a} – ${b}</span>`,
    isUp ? html`<span class="holds">up</span>` : html`<span class="fails">down</span>`,
    `${rateText(toB)} to ${b}, ${rateText(toA)} to ${a}`,
    count(outbox),
    roundTripS ? `${(1000 * roundTripS).toFixed(1)} ms` : "",
    faults.join("; "),
  ]);
  const head = ["link", "state", "events a second", "messages that wait", "round trip", "last fault"];
  return html`<h2>Links</h2><${Table} label="Links" head=${head} rows=${rows} empty="This broker stands alone." />`;
}
