/**
 * Filter workbench: write a filter in any language, and see at once what is wrong with it, what it says, how it
 * relates to another or to all subscriptions, and which of the last events it would have matched.
 *
 * What is written is in the address. Brokers look only while this page asks them (GET /workbench, /everywhere/matches).
 */

import { html } from "htm/preact";
import { useRef } from "preact/hooks";
import { go, Link } from "../address.js";
import { useLasting } from "../asking.js";
import { FilterProblem, LanguageSelect, offsetOf, useFilterAnswer } from "../filters.js";
import { clock, count, inLine, Pairs, Problem, Table, Unanswered } from "../parts.js";

const REFRESH_MS = 5_000;
const SHOWN = 100;

export function Workbench({ parameters }) {
  const { filter = "", language = "", other = "", other_language = "", context = "", show = "events" } = parameters;
  const { answer, error, isCurrent } = useFilterAnswer({ filter, language, other, other_language });
  const change = (changed) => go("workbench", { ...parameters, ...changed }, { replace: true });
  const said = filter.trim() ? answer?.filter : null;
  const isValid = isCurrent && said && !said.problem;
  const asked = { filter, language, context };
  return html`
    <h1>Filter workbench</h1>
    <${Problem} error=${error} />
    <${Editor} name="filter" label="Filter" text=${filter} language=${language} problem=${said?.problem}
      onText=${(text) => change({ filter: text })} onLanguage=${(name) => change({ language: name })} />
    ${!filter.trim() && html`<p class="empty">Write a filter, such as <code>speed > 80 AND zone = 3</code>.</p>`}
    ${said && !said.problem && html`<${Says} said=${said} filter=${filter} language=${language} />`}
    ${said?.asks_context?.length > 0 && html`<${Context} context=${context} names=${said.asks_context} onContext=${(text) => change({ context: text })} />`}
    <h2>Compared with another filter</h2>
    <${Editor} name="other" label="Other filter" text=${other} language=${other_language} problem=${other.trim() ? answer?.other?.problem : null}
      onText=${(text) => change({ other: text })} onLanguage=${(name) => change({ other_language: name })} />
    ${answer?.relation && filter.trim() && other.trim() && html`<${Relation} found=${answer.relation} />`}
    <h2>Compared with what there is</h2>
    <div class="question" role="group" aria-label="Compare with">
      ${[["events", "Last events"], ["subscriptions", "Subscriptions"]].map(([name, label]) => html`
        <button aria-pressed=${show === name} class=${show === name ? "" : "quiet"} onClick=${() => change({ show: name })}>${label}</button>`)}
    </div>
    ${!isValid ? html`<p class="empty">${filter.trim() ? "Correct the filter first." : "Write a filter above first."}</p>`
      : show === "subscriptions" ? html`<${Comparisons} asked=${asked} />` : html`<${Matches} asked=${asked} />`}`;
}

/** A text in a language, with what is wrong with it. */
function Editor({ name, label, text, language, problem, onText, onLanguage }) {
  const area = useRef(null);
  const jump = () => {
    const at = offsetOf(text, problem.line, problem.column);
    area.current.focus();
    area.current.setSelectionRange(at, at + 1);
  };
  return html`
    <div class="question">
      <label class="wide">${label}
        <textarea class="code" ref=${area} name=${name} rows="3" spellcheck=${false} value=${text} aria-invalid=${problem ? "true" : "false"}
          aria-describedby=${problem ? `${name}-problem` : undefined} onInput=${(event) => onText(event.target.value)}></textarea>
      </label>
      <${LanguageSelect} label=${`Language of the ${label.toLowerCase()}`} value=${language} onChange=${onLanguage} />
    </div>
    <${FilterProblem} id=${`${name}-problem`} text=${text} problem=${problem} />
    ${problem?.line && html`<p><button class="quiet" onClick=${jump}>Go to the place</button></p>`}`;
}

/** What a filter says. */
function Says({ said, filter, language }) {
  return html`
    <dl class="says">
      <dt>printed</dt><dd><code>${said.text}</code></dd>
      <dt>routed by</dt><dd><code>${said.routable}</code></dd>
      <dt>exact test</dt><dd>${said.has_test
        ? html`<span class="warning">remains: what passes the filter is tested once, at the edge</span>${said.is_sometimes_certain ? "; for some events the filter alone decides" : ""}`
        : html`<span class="holds">none: the filter decides by itself</span>`}</dd>
      ${said.asks_context.length > 0 && html`<dt>asks for</dt><dd>${said.asks_context.join(", ")} of the subscriber's own context</dd>`}
      ${said.is_impossible && html`<dt>matches</dt><dd class="fails">nothing: no event can match it</dd>`}
    </dl>
    <p><${Link} class="button" page="live" parameters=${{ filter, language }}>Subscribe from here<//></p>`;
}

function Context({ context, names, onContext }) {
  const example = `{${names.map((name) => `"${name.replace(/^my\./, "")}": …`).join(", ")}}`;
  return html`
    <div class="question">
      <label class="wide">Context of the subscriber, as JSON
        <input class="code" value=${context} spellcheck=${false} placeholder=${example} onInput=${(event) => onContext(event.target.value)} />
      </label>
    </div>`;
}

const RELATIONS = {
  equal: "Both want the same events.",
  covers: "The filter covers the other: it wants every event that the other wants.",
  "is covered by": "The filter is covered by the other: the other wants every event that it wants.",
  intersects: "They intersect: some events are wanted by both, and neither covers the other.",
  "may intersect": "They may intersect: that no event is wanted by both cannot be shown.",
  disjoint: "They are disjoint: no event is wanted by both.",
};

/** How two filters relate. */
function Relation({ found }) {
  const examples = [["an event for both", found.both], ["only for the filter", found.only_filter], ["only for the other", found.only_other]];
  return html`
    <section aria-live="polite">
      <p class="verdict">${RELATIONS[found.relation]}</p>
      <dl>
        ${examples.filter(([, attributes]) => attributes).map(([label, attributes]) => html`
          <dt>${label}</dt><dd class="line">${inLine(attributes) || "one without attributes"}</dd>`)}
        ${hasSeveral(found.both) && html`<dt>note</dt><dd>an attribute may have several values, and a filter asks for one that fits</dd>`}
        <dt>merged</dt><dd>${found.merged
          ? html`<code>${found.merged.text}</code> ${found.merged.is_exact ? "" : `(about ${Math.round(100 * found.merged.excess)} % of it is wanted by neither)`}`
          : "there is no filter for both that is better than their OR"}</dd>
        ${found.is_about_routable && html`<dt>note</dt><dd>one of them has an exact test, so this is said of the filters that brokers route by</dd>`}
      </dl>
    </section>`;
}

/** Whether an attribute of an event has several values. */
function hasSeveral(attributes) {
  return Object.values(attributes ?? {}).some(Array.isArray);
}

/** Which of the last events of the network the filter would have matched. */
function Matches({ asked }) {
  const { answer, error } = useLasting("/everywhere/matches", asked, REFRESH_MS);
  const brokers = Object.entries(answer?.answers ?? {}).filter(([, found]) => found && !found.error);
  const faults = Object.entries(answer?.answers ?? {}).filter(([, found]) => found?.error);
  const sum = (field) => brokers.reduce((total, [, found]) => total + found[field], 0);
  const since = Math.min(...brokers.map(([, found]) => found.since));
  const rows = brokers
    .flatMap(([broker, found]) => found.events.map((event) => ({ ...event, broker })))
    .sort((a, b) => b.at - a.at).slice(0, SHOWN)
    .map((event) => [clock(event.at), html`<${Link} class="id" page="why" parameters=${{ event: event.event }}>${event.event}<//>`, event.broker, html`<span class="line"><${Pairs} attributes=${event.attributes} /></span>`]);
  if (!answer) return html`<${Problem} error=${error} /><p class="empty">Holding the filter against the last events…</p>`;
  return html`
    <${Problem} error=${error} />
    <${Unanswered} found=${answer} />
    ${faults.map(([broker, found]) => html`<p class="warning">${broker}: ${found.error}</p>`)}
    ${brokers.length > 0 && html`
      <p role="status"><strong>${count(sum("matched"))} of the last ${count(sum("looked_at"))} events</strong> would have been matched${Number.isFinite(since) ? `; they are kept since ${clock(since)}, while this page is open` : ""}.
        ${sum("looked_at") < sum("kept") && ` There was no time for ${count(sum("kept") - sum("looked_at"))} older ones.`}
        ${sum("residues") > 0 && ` ${count(sum("residues"))} passed the filter and failed the exact test.`}
        ${sum("failed") > 0 && ` ${count(sum("failed"))} could not be tested.`}</p>
      <${Table} label="Events that it would have matched" head=${["time", "event", "published at", "attributes"]} rows=${rows}
        empty=${sum("kept") ? "None of them." : "No event has been published since the brokers started."} />`}`;
}

/** How the filter relates to the subscriptions of the network. */
function Comparisons({ asked }) {
  const { answer, error } = useLasting("/everywhere/comparisons", { filter: asked.filter, language: asked.language }, 0);
  const brokers = Object.entries(answer?.answers ?? {}).filter(([, found]) => found && !found.error);
  const kinds = Object.keys(RELATIONS).filter((kind) => brokers.some(([, found]) => found.counts[kind]));
  const rows = brokers.flatMap(([broker, found]) => Object.entries(found.rows).flatMap(([kind, each]) =>
    each.map((row) => [kind, html`<${Link} page="sessions" parameters=${{ client: row.client }}>${row.client}<//> ${row.name}`, broker, html`<code>${row.filter}</code>${row.has_test ? " and an exact test" : ""}`])));
  if (!answer) return html`<${Problem} error=${error} /><p class="empty">Comparing with every subscription…</p>`;
  const total = (kind) => brokers.reduce((sum, [, found]) => sum + (found.counts[kind] ?? 0), 0);
  return html`
    <${Problem} error=${error} />
    <${Unanswered} found=${answer} />
    <p role="status">${kinds.length === 0 ? "There is no subscription." : kinds.map((kind) => `${kind} ${count(total(kind))}`).join(" · ")}
      ${brokers.some(([, found]) => found.is_cut) && " There was no time for all of them."}</p>
    <${Table} label="Subscriptions" head=${["the filter", "subscription", "broker", "its filter"]} rows=${rows.slice(0, 4 * SHOWN)} empty="No subscription has anything to do with the filter." />`;
}
