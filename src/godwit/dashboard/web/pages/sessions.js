/** Sessions: who is attached or away, and what waits for them. Rows come from the server page by page. */

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { go, Link } from "../address.js";
import { useAnswer } from "../asking.js";
import { count, inLine, moment, Problem, Table, Unanswered } from "../parts.js";

const PAGE_ROWS = 100;
const REFRESH_MS = 3_000;

export function Sessions({ parameters }) {
  const { at = "", search = "", client = "" } = parameters;
  const first = Math.max(0, Number(parameters.first) || 0);
  const { answer, error } = useAnswer("/everywhere/sessions", { at, search, first, limit: PAGE_ROWS }, REFRESH_MS);
  const answers = Object.entries(answer?.answers ?? {}).filter(([, each]) => each?.sessions);
  const rows = answers.flatMap(([broker, each]) => each.sessions.map((session) => [broker, session]));
  const total = answers.reduce((sum, [, each]) => sum + each.count, 0);
  const more = answers.some(([, each]) => each.more > 0);
  const names = Object.keys(answer?.answers ?? {});
  return html`
    <h1>Sessions</h1>
    <${Search} at=${at} search=${search} brokers=${names} />
    <${Problem} error=${error} />
    <${Unanswered} found=${answer} />
    ${answer && html`<p>${count(total)} ${total === 1 ? "session" : "sessions"}${search ? ` of clients with “${search}” in their name` : ""}.</p>`}
    <${Moving} answers=${Object.entries(answer?.answers ?? {})} />
    ${answer && html`<${Rows} rows=${rows} at=${at} search=${search} first=${first} />`}
    <nav class="pages" aria-label="Rows">
      ${first > 0 && html`<${Link} page="sessions" parameters=${{ at, search, first: Math.max(0, first - PAGE_ROWS) }}>Earlier rows<//>`}
      ${more && html`<${Link} page="sessions" parameters=${{ at, search, first: first + PAGE_ROWS }}>More rows<//>`}
    </nav>
    ${client && html`<${Session} client=${client} />`}`;
}

function Search({ at, search, brokers }) {
  const [typed, setTyped] = useState(search);
  const submit = (submitted) => {
    submitted.preventDefault();
    go("sessions", { at, search: typed.trim() });
  };
  return html`
    <form class="question" role="search" onSubmit=${submit}>
      <label>Client <input type="search" value=${typed} onInput=${(event) => setTyped(event.target.value)} placeholder="part of a name" /></label>
      <label>Broker
        <select value=${at} onChange=${(event) => go("sessions", { at: event.target.value, search })}>
          <option value="">all</option>
          ${brokers.map((name) => html`<option value=${name}>${name}</option>`)}
        </select>
      </label>
      <button>Search</button>
    </form>`;
}

function Rows({ rows, at, search, first }) {
  const head = ["client", "broker", "state", "subscriptions", "queued", "mode"];
  const cells = rows.map(([broker, session]) => [
    html`<${Link} page="sessions" parameters=${{ at, search, first, client: session.client }}>${session.client}<//>`,
    broker,
    session.attached ? html`<span class="holds">attached</span>` : html`<span class="dim">away${session.ends_at ? `, kept until ${moment(session.ends_at)}` : ""}</span>`,
    session.suspended ? html`${count(session.subscriptions)} <span class="fails">${count(session.suspended)} suspended</span>` : count(session.subscriptions),
    count(session.queued),
    session.mode,
  ]);
  return html`<${Table} label="Sessions" head=${head} rows=${cells} empty="No client has a session here." />`;
}

/** Clients that have come to another broker, and whose sessions are on their way there. */
function Moving({ answers }) {
  const rows = answers.flatMap(([broker, each]) => (each?.moving ?? []).map((moving) => [broker, moving]));
  const all = answers.reduce((sum, [, each]) => sum + (each?.moving_count ?? 0), 0);
  if (rows.length === 0) return null;
  const head = ["client", "state", "to", "from", "events that wait", "given up at"];
  const cells = rows.map(([broker, moving]) => [
    moving.client,
    html`<span class="tag">moving</span>`,
    broker,
    moving.from || "being searched for",
    count(moving.buffered),
    moment(moving.gives_up_at),
  ]);
  return html`
    <h2>Moving</h2>
    <p>${count(all)} ${all === 1 ? "client has" : "clients have"} come to another broker; the session is on its way.</p>
    <${Table} label="Moving" head=${head} rows=${cells} empty="" />`;
}

/** What a receipt told its client, on one line. */
function receiptText(receipt) {
  if (!receipt) return "none yet";
  const removed = Object.values(receipt.purged).reduce((sum, number) => sum + number, 0);
  const parts = [[receipt.suppressed, "suppressed"], [removed, "removed by rules"], [receipt.expired, "expired"], [receipt.lost, "lost"]];
  return `number ${receipt.number}, ${receipt.is_confirmed ? "confirmed" : "not confirmed yet"}; up to it ${parts.map(([number, what]) => `${count(number)} ${what}`).join(", ")}`;
}

/** What the exact test of a subscription has decided. */
function testText(row) {
  if (row.suspended) return `suspended: ${row.suspended}`;
  return row.residues === undefined ? "" : `${count(row.wanted)} wanted, ${count(row.residues)} residues, ${count(row.failed)} failed`;
}

/** One session, wherever it is. */
function Session({ client }) {
  const { answer, error } = useAnswer("/everywhere/session", { client }, REFRESH_MS);
  const [broker, found] = Object.entries(answer?.answers ?? {}).find(([, each]) => each && !each.error) ?? [];
  if (error) return html`<${Problem} error=${error} />`;
  if (!found) return html`<section><h2>${client}</h2><p class="empty">${answer ? "It has no session at any broker." : "Asking…"}</p></section>`;
  const { queue } = found;
  const purged = Object.entries(queue.purged).map(([rule, number]) => `${rule} ${count(number)}`).join(", ");
  const wishes = found.subscribed.map((row) => [row.name, html`<code>${row.now ?? row.filter}</code>`, testText(row), row.share ?? "", row.expires ? moment(row.expires) : ""]);
  return html`
    <section aria-live="polite">
      <h2>${client} <span class="tag">at ${broker}</span></h2>
      <dl>
        <dt>context</dt><dd class="line">${inLine(found.context) || "none"}</dd>
        <dt>queue</dt><dd>${count(found.queued)} waiting, ${count(queue.confirmed)} confirmed of ${count(queue.taken)}, ${count(queue.expired)} expired${purged ? `, removed by rules: ${purged}` : ""}</dd>
        <dt>last receipt</dt><dd>${receiptText(found.receipt)}</dd>
        ${found.refusals.map((each) => html`<dt>refused</dt><dd class="fails">${each.reason}</dd>`)}
      </dl>
      <${Table} label="Subscriptions" head=${["subscription", "filter", "exact test", "shared", "expires"]} rows=${wishes} empty="It has no subscription." />
      <p><${Link} page="why" parameters=${{ client }}>Why did ${client} not get an event?<//></p>
    </section>`;
}
