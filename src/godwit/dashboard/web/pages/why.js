/**
 * Why? Pick an event and a client: the verdict, hop by hop, with the very part of a filter that failed.
 *
 * The brokers decide (GET /why); this page only shows what they say.
 */

import { html } from "htm/preact";
import { useMemo, useState } from "preact/hooks";
import { go, Link } from "../address.js";
import { useAnswer } from "../asking.js";
import { clock, count, inLine, Problem, Unanswered } from "../parts.js";

const RECENT = 200; // events of each broker
const REFRESH_MS = 3_000;
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

export function Why({ parameters }) {
  const { event = "", client = "" } = parameters;
  const isAsked = event !== "" && client !== "";
  const { answer, error } = useAnswer(isAsked ? "/why" : null, { event, client }, isAsked ? REFRESH_MS : 0);
  return html`
    <h1>Why did a client get an event, or not?</h1>
    <${Question} event=${event} client=${client} />
    <${Problem} error=${error} />
    ${isAsked ? answer && html`<${Verdict} found=${answer} />` : html`<${Drops} />`}`;
}

/** The two things that are asked for. */
function Question({ event, client }) {
  const events = useAnswer("/everywhere/events", { limit: RECENT }, event ? 0 : REFRESH_MS);
  const sessions = useAnswer("/everywhere/sessions", { limit: RECENT }, 0);
  const names = useMemo(() => {
    const rows = Object.values(sessions.answer?.answers ?? {}).flatMap((each) => each.sessions ?? []);
    return [...new Set(rows.map((row) => row.client))].sort();
  }, [sessions.answer]);
  const submit = (submitted) => {
    submitted.preventDefault();
    const form = new FormData(submitted.target);
    go("why", { event: form.get("event").trim(), client: form.get("client").trim() });
  };
  return html`
    <form class="question" onSubmit=${submit}>
      <label>Client
        <input name="client" list="clients" value=${client} required autocomplete="off" placeholder="name of a client" />
      </label>
      <datalist id="clients">${names.map((name) => html`<option value=${name} />`)}</datalist>
      <label>Event
        <input class="long" name="event" value=${event} required autocomplete="off" placeholder="PUBLISHER:NUMBER" />
      </label>
      <button>Explain</button>
    </form>
    <${Problem} error=${events.error ?? sessions.error} />
    <${Recent} answers=${events.answer?.answers} event=${event} client=${client} />`;
}

/** The last events of the whole network, to pick one from. */
function Recent({ answers, event, client }) {
  const [search, setSearch] = useState("");
  const rows = useMemo(() => {
    const all = Object.entries(answers ?? {}).flatMap(([broker, events]) =>
      Array.isArray(events) ? events.map((each) => ({ ...each, broker, text: inLine(each.attributes) })) : []);
    return all.sort((a, b) => b.at - a.at);
  }, [answers]);
  const found = rows.filter((row) => `${row.event} ${row.text}`.includes(search)).slice(0, RECENT);
  if (!answers) return html`<p class="empty">Asking for the last events…</p>`;
  return html`
    <details open=${event === ""}>
      <summary>Last events of the network (${count(rows.length)})</summary>
      <label>Search <input type="search" value=${search} onInput=${(typed) => setSearch(typed.target.value)} /></label>
      ${found.length === 0 && html`<p class="empty">${rows.length ? "No event has that in it." : "No event has been published since the brokers started."}</p>`}
      <ul class="events" tabindex="0" aria-label="Events">
        ${found.map((row) => html`
          <li key=${row.event} class=${row.event === event ? "chosen" : ""}>
            <${Link} page="why" parameters=${{ event: row.event, client }}>${row.event}<//>
            <time>${clock(row.at)}</time> <span class="dim">${row.broker}</span> <span class="line">${row.text}</span>
          </li>`)}
      </ul>
    </details>`;
}

function Verdict({ found }) {
  const onTheWay = found.hops.filter((hop) => hop.error || hop.arrivals?.length || hop.session);
  return html`
    <section aria-live="polite">
      <p class=${found.delivered ? "verdict yes" : "verdict no"}>
        <strong>${found.delivered ? "Yes." : "No."}</strong> ${found.verdict}
      </p>
      <${Unanswered} found=${{ ...found, answers: found.hops }} />
      <ol class="hops">${onTheWay.map((hop) => html`<${Hop} key=${hop.broker} hop=${hop} />`)}</ol>
    </section>`;
}

/** What one broker knows. */
function Hop({ hop }) {
  if (hop.error) return html`<li class="hop"><h2>${hop.broker}</h2><p class="warning">${hop.error}</p></li>`;
  return html`
    <li class=${`hop${hop.session ? " home" : ""}${hop.arrivals?.length ? " reached" : ""}`}>
      <h2>${hop.broker}${hop.session ? html` <span class="tag">the client's broker</span>` : ""}</h2>
      <p>${hop.verdict}</p>
      <dl>
        ${(hop.arrivals ?? []).map((came) => html`<dt>came</dt><dd>${clock(came.at)} from ${came.from}</dd>`)}
        ${hop.attributes && html`<dt>event</dt><dd class="line">${inLine(hop.attributes)}</dd>`}
        ${hop.to && html`<dt>to</dt><dd><code>${hop.to}</code></dd>`}
        ${(hop.to_fails ?? []).map((part) => html`<dt>to</dt><dd class="fails"><code>${part}</code> does not hold of the client's context</dd>`)}
        ${(hop.subscriptions ?? []).map((row) => html`<${Wish} row=${row} />`)}
        ${(hop.deliveries ?? []).map((each) => html`<dt>delivery</dt><dd>number ${each.number}, ${each.state}</dd>`)}
        ${(hop.sent_on ?? []).map((each) => html`<dt>sent on</dt><dd>to ${each.peer} for ${each.because_of[0]}</dd>`)}
        ${(hop.records ?? []).map((each) => html`<dt>${each.kind}</dt><dd>${clock(each.at)} ${each.detail}</dd>`)}
      </dl>
    </li>`;
}

/** A subscription of the client, and what of it the event does not meet. */
function Wish({ row }) {
  const verdict = row.matches === undefined ? "" : row.matches ? "matches" : "does not match";
  return html`
    <dt>wants</dt>
    <dd>
      <code>${row.now ?? row.filter}</code> <span class=${row.matches ? "holds" : "fails"}>${verdict}</span>
      ${(row.fails ?? []).map((part) => html`<div class="fails"><code>${part}</code> does not hold</div>`)}
    </dd>`;
}

/** What became of events that did not arrive, in the whole network. */
function Drops() {
  const { answer, error } = useAnswer("/everywhere/counts", {}, REFRESH_MS);
  const brokers = Object.entries(answer?.answers ?? {}).filter(([, counts]) => counts && !counts.error);
  const kinds = Object.keys(DROPS).filter((kind) => brokers.some(([, counts]) => counts[kind]));
  return html`
    <h2>Events that did not arrive, by reason</h2>
    <${Problem} error=${error} />
    <${Unanswered} found=${answer} />
    ${answer && kinds.length === 0 && html`<p class="empty">None since the brokers started.</p>`}
    ${kinds.length > 0 && html`
      <div class="scroll" tabindex="0" role="region" aria-label="Reasons">
        <table>
          <thead><tr><th scope="col">reason</th>${brokers.map(([name]) => html`<th scope="col">${name}</th>`)}</tr></thead>
          <tbody>
            ${kinds.map((kind) => html`
              <tr><th scope="row">${DROPS[kind]}</th>${brokers.map(([, counts]) => html`<td class="number">${count(counts[kind])}</td>`)}</tr>`)}
          </tbody>
        </table>
      </div>`}`;
}
