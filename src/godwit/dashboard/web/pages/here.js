/**
 * What is here: the attributes of the last events of the whole network, by names, values and senders.
 *
 * A click on a name or a value adds it to a filter, and only events that match are summed up: as one goes down a tree of
 * topics. The filter is in the address; with it one listens, or goes on in the workbench.
 */

import { html } from "htm/preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { go, Link } from "../address.js";
import { useLasting } from "../asking.js";
import { FilterProblem, useCheckedFilter } from "../filters.js";
import { count, Problem, shown, Unanswered } from "../parts.js";

const REFRESH_MS = 5_000;
const TOP = 6; // values that are shown
const TOP_PLACES = 2; // the same of places, which seldom come twice
const TOP_SENDERS = 3;
const MARKS = 64; // smallest hashes of senders' names that a broker tells
const MARK_END = 2 ** 32;

export function Here({ parameters }) {
  const { filter = "" } = parameters;
  const { problem, isUsable } = useCheckedFilter(filter);
  const { answer, error } = useLasting(isUsable ? "/everywhere/attributes" : null, { filter }, REFRESH_MS);
  const [search, setSearch] = useState("");
  const { rows, events, lookedAt } = useMemo(() => merged(answer), [answer]);
  const found = rows.filter(({ name }) => name.toLowerCase().includes(search.toLowerCase()));
  const add = (part) => addressWith(filter, part);
  return html`
    <h1>What is here</h1>
    <p class="dim">Click a name or a value: it is added to the filter, and the table shows what the events that match have.</p>
    <${Building} filter=${filter} />
    <${FilterProblem} text=${filter} problem=${problem} />
    <${Problem} error=${error} />
    <${Unanswered} found=${answer} />
    ${answer && !problem && html`
      <div class="question">
        <label>Search <input type="search" value=${search} onInput=${(typed) => setSearch(typed.target.value)} placeholder="part of a name" /></label>
        <span role="status">${filter ? `${count(events)} of the last ${count(lookedAt)} events match` : `The last ${count(events)} events`}</span>
      </div>`}
    ${answer && !problem && found.length === 0 && html`<p class="empty">${
      rows.length ? "No attribute has that in its name." : lookedAt ? "None of the last events match." : "No event has been published since the brokers started."}</p>`}
    ${found.length > 0 && !problem && html`
      <div class="scroll tall" tabindex="0" role="region" aria-label="Attributes">
        <table class="cards">
          <thead><tr>${["attribute", "events", "kind", "range", "frequent values", "senders"].map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
          <tbody>${found.map((row) => html`<${Row} key=${row.name} row=${row} events=${events} add=${add} />`)}</tbody>
        </table>
      </div>`}`;
}

/** The parameters of this page with one more part of the filter; a part that is in it already is not added again. */
export function addressWith(filter, part) {
  const isIn = filter.split(" AND ").includes(part);
  const before = / OR /i.test(filter) ? `(${filter})` : filter;
  return { filter: !filter ? part : isIn ? filter : `${before} AND ${part}` };
}

/** The filter that the clicks have built; it can be changed by hand. */
function Building({ filter }) {
  const [typed, setTyped] = useState(filter);
  useEffect(() => setTyped(filter), [filter]);
  const submit = (submitted) => {
    submitted.preventDefault();
    go("here", { filter: typed.trim() });
  };
  return html`
    <form class="question" onSubmit=${submit}>
      <label class="wide">Filter
        <input class="code" value=${typed} onInput=${(event) => setTyped(event.target.value)} spellcheck=${false} autocomplete="off" placeholder="every event" />
      </label>
      <button>Show</button>
      ${filter && html`
        <${Link} class="button" page="live" parameters=${{ filter }}>Listen<//>
        <${Link} class="button" page="workbench" parameters=${{ filter }}>Workbench<//>
        <${Link} class="button" page="here">Clear<//>`}
    </form>`;
}

/** One table of what all brokers have said. */
export function merged(found) {
  const byName = new Map();
  const sums = { events: 0, lookedAt: 0 };
  for (const answer of Object.values(found?.answers ?? {})) {
    if (!answer?.attributes) continue;
    sums.events += answer.events;
    sums.lookedAt += answer.looked_at;
    for (const row of answer.attributes) {
      const sum = byName.get(row.name) ?? { name: row.name, filter: row.filter, events: 0, kinds: {}, top: new Map(), range: null, marks: [], topSenders: [] };
      sum.events += row.events;
      sum.marks.push(row.sender_marks);
      sum.topSenders.push(row.top_senders);
      for (const [kind, number] of Object.entries(row.kinds)) sum.kinds[kind] = (sum.kinds[kind] ?? 0) + number;
      for (const [at, [value, number]] of row.top.entries()) {
        const key = JSON.stringify(value);
        sum.top.set(key, { value, filter: row.top_filters[at], number: number + (sum.top.get(key)?.number ?? 0) });
      }
      sum.range = wider(sum.range, row.range);
      byName.set(row.name, sum);
    }
  }
  const rows = [...byName.values()].sort((a, b) => b.events - a.events || (a.name < b.name ? -1 : 1));
  return { rows, ...sums };
}

/** How many senders there are, from the smallest hashes of their names at each broker: a client that moves counts once. */
export function sendersIn(marks) {
  const all = [...new Set(marks.flat())].sort((a, b) => a - b);
  if (marks.every((each) => each.length < MARKS)) return { number: all.length, isExact: true };
  return { number: Math.round(((MARKS - 1) * MARK_END) / all[MARKS - 1]), isExact: false };
}

function wider(a, b) {
  if (!a || !b) return a ?? b;
  const isLess = (x, y) => (typeof x === "number" && typeof y === "number" ? x < y : shown(x) < shown(y));
  return [isLess(b[0], a[0]) ? b[0] : a[0], isLess(a[1], b[1]) ? b[1] : a[1]];
}

function Row({ row, events, add }) {
  const top = [...row.top.values()].sort((a, b) => b.number - a.number).slice(0, row.kinds.point ? TOP_PLACES : TOP);
  const share = events ? Math.round((100 * row.events) / events) : 0;
  const { number, isExact } = sendersIn(row.marks);
  const longest = Math.max(...row.topSenders.map((each) => each.length));
  const senders = [...new Set(Array.from({ length: longest }, (_, at) => row.topSenders.map((each) => each[at])).flat().filter(Boolean))].slice(0, TOP_SENDERS);
  return html`
    <tr>
      <th scope="row"><${Link} page="here" parameters=${add(row.filter)}>${row.name}<//></th>
      <td data-label="events" class="number">${count(row.events)} <span class="dim">(${share} %)</span></td>
      <td data-label="kind">${Object.keys(row.kinds).join(", ")}</td>
      <td data-label="range" class="line">${row.range ? rangeText(row.range.map(shown)) : ""}</td>
      <td data-label="values" class="line">${top.map((each) => html`
        <span class="pair"><${Link} page="here" parameters=${add(each.filter)}>${shown(each.value)} ×${count(each.number)}<//></span> `)}</td>
      <td data-label="senders" class="line">${isExact ? "" : "about "}${count(number)}: ${senders.map((sender, at) => html`
        ${at > 0 ? ", " : ""}<${Link} page="sessions" parameters=${{ client: sender }}>${sender}<//>`)}${number > senders.length ? ", …" : ""}</td>
    </tr>`;
}

function rangeText([least, most]) {
  return least === most ? least : `${least} to ${most}`;
}
