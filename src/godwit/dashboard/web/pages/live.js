/**
 * Live: events as they come, by a filter that can be changed while it runs; plot a number in them; publish one.
 *
 * The filter may be in any language. The page is a client of its broker (live_feed.js), and says when it shows samples.
 */

import { html } from "htm/preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { go, Link } from "../address.js";
import { ask, useAnswer } from "../asking.js";
import { FilterProblem, LanguageSelect } from "../filters.js";
import { FULL_PER_S, openClient, startTail } from "../live_feed.js";
import { clock, count, inLine, Pairs, Unanswered } from "../parts.js";
import { Plot } from "../plots.js";

const KEPT = 2_000; // events
const SHOWN = 200;
const TEXT_MAX = 200; // characters of a value in a row
const SHOW_MS = 200; // however many events come
const RETRY_MS = 1_000;
const BROKERS_MS = 5_000;
const UNREACHABLE = "The broker cannot be reached. It is tried again.";

/** The page as a client: null until it is one. `problem`: why it is not connected. */
function useClient() {
  const [client, setClient] = useState(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let isOver = false;
    let timer = 0;
    let opened = null;
    const onState = ({ kind }) => isOver || setProblem(kind === "away" ? UNREACHABLE : "");
    const open = async () => {
      try {
        opened = await openClient(onState);
        if (isOver) opened.close({ leave: true });
        else setClient(opened);
      } catch (error) {
        if (isOver) return;
        setProblem(error.status ? error.message : UNREACHABLE);
        if (!error.status) timer = setTimeout(open, RETRY_MS);
      }
    };
    open();
    return () => {
      isOver = true;
      clearTimeout(timer);
      opened?.close({ leave: true });
    };
  }, []);
  return { client, problem };
}

const NOTHING_YET = { isListening: false, events: [], came: 0, ended: "", fault: null, sampledOf: null };

/** Events that match a filter, as they come. `fault`: of the filter; `ended`: why no more come; `sampledOf`: about how many in a second. */
function useEvents(client, filter, language, isPaused) {
  const [state, setState] = useState(NOTHING_YET);
  const paused = useRef(isPaused);
  paused.current = isPaused;
  useEffect(() => {
    let fresh = [];
    let total = 0;
    let isOver = false;
    let stop = () => {};
    const change = (changed) => isOver || setState((before) => ({ ...before, ...changed }));
    const onEvents = (rows) => {
      for (const row of rows) {
        total += 1;
        if (!paused.current) fresh.push({ number: total, at: Date.now() / 1000, ...row });
      }
    };
    const onListening = () => change({ isListening: true });
    const onSampling = (sampledOf) => change({ sampledOf });
    const onEnd = (error) => change({ ended: `the broker has ended the subscription: ${error.message}` });
    setState(NOTHING_YET);
    if (client) {
      ask("/workbench", { filter, language }).then(({ filter: said }) => {
        if (isOver) return;
        if (said?.problem) change({ fault: said.problem });
        else stop = startTail(client, { filter, language, onListening, onEvents, onSampling, onEnd });
      }, (error) => change({ ended: error.message }));
    }
    const timer = setInterval(() => {
      if (fresh.length === 0) return;
      const rows = fresh;
      fresh = [];
      setState((before) => ({ ...before, events: [...before.events, ...rows].slice(-KEPT), came: total }));
    }, SHOW_MS);
    return () => {
      isOver = true;
      clearInterval(timer);
      stop();
    };
  }, [client, filter, language]);
  return state;
}

export function Live({ parameters }) {
  const { filter = "", language = "", plot = "" } = parameters;
  const [isPaused, setPaused] = useState(false);
  const [search, setSearch] = useState("");
  const { client, problem } = useClient();
  const network = useAnswer("/everywhere/network", {}, BROKERS_MS); // events at a broker that is down do not come
  const { isListening, events, came, ended, fault, sampledOf } = useEvents(client, filter, language, isPaused);
  const numbers = useMemo(() => numericNames(events), [events]);
  const wanted = search.toLowerCase();
  const found = events.filter((event) => wanted === "" || `${event.id}  ${inLine(event.attributes)}`.toLowerCase().includes(wanted)).slice(-SHOWN).reverse();
  return html`
    <h1>Live</h1>
    <${Filter} key=${`${language} ${filter}`} filter=${filter} language=${language} plot=${plot} />
    <${FilterProblem} text=${filter} problem=${fault} />
    ${(problem || ended) && html`<p class="problem" role="alert">${problem || ended}</p>`}
    <${Unanswered} found=${network.answer} />
    ${sampledOf !== null && html`<${Sampling} perS=${sampledOf} />`}
    <div class="question">
      <button aria-pressed=${isPaused} onClick=${() => setPaused(!isPaused)}>${isPaused ? "Go on" : "Pause"}</button>
      <label>Search <input type="search" value=${search} onInput=${(typed) => setSearch(typed.target.value)} /></label>
      <label>Plot
        <select value=${plot} onChange=${(event) => go("live", { filter, language, plot: event.target.value }, { replace: true })}>
          <option value="">nothing</option>
          ${[...new Set([...numbers, ...(plot ? [plot] : [])])].map((name) => html`<option value=${name}>${name}</option>`)}
        </select>
      </label>
      <span role="status">${isListening ? `${count(came)} events` : "not listening yet"}${isPaused ? ", paused" : ""}</span>
    </div>
    ${plot && html`<${Plot} title=${plot} names=${[plot]} data=${dataOf(events, plot)} />`}
    <${Rows} events=${found} isEmpty=${events.length === 0} />
    <${Publish} client=${client} />`;
}

/** A note while not every event is shown. */
function Sampling({ perS }) {
  return html`<p class="warning" role="status">These are samples: about ${count(Math.round(perS))} events a second match, and the page shows each one up to ${count(FULL_PER_S)} a second. Every second it asks each broker for the latest 20.</p>`;
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
      <table class="cards">
        <thead><tr><th scope="col">time</th><th scope="col">event</th><th scope="col">attributes</th></tr></thead>
        <tbody>
          ${events.map((event) => html`
            <tr key=${event.number}>
              <td>${clock(event.at)}</td><td><${Link} class="id" page="why" parameters=${{ event: event.id }} title=${event.id}>${event.id}<//></td>
              <td class="line"><${Pairs} attributes=${event.attributes} cut=${cut} /></td>
            </tr>`)}
        </tbody>
      </table>
    </div>`;
}

/** As much of a text as a row shows. */
function cut(text) {
  return text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}… (${count(text.length)} characters)` : text;
}

function Publish({ client }) {
  const [said, setSaid] = useState({ text: "", isBad: false });
  const submit = async (submitted) => {
    submitted.preventDefault();
    try {
      const attributes = JSON.parse(new FormData(submitted.target).get("attributes"));
      if (attributes === null || typeof attributes !== "object" || Array.isArray(attributes)) throw new Error('attributes are an object, such as {"n": 1}');
      setSaid({ text: "waits for the broker…", isBad: false });
      const { publisher, sequence } = await client.publish(attributes);
      setSaid({ text: `published as ${publisher}:${sequence}`, isBad: false });
    } catch (error) {
      setSaid({ text: error.message, isBad: true });
    }
  };
  return html`
    <details>
      <summary>Publish an event</summary>
      <form onSubmit=${submit}>
        <label class="wide">Attributes, as JSON <textarea class="code" name="attributes" rows="4" spellcheck=${false}>{"kind": "test", "n": 1}</textarea></label>
        <button disabled=${!client}>Publish</button>
        <span role="status" class=${said.isBad ? "fails" : "holds"}>${said.text}</span>
      </form>
    </details>`;
}
