/** Why? The verdict, and what each broker on the way says. Each part is on record, or worked out from tables of now. */

import { html } from "htm/preact";
import { Link } from "../address.js";
import { clock, count, Pairs, Unanswered } from "../parts.js";

const WISHES_SHOWN = 8;

export function Verdict({ found, client }) {
  const onTheWay = found.hops.filter((hop) => hop.error || hop.arrivals?.length || hop.session || hop.is_on_way || hop.moved_to || hop.refused);
  const [answer, look] = answerOf(found);
  return html`
    <section aria-live="polite">
      <p class=${`verdict ${look}`}>
        <strong>${answer}</strong> ${sentence(found)} <${Basis} basis=${found.basis} />
      </p>
      <p><${Link} page="sessions" parameters=${{ client }}>The session of ${client}<//></p>
      <${Unanswered} found=${{ ...found, answers: found.hops }} />
      <ol class="hops">${onTheWay.map((hop) => html`<${Hop} key=${hop.broker} hop=${hop} />`)}</ol>
    </section>`;
}

/** The answer in a word, and the look of it. */
function answerOf(found) {
  if (found.is_written) return found.delivered ? ["Yes, it would.", "yes"] : ["No, it would not.", "no"];
  if (found.basis === "unknown") return ["Not known.", "unknown"];
  if (found.waits) return ["Not yet.", "waits"];
  return found.delivered ? ["Yes.", "yes"] : ["No.", "no"];
}

/** The verdict as a sentence; one that begins with the name of a broker stays as it is. */
function sentence({ verdict, hops }) {
  const isNamed = hops.some(({ broker }) => verdict.startsWith(`${broker}: `));
  return isNamed ? verdict : verdict.charAt(0).toUpperCase() + verdict.slice(1);
}

/** What an answer rests on, in short and as a sentence. */
const BASES = {
  record: ["recorded", "recorded when it happened"],
  tables: ["recomputed", "recomputed from the present tables"],
  unknown: ["not recorded", "not recorded any more"],
};

/** What an answer rests on. */
function Basis({ basis, isShort }) {
  const words = BASES[basis] ?? BASES.tables;
  return html`<span class="tag">${words[isShort ? 0 : 1]}</span>`;
}

/** What one broker knows. */
function Hop({ hop }) {
  if (hop.error) return html`<li class="hop"><h2>${hop.broker}</h2><p class="warning">${hop.error}</p></li>`;
  return html`
    <li class=${`hop${hop.session ? " home" : ""}${hop.arrivals?.length || hop.is_on_way ? " reached" : ""}`}>
      <h2>${hop.broker}${hop.session ? html` <span class="tag">the client's broker</span>` : ""}</h2>
      <p>${hop.verdict} <${Basis} basis=${hop.basis} isShort=${true} /></p>
      <dl>
        ${(hop.arrivals ?? []).map((came) => html`<dt>came</dt><dd>${clock(came.at)} from ${came.from}</dd>`)}
        ${hop.attributes && html`<dt>event</dt><dd class="line"><${Pairs} attributes=${hop.attributes} /></dd>`}
        ${hop.publisher?.right && html`<dt>may publish</dt><dd><${Right} right=${hop.publisher.right} /></dd>`}
        ${(hop.publisher?.refusals ?? []).map((reason) => html`<dt>refused</dt><dd class="fails">to ${hop.publisher.client}: ${reason}</dd>`)}
        ${hop.to && html`<dt>to</dt><dd><code>${hop.to}</code></dd>`}
        ${(hop.to_fails ?? []).map((part) => html`<dt>to</dt><dd class="fails"><code>${part}</code> does not hold of the client's context</dd>`)}
        ${hop.context && Object.keys(hop.context).length > 0 && html`<dt>context</dt><dd class="line"><${Pairs} attributes=${hop.context} /></dd>`}
        ${hop.right && html`<dt>may receive</dt><dd><${Right} right=${hop.right} /></dd>`}
        ${(hop.refusals ?? []).map((reason) => html`<dt>refused</dt><dd class="fails">to the client: ${reason}</dd>`)}
        ${(hop.is_written ? [] : hop.matched ?? []).map((row) => html`<dt>matched</dt><dd><code>${row.filter}</code> (${row.name}) <${Basis} basis=${row.basis} isShort=${true} /></dd>`)}
        <${Wishes} rows=${hop.subscriptions ?? []} />
        ${(hop.deliveries ?? []).map((each) => html`<dt>delivery</dt><dd>number ${each.number}, ${each.state}</dd>`)}
        ${(hop.sent_on ?? []).map((each) => html`<dt>${each.basis === "record" ? "sent on" : "would go on"}</dt><dd>to ${each.peer} for ${each.because_of[0]}</dd>`)}
        ${hop.moved_to && html`<dt>moved</dt><dd>the client's session went to ${hop.moved_to}</dd>`}
        ${(hop.records ?? []).map((each) => html`<dt>${kindText(each)}</dt><dd>${clock(each.at)} ${detailText(each)}</dd>`)}
        ${(hop.client_records ?? []).map((each) => html`<dt>${kindText(each)}</dt><dd>${clock(each.at)} the client: ${each.subscription} ${each.detail}</dd>`)}
      </dl>
    </li>`;
}

/** What is on record, in words. */
function kindText({ kind }) {
  return kind === "purged" ? "removed by rule" : kind.replaceAll("_", " ");
}

/** The detail of a record, in words. */
function detailText({ kind, detail }) {
  return kind === "not_addressed" ? "the client's context did not match the event's to" : detail;
}

/** What somebody may do, and what of that the event does not meet. */
function Right({ right }) {
  return html`
    ${right.user ? `user ${right.user}: ` : ""}<code>${right.grant}</code>
    ${right.fails.map((part) => html`<div class="fails"><code>${part}</code> does not hold</div>`)}
    ${right.has && html`<div class="dim">the event has ${right.has}</div>`}`;
}

/** The subscriptions of a client: those first that the event matches or comes closest to. */
function Wishes({ rows }) {
  const rank = (row) => (row.matches ? Infinity : row.holds ?? 0);
  const sorted = [...rows].sort((a, b) => rank(b) - rank(a) || (a.fails?.length ?? 0) - (b.fails?.length ?? 0));
  const [first, rest] = [sorted.slice(0, WISHES_SHOWN), sorted.slice(WISHES_SHOWN)];
  return html`
    ${first.map((row) => html`<${Wish} row=${row} />`)}
    ${rest.length > 0 && html`
      <dt>wants</dt><dd><details><summary>${count(rest.length)} more that the event is further from</summary><dl>${rest.map((row) => html`<${Wish} row=${row} />`)}</dl></details></dd>`}`;
}

/** A subscription of the client, and what of it the event does not meet. */
function Wish({ row }) {
  const verdict = row.matches === undefined ? "" : row.matches ? "matches" : "does not match";
  return html`
    <dt>wants</dt>
    <dd>
      ${row.name}: <code>${row.now ?? row.filter}</code> <span class=${row.matches ? "holds" : "fails"}>${verdict}</span>
      ${row.now && html`<div class="dim"><code>${row.filter}</code> in the client's context</div>`}
      ${(row.queries ?? []).map((query) => html`<div>and the exact test of ${query.language}: <code>${query.text}</code></div>`)}
      ${row.exact && html`<div class=${row.exact.passed ? "holds" : "fails"}>${row.exact.detail}</div>`}
      ${row.suspended && html`<div class="fails">suspended: ${row.suspended}</div>`}
      ${(row.fails ?? []).map((part) => html`<div class="fails"><code>${part}</code> does not hold</div>`)}
      ${row.has && html`<div class="dim">the event has ${row.has}</div>`}
      ${row.share && html`<div class="dim">shared in the group ${row.share}: one member gets each event</div>`}
    </dd>`;
}
