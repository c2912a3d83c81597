/**
 * Metrics: rates, times, queues and memory, of one broker or of the whole network.
 *
 * Brokers take samples while somebody looks, and keep those of the last day: this page asks for what is new.
 */

import { html } from "htm/preact";
import { useMemo } from "preact/hooks";
import { go } from "../address.js";
import { count, Problem, Unanswered } from "../parts.js";
import { Plot } from "../plots.js";
import { useSeries } from "../series.js";

export function Metrics({ parameters }) {
  const { at = "" } = parameters;
  const { found, error } = useSeries("/everywhere/samples");
  const names = Object.keys(found?.kept ?? {});
  const chosen = names.filter((name) => at === "" || name === at);
  const plots = useMemo(() => (found ? plotsOf(chosen, found.kept, boundsOf(found)) : []), [found, at]);
  return html`
    <h1>Metrics</h1>
    <div class="question">
      <label>Broker
        <select value=${at} onChange=${(event) => go("metrics", { at: event.target.value })}>
          <option value="">all, side by side</option>
          ${names.map((name) => html`<option value=${name}>${name}</option>`)}
        </select>
      </label>
    </div>
    <${Problem} error=${error} />
    <${Unanswered} found=${found} />
    ${found && html`<${Now} brokers=${chosen} kept=${found.kept} />`}
    <div class="plots">${plots.map(({ title, names: lines, data }) => html`<${Plot} key=${title} title=${title} names=${lines} data=${data} />`)}</div>
    <p class="dim">Brokers take samples only while somebody looks, so there are gaps in between. They keep a day: every 2 s of the last hour, every 30 s before.</p>`;
}

/** The bounds of the counts in histograms. */
function boundsOf(found) {
  return Object.values(found.answers).find((answer) => answer?.bounds_s)?.bounds_s ?? [];
}

function Now({ brokers, kept }) {
  const rows = brokers.map((name) => [name, kept[name].at(-1)]).filter(([, last]) => last);
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="Now">
      <table>
        <thead><tr>${["broker", "sessions", "attached", "queued events", "held bytes", "inputs that wait"].map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
        <tbody>${rows.map(([name, last]) => html`
          <tr><th scope="row">${name}</th>${[last.sessions, last.attached, last.queued, last.held_bytes, last.pending_inputs].map((value) => html`<td class="number">${count(value)}</td>`)}</tr>`)}
        </tbody>
      </table>
    </div>`;
}

const RATES = [
  ["Inputs a second", "inputs"],
  ["Deliveries a second", "deliveries"],
  ["Bytes received a second", "received_bytes"],
];
const RECORDS = [["Relocations a second", "relocated"], ["Events lost a second", "lost"]];
const LEVELS = [["Queued events", "queued"], ["Bytes held for clients and peers", "held_bytes"], ["Attached clients", "attached"]];
const TIMES = [["Time to match an event, p99, ms", "match_s"], ["Time until a batch is on disk, p99, ms", "write_s"], ["Lateness of the loop, p99, ms", "lag_s"]];

/** What is plotted of these brokers: each plot has one line a broker. */
export function plotsOf(brokers, kept, bounds) {
  const plot = (title, valueOf) => ({ title, names: brokers, data: aligned(brokers.map((name) => kept[name]), valueOf) });
  const rate = (counter) => (now, before) => (before ? Math.max(0, (counter(now) - counter(before)) / (now.at - before.at)) : null);
  return [
    ...RATES.map(([title, field]) => plot(title, rate((row) => row[field]))),
    ...TIMES.map(([title, field]) => plot(title, (now, before) => (before ? 1000 * quantile(now[field], before[field], bounds, 0.99) : null))),
    ...LEVELS.map(([title, field]) => plot(title, (now) => now[field])),
    ...RECORDS.map(([title, kind]) => plot(title, rate((row) => row.records[kind] ?? 0))),
  ];
}

/** Samples of several brokers on one axis of whole seconds. */
function aligned(series, valueOf) {
  const times = [...new Set(series.flatMap((rows) => rows.map(({ at }) => Math.round(at))))].sort((a, b) => a - b);
  const lines = series.map((rows) => {
    const values = new Map(rows.map((row, index) => [Math.round(row.at), valueOf(row, rows[index - 1])]));
    return times.map((time) => values.get(time) ?? null);
  });
  return [times, ...lines];
}

/** A quantile of what was counted between two samples, by the bounds of the counts. */
export function quantile(counts, before, bounds, share) {
  const fresh = counts.map((number, at) => number - before[at]);
  const total = fresh.reduce((sum, number) => sum + number, 0);
  let seen = 0;
  for (const [at, number] of fresh.entries()) {
    seen += number;
    if (total > 0 && seen >= share * total) return bounds[Math.min(at, bounds.length - 1)];
  }
  return 0;
}
