/**
 * Why? Pick an event or write one, and a client: the verdict, hop by hop, with the very part of a filter that failed.
 *
 * The brokers decide (GET /why); this page only shows what they say.
 */

import { html } from "htm/preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { go, Link } from "../address.js";
import { useAnswer } from "../asking.js";
import { FilterProblem, useCheckedFilter } from "../filters.js";
import { clock, count, counted, Pairs, Problem, Unanswered } from "../parts.js";
import { Drops } from "./why_drops.js";
import { Verdict } from "./why_verdict.js";
import { WriteEvent } from "./why_written.js";

const RECENT = 200; // events of each broker
const OFFERED = 20; // clients to choose from
const REFRESH_MS = 3_000;
const TYPING_MS = 300; // after the last key

export function Why({ parameters }) {
  const { event = "", client = "", written = "", publisher = "" } = parameters;
  const isAsked = client !== "" && (event !== "" || written !== "");
  const question = written ? { written, publisher, client } : { event, client };
  const { answer, error } = useAnswer(isAsked ? "/why" : null, question, isAsked ? REFRESH_MS : 0);
  const [isChanging, setChanging] = useState(false); // another question is being typed: the verdict is not for that one
  useEffect(() => setChanging(false), [event, client, written, publisher]);
  const ask = (changed) => {
    setChanging(false);
    go("why", { event, client, written, publisher, ...changed });
  };
  return html`
    <h1>Why did a client get an event, or not?</h1>
    <p class="dim">Pick an event from the list, or write one, and name the client.</p>
    <${Question} event=${event} client=${client} written=${written} publisher=${publisher} ask=${ask} onTyped=${() => setChanging(true)} />
    <${Problem} error=${error} />
    ${isAsked ? answer && !isChanging && html`<${Verdict} found=${answer} client=${client} />` : html`<${Drops} />`}`;
}

/** The two things that are asked for. */
function Question({ event, client, written, publisher, ask, onTyped }) {
  const sessions = useAnswer("/everywhere/sessions", { limit: RECENT }, 0);
  const names = useMemo(() => {
    const rows = Object.values(sessions.answer?.answers ?? {}).flatMap((each) => each.sessions ?? []);
    return [...new Set(rows.map((row) => row.client))].sort();
  }, [sessions.answer]);
  const submit = (submitted) => {
    submitted.preventDefault();
    const form = new FormData(submitted.target);
    ask({ event: form.get("event").trim(), client: form.get("client").trim(), written: "", publisher: "" });
  };
  return html`
    <form class="question" onSubmit=${submit} onInput=${onTyped}>
      <label>Client
        <input key=${client} name="client" list="clients" defaultValue=${client} required autocomplete="off" placeholder="name of a client" />
      </label>
      <datalist id="clients">${names.map((name) => html`<option value=${name} />`)}</datalist>
      <label>Event
        <input key=${event} class="long" name="event" defaultValue=${event} required autocomplete="off" placeholder="PUBLISHER:NUMBER" />
      </label>
      <button>Explain</button>
    </form>
    <${Problem} error=${sessions.error} />
    ${event && !client && html`<${Who} names=${names} event=${event} />`}
    <${Recent} event=${event} client=${client} isOpen=${event === "" && written === ""} />
    <${WriteEvent} written=${written} publisher=${publisher} client=${client} ask=${ask} />`;
}

/** An event is picked: which client is it about? */
function Who({ names, event }) {
  const few = names.slice(0, OFFERED);
  return html`
    <div class="who" role="group" aria-label="Who">
      <strong>Which client?</strong>
      ${few.map((name) => html`<${Link} page="why" parameters=${{ event, client: name }}>${name}<//>`)}
      <span class="dim">${names.length > few.length ? `${count(names.length - few.length)} more: type a name above` : "or type a name above"}</span>
    </div>`;
}

/** The last events of the whole network, or those of all remembered ones that are searched for, to pick one from. */
function Recent({ event, client, isOpen }) {
  const [text, setText] = useState("");
  const [filter, setFilter] = useState("");
  const typing = useRef(0);
  const type = (typed) => {
    clearTimeout(typing.current);
    typing.current = setTimeout(setText, TYPING_MS, typed.target.value.trim());
  };
  useEffect(() => () => clearTimeout(typing.current), []);
  const isSearch = text !== "" || filter !== "";
  const { problem, isUsable } = useCheckedFilter(filter);
  const { answer, error } = useAnswer(isUsable ? "/everywhere/search" : null, { text, filter, limit: RECENT }, isOpen && !isSearch ? REFRESH_MS : 0);
  const told = Object.entries(answer?.answers ?? {}).filter(([, each]) => each?.events);
  const rows = useMemo(() => told.flatMap(([broker, { events }]) => events.map((each) => ({ ...each, broker }))).sort((a, b) => b.at - a.at), [answer]);
  const lookedAt = told.reduce((sum, [, each]) => sum + each.looked_at, 0);
  return html`
    <details open=${isOpen}>
      <summary>Last events of the network</summary>
      <div class="question">
        <label>Search <input type="search" placeholder="part of a name or value" onInput=${type} /></label>
        <label class="wide">Filter <input type="search" class="code" autocomplete="off" spellcheck=${false} placeholder="such as zone = 3 AND speed > 50" onChange=${(typed) => setFilter(typed.target.value.trim())} /></label>
      </div>
      <${Problem} error=${error} />
      <${Unanswered} found=${answer} />
      <${FilterProblem} text=${filter} problem=${problem} />
      ${answer && html`<p class="dim" role="status">${
        isSearch ? `${count(rows.length)} found, of the last ${count(lookedAt)} that were searched`
        : rows.length ? `${counted(rows.length, "event")}: the last ${RECENT} of each broker. Search looks at all that brokers remember.`
        : "No event has been published since the brokers started."}</p>`}
      <ul class="events" tabindex="0" aria-label="Events">
        ${rows.map((row) => html`
          <li key=${row.event} class=${row.event === event ? "chosen" : ""}>
            <${Link} page="why" parameters=${{ event: row.event, client }}>${row.event}<//>
            <time>${clock(row.at)}</time> <span class="dim">${row.broker}</span> <span class="line"><${Pairs} attributes=${row.attributes} /></span>
          </li>`)}
      </ul>
    </details>`;
}
