/**
 * Simulate: run a scenario at the broker, and watch a recorded run: its network over time, on a graph and a map.
 *
 * A trace file is read in this browser, in a worker, and is sent nowhere.
 */

import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useAnswer } from "../asking.js";
import { FileDrop, Progress, useJob } from "../jobs.js";
import { count, Problem } from "../parts.js";
import { Player } from "../simulate_player.js";

const TRACE = "trace/trace.parquet";
const FIRST = "ferries";

export function Simulate({ parameters }) {
  const { job, busy, error, start, stop } = useJob("simulate");
  const trace = useTrace();
  const isDone = job?.state === "done" && job.files.includes(TRACE);
  const shown = useRef(null);
  useEffect(() => {
    if (!isDone || shown.current === job.job) return;
    shown.current = job.job;
    trace.fetchFrom(`/jobs/files/${TRACE}`);
  }, [job?.job, isDone]);
  return html`
    <h1>Simulate</h1>
    ${!job?.is_viewer && html`<${Scenario} isBusy=${job?.state === "running" || Boolean(busy)} start=${start} />`}
    <${Progress} job=${job} busy=${busy} error=${error} stop=${stop} />
    ${job?.state === "done" && job.said.length > 0 && html`<pre class="problem" role="alert">${job.said.join("\n")}</pre>`}
    <${FileDrop} label="Trace: trace.parquet of godwit simulate --trace" accept=".parquet" take=${([file]) => trace.open(file, file.name)}>
      <p>Drop a trace here to watch it. It is read in this browser, and sent nowhere.</p>
    <//>
    <${Problem} error=${trace.problem} />
    ${trace.progress !== null && html`<div class="row" role="status"><progress value=${trace.progress} max="1" aria-label="Share that is read"></progress> reading ${trace.name}</div>`}
    ${trace.summary && html`
      <${About} name=${trace.name} summary=${trace.summary} />
      <${Player} key=${trace.number} summary=${trace.summary} rowsFrom=${trace.rowsFrom} begin=${Number(parameters.at)} />`}
    ${!trace.summary && trace.progress === null && html`<p class="empty">Nothing to watch yet: run a scenario, or drop a trace.</p>`}`;
}

/** Which scenario, as text that can be changed. */
function Scenario({ isBusy, start }) {
  const { answer, error } = useAnswer("/jobs/scenarios");
  const [name, setName] = useState(FIRST);
  const [text, setText] = useState("");
  const scenarios = answer?.scenarios ?? {};
  useEffect(() => setText(scenarios[name] ?? ""), [answer]);
  const choose = ({ target }) => {
    setName(target.value);
    setText(scenarios[target.value]);
  };
  const submit = (submitted) => {
    submitted.preventDefault();
    const seed = Number(new FormData(submitted.target).get("seed"));
    start(new Blob([JSON.stringify({ scenario: text, name: text === scenarios[name] ? name : `${name}-changed`, seed })]));
  };
  return html`
    <${Problem} error=${error} />
    <form onSubmit=${submit}>
      <div class="question">
        <label>Scenario <select value=${name} onChange=${choose}>${Object.keys(scenarios).map((each) => html`<option value=${each}>${each}</option>`)}</select></label>
        <label>Seed <input name="seed" type="number" min="0" step="1" value="1" required /></label>
        <button disabled=${isBusy}>Run</button>
      </div>
      <details><summary>Change the scenario</summary>
        <label>TOML, as the guide on simulating explains <textarea class="code" spellcheck="false" value=${text} onInput=${({ target }) => setText(target.value)}></textarea></label>
      </details>
    </form>`;
}

function About({ name, summary: { about, rows, names, isBroker, ends, cut } }) {
  const brokers = isBroker.reduce((sum, each) => sum + each, 0);
  const scenario = about?.scenario?.name;
  return html`
    <h2>${scenario ?? name}${about?.seed !== undefined ? `, seed ${about.seed}` : ""}</h2>
    <p>${count(rows)} rows, ${ends.toFixed(1)} simulated seconds, ${count(brokers)} brokers, ${count(names.filter((each, at) => each && !isBroker[at]).length)} other nodes${about?.version ? `, written by Godwit ${about.version}` : ""}.</p>
    ${cut.length > 0 && html`<p class="warning">Too much to show all of it. Left out: ${cut.join("; ")}.</p>`}`;
}

/** A trace that a worker reads. */
function useTrace() {
  const worker = useRef(null);
  const asked = useRef(null);
  const [state, setState] = useState({ name: "", number: 0, summary: null, progress: null, problem: null });
  const change = (more) => setState((before) => ({ ...before, ...more }));
  useEffect(() => () => worker.current?.terminate(), []);
  const fail = (text) => change({ progress: null, problem: new Error(text) });

  function open(blob, name) {
    worker.current?.terminate(); // what it was about is no longer wanted
    worker.current = new Worker("/dashboard/simulate_worker.js", { type: "module" });
    setState((before) => ({ name, number: before.number + 1, summary: null, progress: 0, problem: null }));
    worker.current.onerror = () => fail("the reader of traces could not be started");
    worker.current.onmessage = ({ data }) => {
      if (data.progress !== undefined) change({ progress: data.progress });
      else if (data.ready) change({ summary: data.ready, progress: null });
      else if (data.rows) asked.current?.(data.rows);
      else if (data.failed) fail(`${name}: ${data.failed}`);
    };
    worker.current.postMessage({ open: blob });
  }

  async function fetchFrom(address) {
    change({ name: "the run", progress: 0, problem: null });
    try {
      const response = await fetch(address);
      if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
      open(await response.blob(), "the run");
    } catch (error) {
      fail(`the trace could not be fetched: ${error.message}`);
    }
  }

  const rowsFrom = (from, limit) => new Promise((resolve) => {
    asked.current = resolve; // an earlier question is no longer wanted
    worker.current.postMessage({ rows: { from, limit } });
  });
  return { ...state, open, fetchFrom, rowsFrom };
}
