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
import { isPause, useSeries, withPauses } from "../series.js";

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
          <option value="">all, and the whole network</option>
          ${names.map((name) => html`<option value=${name}>${name}</option>`)}
        </select>
      </label>
    </div>
    <${Problem} error=${error} />
    <${Unanswered} found=${found} />
    ${found && html`<${Now} brokers=${chosen} kept=${found.kept} bounds=${boundsOf(found)} />`}
    <div class="plots">${plots.map(({ title, names: lines, data }) => html`<${Plot} key=${title} title=${title} names=${lines} data=${data} />`)}</div>
    <p class="dim">Brokers take samples only while somebody looks, so there are gaps in between. They keep a day: every 2 s of the last hour, every 30 s before. Latency is the time from when an event was published, by the clock of its publisher, until it is sent to a client; events that waited for a client that was away are left out.</p>`;
}

/** The bounds of the counts in histograms. */
function boundsOf(found) {
  return Object.values(found.answers).find((answer) => answer?.bounds_s)?.bounds_s ?? [];
}

const NETWORK = "all brokers";
const MIB = 2 ** 20;
const P50_AND_P99 = [["p50", 0.5], ["p99", 0.99]];

/** The columns of the table: a title, and what is shown of the last samples of some brokers. */
function columns(bounds) {
  const sum = (valueOf) => (rows) => count(total(rows.map(valueOf)));
  const whole = (field, share) => (rows) => milliseconds(quantile(added(rows.map((row) => row[field])), bounds, share));
  return [
    ["sessions", sum((row) => row.sessions)],
    ["attached", sum((row) => row.attached)],
    ["queued events", sum((row) => row.queued)],
    ["deliveries", sum((row) => row.deliveries)],
    ["held bytes", sum((row) => row.held_bytes)],
    ["memory, MiB", sum((row) => Math.round((row.process_bytes ?? 0) / MIB))],
    ["inputs that wait", sum((row) => row.pending_inputs)],
    ["relocations", sum((row) => row.records.relocated)],
    ...P50_AND_P99.map(([name, share]) => [`latency ${name}, ms`, whole("delivery_s", share)]),
    ...P50_AND_P99.map(([name, share]) => [`match ${name}, ms`, whole("match_s", share)]),
    ...P50_AND_P99.map(([name, share]) => [`gap ${name}, ms`, whole("gap_s", share)]),
  ];
}

/** What was sampled last, of each broker and of the network; times are those since the brokers started. */
function Now({ brokers, kept, bounds }) {
  const known = brokers.map((name) => [name, [kept[name].at(-1)]]).filter(([, [last]]) => last);
  const rows = known.length > 1 ? [...known, [NETWORK, known.flatMap(([, last]) => last)]] : known;
  const shown = columns(bounds);
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="Now">
      <table class="cards">
        <thead><tr>${["broker", ...shown.map(([title]) => title)].map((title) => html`<th scope="col">${title}</th>`)}</tr></thead>
        <tbody>${rows.map(([name, last]) => html`
          <tr><th scope="row">${name}</th>${shown.map(([title, textOf]) => html`<td class="number" data-label=${title}>${textOf(last)}</td>`)}</tr>`)}
        </tbody>
      </table>
    </div>`;
}

function milliseconds(seconds) {
  return seconds === null ? "–" : String(Number((1000 * seconds).toPrecision(3)));
}

const RATES = [
  ["Inputs a second", (row) => row.inputs],
  ["Deliveries a second", (row) => row.deliveries],
  ["Bytes received a second", (row) => row.received_bytes],
];
const RECORDS = [["Relocations a second", (row) => row.records.relocated ?? 0], ["Events lost a second", (row) => row.records.lost ?? 0]];
const LEVELS = [
  ["Queued events", (row) => row.queued],
  ["Bytes held for clients and peers", (row) => row.held_bytes],
  ["Memory of the process, MiB", (row) => (row.process_bytes ?? 0) / MIB],
  ["Attached clients", (row) => row.attached],
];
const TIMES = [
  ["Latency, from publishing to delivery, ms", "delivery_s"],
  ["Time to match an event, ms", "match_s"],
  ["Time until a batch is on disk, ms", "write_s"],
  ["Lateness of the loop, ms", "lag_s"],
  ["Gap of a relocation, ms", "gap_s"],
];

/** What is plotted of these brokers: a line for each, and one for all together. */
export function plotsOf(brokers, kept, bounds) {
  const series = brokers.map((name) => kept[name]);
  const times = [...new Set(series.flatMap((rows) => rows.map(({ at }) => Math.round(at))))].sort((a, b) => a - b);
  const pairs = series.map((rows) => pairsAt(rows, times));
  const data = (...values) => withPauses([times, ...values]);
  const lines = (valueOf) => [
    ...pairs.map((found) => found.map((pair, at) => (pair && Math.round(pair[0].at) === times[at] ? valueOf([pair]) : null))),
    ...(brokers.length > 1 ? [times.map((_, at) => (pairs.every((found) => found[at]) ? valueOf(pairs.map((found) => found[at])) : null))] : []),
  ];
  const names = brokers.length > 1 ? [...brokers, NETWORK] : brokers;
  const plot = (title, valueOf) => ({ title, names, data: data(...lines(valueOf)) });
  return [
    ...RATES.map(([title, counter]) => plot(title, rate(counter))),
    ...TIMES.map(([title, field]) => ({
      title: `${title}, p50 and p99`,
      names: P50_AND_P99.flatMap(([share]) => names.map((name) => `${name} ${share}`)),
      data: data(...P50_AND_P99.flatMap(([, share]) => lines(taken(field, bounds, share)))),
    })),
    ...LEVELS.map(([title, level]) => plot(title, (found) => total(found.map(([row]) => level(row))))),
    ...RECORDS.map(([title, counter]) => plot(title, rate(counter))),
  ];
}

/** The last sample at each time, with the one before it, each undefined if there is none or a pause is in between. */
function pairsAt(rows, times) {
  const last = times.at(-1);
  const isNear = (row, at) => row && !isPause(row.at, at, last);
  let next = 0;
  return times.map((time) => {
    while (next < rows.length && Math.round(rows[next].at) <= time) next += 1;
    const [before, row] = [rows[next - 2], rows[next - 1]];
    return isNear(row, time) ? [row, isNear(before, row.at) ? before : undefined] : undefined;
  });
}

/** By how much a counter of some brokers grew in a second. */
function rate(counter) {
  const one = ([row, before]) => Math.max(0, (counter(row) - counter(before)) / (row.at - before.at));
  return (found) => (found.every(([, before]) => before) ? total(found.map(one)) : null);
}

/** A quantile, in milliseconds, of what some brokers counted between two samples. */
function taken(field, bounds, share) {
  const fresh = ([row, before]) => row[field].map((number, at) => Math.max(0, number - before[field][at]));
  return (found) => {
    if (!found.every(([, before]) => before)) return null;
    const seconds = quantile(added(found.map(fresh)), bounds, share);
    return seconds === null ? null : 1000 * seconds;
  };
}

function total(numbers) {
  return numbers.reduce((sum, number) => sum + (number ?? 0), 0);
}

/** Several histograms as one. */
function added(histograms) {
  return histograms[0].map((_, at) => total(histograms.map((counts) => counts[at])));
}

/** A quantile of a histogram: the upper bound of the part that it is in; null: nothing was counted. */
export function quantile(counts, bounds, share) {
  const all = total(counts);
  let seen = 0;
  for (const [at, number] of counts.entries()) {
    seen += number;
    if (all > 0 && seen >= share * all) return bounds[Math.min(at, bounds.length - 1)];
  }
  return null;
}
