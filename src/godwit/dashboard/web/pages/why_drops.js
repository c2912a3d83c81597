/** Why? Events that did not arrive, by reason: over time for the whole network, and in all by broker. */

import { html } from "htm/preact";
import { useMemo } from "preact/hooks";
import { count, Problem } from "../parts.js";
import { Plot } from "../plots.js";
import { isPause, useSeries, withPauses } from "../series.js";

const STEP_S = 2; // between two samples of a broker
const DROPS = {
  lost: "lost: a bound was exceeded",
  purged: "removed by a queue rule",
  expired: "expired before the client came",
  refused: "refused: no right, or a limit",
  out_of_context: "the client's context did not fit",
  not_addressed: "not addressed to the client (to)",
  residue: "failed the exact test",
  suppressed: "suppressed: it had come before",
};

export function Drops() {
  const { found, error } = useSeries("/everywhere/drops");
  const brokers = Object.entries(found?.kept ?? {}).filter(([, samples]) => samples.length);
  const last = brokers.map(([name, samples]) => [name, samples.at(-1).counts]);
  const kinds = Object.keys(DROPS).filter((kind) => last.some(([, counts]) => counts[kind]));
  const data = useMemo(() => perSecond(brokers.map(([, samples]) => samples), kinds), [found]);
  return html`
    <h2>Events that did not arrive, by reason</h2>
    <${Problem} error=${error} />
    ${found && kinds.length === 0 && html`<p class="empty">None since the brokers started.</p>`}
    ${kinds.length > 0 && html`
      <${Plot} title="Events a second that did not arrive, in the whole network" names=${kinds.map((kind) => DROPS[kind])} data=${data} />
      <div class="scroll" tabindex="0" role="region" aria-label="Reasons">
        <table class="cards">
          <thead><tr><th scope="col">reason</th>${last.map(([name]) => html`<th scope="col" class="number">${name}</th>`)}</tr></thead>
          <tbody>
            ${kinds.map((kind) => html`
              <tr><th scope="row">${DROPS[kind]}</th>${last.map(([name, counts]) => html`<td class="number" data-label=${name}>${count(counts[kind])}</td>`)}</tr>`)}
          </tbody>
        </table>
      </div>
      <p class="dim">Sums are those since the brokers started. Brokers take samples only while somebody looks, so the plot has gaps.</p>`}`;
}

/** The sums of all brokers as rates: times, and a line for each kind. The first sample after a pause has no rate. */
export function perSecond(series, kinds) {
  const last = Math.max(...series.map((rows) => rows.at(-1).at));
  const slots = new Map();
  for (const rows of series) {
    for (const [at, row] of rows.entries()) {
      const before = rows[at - 1];
      const slot = Math.round(row.at / STEP_S) * STEP_S;
      const sums = slots.get(slot) ?? kinds.map(() => null);
      if (before && !isPause(before.at, row.at, last)) kinds.forEach((kind, line) => (sums[line] = (sums[line] ?? 0) + Math.max(0, row.counts[kind] - before.counts[kind]) / (row.at - before.at)));
      slots.set(slot, sums);
    }
  }
  const times = [...slots.keys()].sort((a, b) => a - b);
  return withPauses([times, ...kinds.map((_, line) => times.map((time) => slots.get(time)[line]))]);
}
