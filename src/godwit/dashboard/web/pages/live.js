/**
 * Live: events as they come, by a filter that can be changed while it runs; plot a number in them; publish one.
 *
 * The filter may be in any language. The broker sends what it wants, over server-sent events, to a session that ends
 * with the page.
 */

import { html } from "htm/preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { go, Link } from "../address.js";
import { ask, publish } from "../asking.js";
import { FilterProblem, LanguageSelect } from "../filters.js";
import { clock, count, inLine, shown } from "../parts.js";
import { Plot } from "../plots.js";

const KEPT = 2_000; // events
const SHOWN = 200;
const SHOW_MS = 200; // however many events come
const EXPIRY_S = 10;

const NOTHING_YET = { events: [], came: 0, problem: "", fault: null };

/** The events that match a filter, as they come. `problem`: of the connection; `fault`: of the filter. */
function useEvents(filter, language, isPaused) {
  const [state, setState] = useState(NOTHING_YET);
  const paused = useRef(isPaused);
  paused.current = isPaused;
  useEffect(() => {
    let came = [];
    let total = 0;
    let source = null;
    let isOver = false;
    const client = `dashboard-${crypto.randomUUID()}`;
    const parameters = new URLSearchParams({ filter, ...(language && { language }), client, session_expiry_s: String(EXPIRY_S) });
    setState(NOTHING_YET);
    const open = () => {
      source = new EventSource(`/events?${parameters}`);
      source.onmessage = ({ data }) => {
        total += 1;
        if (!paused.current) came.push({ number: total, at: Date.now() / 1000, ...JSON.parse(data) });
      };
      source.onopen = () => setState((before) => ({ ...before, problem: "" }));
      source.onerror = () => setState((before) => ({ ...before, problem: "the broker cannot be reached; it is tried again" }));
      source.addEventListener("suspended", ({ data }) => {
        source.close();
        setState((before) => ({ ...before, problem: `the broker has ended the subscription: ${JSON.parse(data).reason ?? data}` }));
      });
    };
    ask("/workbench", { filter, language }).then(
      ({ filter: said }) => isOver || (said?.problem ? setState((before) => ({ ...before, fault: said.problem })) : open()),
      (error) => isOver || setState((before) => ({ ...before, problem: error.message })),
    );
    const timer = setInterval(() => {
      if (came.length === 0) return;
      const fresh = came;
      came = [];
      setState((before) => ({ ...before, events: [...before.events, ...fresh].slice(-KEPT), came: total }));
    }, SHOW_MS);
    return () => {
      isOver = true;
      clearInterval(timer);
      source?.close();
    };
  }, [filter, language]);
  return state;
}

export function Live({ parameters }) {
  const { filter = "", language = "", plot = "" } = parameters;
  const [isPaused, setPaused] = useState(false);
  const [search, setSearch] = useState("");
  const { events, came, problem, fault } = useEvents(filter, language, isPaused);
  const numbers = useMemo(() => numericNames(events), [events]);
  const found = events.filter((event) => search === "" || inLine(event.attributes).includes(search)).slice(-SHOWN).reverse();
  return html`
    <h1>Live</h1>
    <${Filter} key=${`${language} ${filter}`} filter=${filter} language=${language} plot=${plot} />
    <${FilterProblem} text=${filter} problem=${fault} />
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <div class="question">
      <button aria-pressed=${isPaused} onClick=${() => setPaused(!isPaused)}>${isPaused ? "Go on" : "Pause"}</button>
      <label>Search <input type="search" value=${search} onInput=${(typed) => setSearch(typed.target.value)} /></label>
      <label>Plot
        <select value=${plot} onChange=${(event) => go("live", { filter, language, plot: event.target.value }, { replace: true })}>
          <option value="">nothing</option>
          ${[...new Set([...numbers, ...(plot ? [plot] : [])])].map((name) => html`<option value=${name}>${name}</option>`)}
        </select>
      </label>
      <span role="status">${count(came)} events${isPaused ? ", paused" : ""}</span>
    </div>
    ${plot && html`<${Plot} title=${plot} names=${[plot]} data=${dataOf(events, plot)} />`}
    <${Rows} events=${found} isEmpty=${events.length === 0} />
    <${Publish} />`;
}

function Filter({ filter, language, plot }) {
  const [typed, setTyped] = useState(filter);
  const [chosen, setChosen] = useState(language);
  const submit = (submitted) => {
    submitted.preventDefault();
    go("live", { filter: typed.trim(), language: chosen, plot });
  };
  return html`
    <form class="question" onSubmit=${submit}>
      <label class="wide">Filter
        <input class="code" value=${typed} onInput=${(event) => setTyped(event.target.value)} spellcheck=${false} placeholder="everything, or as in speed > 80 AND zone = 3" />
      </label>
      <${LanguageSelect} value=${chosen} onChange=${setChosen} />
      <button>Listen</button>
      <${Link} page="workbench" parameters=${{ filter: typed, language: chosen }}>Filter workbench<//>
    </form>`;
}

/** The names of attributes that are numbers in the last events. */
function numericNames(events) {
  const names = new Set();
  for (const { attributes } of events.slice(-SHOWN)) {
    for (const [name, value] of Object.entries(attributes)) if (typeof value === "number") names.add(name);
  }
  return [...names].sort();
}

/** A number of the events, over time. */
function dataOf(events, name) {
  const rows = events.filter(({ attributes }) => typeof attributes[name] === "number");
  return [rows.map(({ at }) => at), rows.map(({ attributes }) => attributes[name])];
}

function Rows({ events, isEmpty }) {
  if (events.length === 0) return html`<p class="empty">${isEmpty ? "No event has come yet." : "No event has that in it."}</p>`;
  return html`
    <div class="scroll tall" tabindex="0" role="region" aria-label="Events">
      <table>
        <thead><tr><th scope="col">time</th><th scope="col">event</th><th scope="col">attributes</th></tr></thead>
        <tbody>
          ${events.map((event) => html`
            <tr key=${event.number}>
              <td>${clock(event.at)}</td><td>${event.publisher}:${event.sequence}</td>
              <td class="line">${Object.entries(event.attributes).map(([name, value]) => html`<span class="pair"><b>${name}</b> ${shown(value)}</span> `)}</td>
            </tr>`)}
        </tbody>
      </table>
    </div>`;
}

function Publish() {
  const [said, setSaid] = useState({ text: "", isBad: false });
  const submit = async (submitted) => {
    submitted.preventDefault();
    try {
      const attributes = JSON.parse(new FormData(submitted.target).get("attributes"));
      setSaid({ text: `published as ${await publish(attributes)}`, isBad: false });
    } catch (error) {
      setSaid({ text: error.message, isBad: true });
    }
  };
  return html`
    <details>
      <summary>Publish an event</summary>
      <form onSubmit=${submit}>
        <label class="wide">Attributes, as JSON <textarea class="code" name="attributes" rows="4" spellcheck=${false}>{"kind": "test", "n": 1}</textarea></label>
        <button>Publish</button>
        <span role="status" class=${said.isBad ? "fails" : "holds"}>${said.text}</span>
      </form>
    </details>`;
}
