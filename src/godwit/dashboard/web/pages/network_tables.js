/** Network: the routing tables of a broker: which filter leads where, and which filter covers it on the way on. */

import { html } from "htm/preact";
import { go, Link } from "../address.js";
import { useAnswer } from "../asking.js";
import { count, counted, Problem, Table } from "../parts.js";

const REFRESH_MS = 2_000;
const ROWS = 500;
const HERE = "here";
const BY = "by ";

const TABLES = {
  in_subs: ["subscription", ""],
  in_ads: ["advertisement", ""],
  out_subs: ["subscription", " sent on"],
  out_ads: ["advertisement", " sent on"],
  matcher: ["filter", " to match"],
  local: ["subscription", " of clients here"],
  remote: ["subscription", " of other brokers"],
};
const SELDOM = {
  followed: ["filter", " on clients' own context"],
  told_follows: ["filter", " on clients' own context sent on"],
};

/** How many entries the tables of a broker have; of those with another name only if they have any. */
export function sizesText(sizes) {
  const shown = Object.entries(sizes).filter(([table, size]) => table in TABLES || size > 0);
  return shown.map(([table, size]) => {
    const [thing, rest] = TABLES[table] ?? SELDOM[table] ?? [];
    return thing ? `${counted(size, thing)}${rest}` : `${count(size)} ${table.replaceAll("_", " ")}`;
  }).join(" · ");
}

export function Routes({ broker, from = "", local = "" }) {
  const { answer, error } = useAnswer("/everywhere/routes", { at: broker, limit: ROWS, from, local }, REFRESH_MS);
  const links = useAnswer("/everywhere/links", { at: broker }, 0);
  const found = answer?.answers?.[broker];
  const choose = (value) => go("network", { broker, local: value === HERE ? "yes" : "", from: value.startsWith(BY) ? value.slice(BY.length) : "" }, { replace: true });
  const peers = (links.answer?.answers?.[broker] ?? []).map?.(({ peer }) => peer) ?? [];
  if (!found) return html`<h2>Tables of ${broker}</h2><${Problem} error=${error} /><p class="empty">${answer ? "It does not answer." : "Asking…"}</p>`;
  if (found.error) return html`<h2>Tables of ${broker}</h2><p class="warning">${found.error}</p>`;
  const rows = found.entries.map((row) => [
    row.from ? html`<${Link} page="network" parameters=${{ broker: row.from }}>neighbour ${row.from}<//>` : html`<${Link} page="sessions" parameters=${{ client: row.owner }}>client here<//>`,
    row.table,
    html`<code>${row.filter}</code>`,
    `${row.owner} ${row.name}`,
    html`<${Told} told=${row.told} />`,
  ]);
  return html`
    <h2>Tables of ${broker}</h2>
    <p>${found.family} · ${found.reduction} · ${found.settled ? "settled" : "changing"} · ${sizesText(found.sizes)}</p>
    <div class="question">
      <label>Entries that lead to
        <select value=${local ? HERE : from ? `${BY}${from}` : ""} onChange=${(event) => choose(event.target.value)}>
          <option value="">any destination</option>
          <option value=${HERE}>clients here</option>
          ${peers.map((peer) => html`<option value=${`${BY}${peer}`}>neighbour ${peer}</option>`)}
        </select>
      </label>
    </div>
    <${Table} label="Routing table" head=${["leads to", "table", "filter", "subscriber or advertiser", "sent on"]} rows=${rows} empty="Nobody has subscribed to anything." />
    ${found.is_cut && html`<p class="dim">The first ${count(ROWS)} entries are shown.</p>`}`;
}

/** By which filter each neighbour knows of an entry. */
function Told({ told }) {
  if (told.length === 0) return html`<span class="dim">to no neighbour</span>`;
  return told.map(({ to, covered_by: cover }) => html`
    <div>to ${to}: ${cover === null ? "unchanged" : html`covered by <code>${cover}</code>`}</div>`);
}
