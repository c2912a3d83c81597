/** What is here: the attributes of the last events of the whole network. A click builds a filter and listens by it. */

import { html } from "htm/preact";
import { useMemo, useState } from "preact/hooks";
import { Link } from "../address.js";
import { useAnswer } from "../asking.js";
import { count, Problem, shown, Unanswered } from "../parts.js";

const REFRESH_MS = 5_000;
const TOP = 6; // values that are shown
const TOP_PLACES = 2; // the same of places, which seldom come twice

export function Here() {
  const { answer, error } = useAnswer("/everywhere/attributes", {}, REFRESH_MS);
  const [search, setSearch] = useState("");
  const { rows, events } = useMemo(() => merged(answer), [answer]);
  const found = rows.filter(({ name }) => name.includes(search));
  return html`
    <h1>What is here</h1>
    <p>The attributes of the last ${count(events)} events that clients have published. A value leads to the events that have it.</p>
    <div class="question"><label>Search <input type="search" value=${search} onInput=${(typed) => setSearch(typed.target.value)} placeholder="part of a name" /></label></div>
    <${Problem} error=${error} />
    <${Unanswered} found=${answer} />
    ${answer && found.length === 0 && html`<p class="empty">${rows.length ? "No attribute has that in its name." : "No event has been published since the brokers started."}</p>`}
    ${found.length > 0 && html`
      <div class="scroll tall" tabindex="0" role="region" aria-label="Attributes">
        <table>
          <thead><tr>${["attribute", "events", "kind", "range", "frequent values", "senders"].map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
          <tbody>${found.map((row) => html`<${Row} key=${row.name} row=${row} events=${events} />`)}</tbody>
        </table>
      </div>`}`;
}

/** One table of what all brokers have said. */
export function merged(found) {
  const byName = new Map();
  let events = 0;
  for (const answer of Object.values(found?.answers ?? {})) {
    if (!answer?.attributes) continue;
    events += answer.events;
    for (const row of answer.attributes) {
      const sum = byName.get(row.name) ?? { name: row.name, events: 0, kinds: {}, top: new Map(), range: null, senders: 0, topSenders: [] };
      sum.events += row.events;
      sum.senders += row.senders;
      sum.topSenders.push(...row.top_senders);
      for (const [kind, number] of Object.entries(row.kinds)) sum.kinds[kind] = (sum.kinds[kind] ?? 0) + number;
      for (const [value, number] of row.top) {
        const key = JSON.stringify(value);
        sum.top.set(key, (sum.top.get(key) ?? 0) + number);
      }
      sum.range = wider(sum.range, row.range);
      byName.set(row.name, sum);
    }
  }
  const rows = [...byName.values()].sort((a, b) => b.events - a.events || (a.name < b.name ? -1 : 1));
  return { rows, events };
}

function wider(a, b) {
  if (!a || !b) return a ?? b;
  const isLess = (x, y) => (typeof x === "number" && typeof y === "number" ? x < y : shown(x) < shown(y));
  return [isLess(b[0], a[0]) ? b[0] : a[0], isLess(a[1], b[1]) ? b[1] : a[1]];
}

function Row({ row, events }) {
  const top = [...row.top.entries()].sort((a, b) => b[1] - a[1]).slice(0, row.kinds.point ? TOP_PLACES : TOP);
  const share = events ? Math.round((100 * row.events) / events) : 0;
  const senders = row.topSenders.slice(0, 3).join(", ");
  return html`
    <tr>
      <th scope="row"><${Link} page="live" parameters=${{ filter: `${named(row.name)} IS NOT NULL` }}>${row.name}<//></th>
      <td class="number">${count(row.events)} <span class="dim">(${share} %)</span></td>
      <td>${Object.keys(row.kinds).join(", ")}</td>
      <td class="line">${row.range ? rangeText(row.range.map(shown)) : ""}</td>
      <td class="line">${top.map(([key, number]) => html`<${Value} name=${row.name} value=${JSON.parse(key)} number=${number} /> `)}</td>
      <td class="line">${count(row.senders)}${senders ? html` <span class="dim">${senders}${row.senders > 3 ? ", …" : ""}</span>` : ""}</td>
    </tr>`;
}

function rangeText([least, most]) {
  return least === most ? least : `${least} to ${most}`;
}

function Value({ name, value, number }) {
  const text = `${shown(value)} ×${count(number)}`;
  const literal = written(value);
  if (literal === null) return html`<span class="pair">${text}</span>`;
  return html`<span class="pair"><${Link} page="live" parameters=${{ filter: `${named(name)} = ${literal}` }}>${text}<//></span>`;
}

/** A value as filters write it; null: this page cannot say. */
export function written(value) {
  if (typeof value === "number") return String(value);
  if (typeof value === "boolean") return value ? "TRUE" : "FALSE";
  return typeof value === "string" && value.length < 80 ? `'${value.replaceAll("'", "''")}'` : null;
}

/** A name as filters write it: in quotes, unless it is plain. */
export function named(name) {
  return /^[A-Za-z_][\w.]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}
