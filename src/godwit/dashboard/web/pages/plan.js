/**
 * Plan: traces of moving clients and positions of brokers in; coverage, hand-overs, load, and settings with their
 * simulated evidence out. The broker runs `godwit plan` for it.
 */

import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { ask } from "../asking.js";
import { FileDrop, Progress, useJob } from "../jobs.js";
import { count, Problem, Table } from "../parts.js";
import { brokersOf, pointsOf, requestOf } from "../plan_input.js";
import { PlanMap } from "../plan_map.js";

const RADIUS_M = 1_000;
const MATRIX_BROKERS = 16;
const EXAMPLE = { trace: "ferries.csv", brokers: "ferries_piers.csv", radius_m: 700 };
const FOLDER = "plan/";

export function Plan() {
  const { job, busy, error, start, stop } = useJob("plan");
  const [plan, setPlan] = useState(null);
  const [trace, setTrace] = useState(null);
  const [points, setPoints] = useState([]);
  const [brokers, setBrokers] = useState([]);
  const [rates, setRates] = useState({ rate: 1, wanted: 0.1 });
  const [problem, setProblem] = useState(null);
  const isDone = job?.state === "done";
  useEffect(() => {
    setPlan(null);
    if (!isDone) return;
    ask(`/jobs/files/${FOLDER}plan.json`).then((found) => {
      setPlan(found);
      setBrokers((before) => (before.length ? before : found.assessment.brokers.map((each) => ({ ...each, address: "" }))));
    }).catch(setProblem);
  }, [job?.job, isDone]);

  const attempt = async (what) => {
    setProblem(null);
    try {
      await what();
    } catch (caught) {
      setProblem(caught);
    }
  };
  const takeTrace = (file) => attempt(async () => {
    if (!/\.(csv|parquet)$/i.test(file.name)) throw new Error(`${file.name}: a trace is a file that ends in .csv or .parquet`);
    if (file.size === 0) throw new Error(`${file.name} is empty: a trace has the columns time, id, lon and lat`);
    setTrace(file);
    setPoints(await pointsOf(file));
  });
  const takeBrokers = (file) => attempt(async () => setBrokers(filled(brokersOf(await file.text(), file.name), RADIUS_M)));
  const example = () => attempt(async () => {
    const { files } = await ask("/jobs/scenarios");
    await takeTrace(new File([files[EXAMPLE.trace]], EXAMPLE.trace));
    setBrokers(filled(brokersOf(files[EXAMPLE.brokers], EXAMPLE.brokers), EXAMPLE.radius_m));
  });
  const submit = (submitted) => {
    submitted.preventDefault();
    attempt(async () => {
      if (!trace) throw new Error("there is no trace yet: choose a file, or take the example");
      if (!brokers.length) throw new Error("there is no broker yet: click on the map, add a row, or choose a file of positions");
      await start(requestOf(trace, brokers, rates));
    });
  };
  const put = (lat, lon) => setBrokers((before) => [...before, newBroker(before, lat.toFixed(5), lon.toFixed(5))]);
  const found = plan?.assessment;
  return html`
    <h1>Plan</h1>
    <p>Where do clients move, and which network suits them? The broker reads a trace, simulates its busiest hour, and writes
      configuration files. <code>godwit plan</code> does the same on the command line, also for large traces.</p>
    <form onSubmit=${submit}>
      <${FileDrop} label="Trace: CSV or Parquet with time, id, lon and lat" accept=".csv,.parquet" take=${([file]) => takeTrace(file)}>
        ${trace
          ? html`<p><strong>${trace.name}</strong>, ${count(trace.size)} bytes. It is sent to this broker when you plan.</p>`
          : html`<p>Drop a file here, or choose one. <button type="button" onClick=${example}>Take the example</button></p>`}
      <//>
      <${PlanMap} brokers=${brokers} points=${points} gaps=${found?.gaps} links=${plan?.links} cellM=${found?.gap_cell_m} onClick=${put} />
      <p class="dim">Click on the map to put a broker there. Dots: positions of clients. ${found && "Red: gaps that no broker reaches. Lines: links of the plan."}</p>
      <${Brokers} brokers=${brokers} set=${setBrokers} take=${takeBrokers} />
      <div class="question">
        <label>Events a client publishes per second
          <input type="number" min="0.001" max="10000" step="any" required value=${rates.rate} onInput=${({ target }) => setRates({ ...rates, rate: target.value })} /></label>
        <label>Share of all events that a client receives
          <input type="number" min="0.001" max="1" step="any" required value=${rates.wanted} onInput=${({ target }) => setRates({ ...rates, wanted: target.value })} /></label>
        <button disabled=${job?.state === "running" || Boolean(busy)}>Plan</button>
      </div>
    </form>
    <${Problem} error=${problem} />
    <${Progress} job=${job} busy=${busy} error=${error} stop=${stop} />
    ${plan && html`<${Outcome} plan=${plan} files=${job?.files ?? []} />`}`;
}

function filled(brokers, radiusM) {
  return brokers.map((each) => ({ ...each, radius_m: each.radius_m === "" ? radiusM : each.radius_m }));
}

function newBroker(before, lat, lon) {
  const names = new Set(before.map(({ broker }) => broker));
  let number = before.length + 1;
  while (names.has(`b${number}`)) number += 1;
  return { broker: `b${number}`, lat, lon, radius_m: before.at(-1)?.radius_m ?? RADIUS_M, address: "" };
}

/** The table of brokers, which can be changed. */
function Brokers({ brokers, set, take }) {
  const change = (at, name, value) => set(brokers.map((each, number) => (number === at ? { ...each, [name]: value } : each)));
  const cell = (at, name, label, type = "number") => html`
    <input aria-label=${`${label} of broker ${at + 1}`} type=${type} step="any" required value=${brokers[at][name]} onInput=${({ target }) => change(at, name, target.value)} />`;
  const rows = brokers.map((_, at) => [
    cell(at, "broker", "Name", "text"), cell(at, "lat", "Latitude"), cell(at, "lon", "Longitude"), cell(at, "radius_m", "Radius"),
    html`<button type="button" class="quiet" onClick=${() => set(brokers.filter((_each, number) => number !== at))} aria-label=${`Remove broker ${at + 1}`}>Remove</button>`,
  ]);
  return html`
    <details open=${brokers.length < 20}>
      <summary>${count(brokers.length)} brokers</summary>
      <${FileDrop} label="Positions: CSV with broker, lon, lat, and perhaps radius_m and address" accept=".csv" take=${([file]) => take(file)} />
      <${Table} label="Brokers" head=${["name", "latitude", "longitude", "radius in m", ""]} rows=${rows} empty="There is no broker yet." />
      <p><button type="button" onClick=${() => set([...brokers, newBroker(brokers, "", "")])}>Add a broker</button></p>
    </details>`;
}

// ---------------------------------------------------------------- what comes out

function Outcome({ plan, files }) {
  const { assessment: found, choice, evidence, links } = plan;
  const leftOut = Object.entries(found.left_out).map(([reason, fixes]) => `${count(fixes)} left out: ${reason}`);
  return html`
    ${choice ? html`
      <div class="verdict yes" role="status"><strong>Mode ${choice.mode}, reduction ${choice.reduction}.</strong>
        <ul>${choice.reasons.map((reason) => html`<li>${reason}</li>`)}</ul></div>`
    : html`<p class="verdict no" role="status"><strong>Nothing that was simulated is safe.</strong> See the evidence; there are no configuration files.</p>`}
    <${Files} files=${files} />
    <h2>Coverage</h2>
    <p><strong>${percent(found.covered)}</strong> of ${count(found.fixes)} positions of ${count(found.clients)} clients in ${found.hours} hours are in the area of a broker. ${leftOut.join("; ")}</p>
    <${Loads} brokers=${found.brokers} />
    <${Table} label="Gaps" head=${[`gap (cells of ${count(found.gap_cell_m)} m)`, "positions", "share"]} empty="There is no gap."
      rows=${found.gaps.map(({ lat, lon, fixes, share }) => [`${lat.toFixed(4)}, ${lon.toFixed(4)}`, count(fixes), percent(share)])} />
    <h2>Hand-overs</h2>
    <p><strong>${found.moves_per_hour}</strong> moves an hour, ${found.moves_per_client_hour} for each client; ${count(found.handovers)} hand-overs, and ${count(found.returns)} moves of clients that were silent for long.
      The busiest hour has ${count(found.busiest_hour_moves)}.</p>
    <${Matrix} pairs=${found.pairs} />
    <${Pairs} pairs=${found.pairs} links=${links} />
    <h2>Evidence</h2>
    <${Evidence} evidence=${evidence} choice=${choice} />`;
}

function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

function Files({ files }) {
  const shown = files.filter((file) => file.startsWith(`${FOLDER}brokers/`) || file === `${FOLDER}plan.json`);
  const links = shown.map((file) => {
    const name = file.split("/").at(-1);
    return html`<li><a href=${`/jobs/files/${file.split("/").map(encodeURIComponent).join("/")}`} download=${name}>${name}</a></li>`;
  });
  return html`<h2>Files</h2><p>Run each broker with <code>godwit serve NAME.toml</code>.</p><ul class="files">${links}</ul>`;
}

function Loads({ brokers }) {
  const rows = brokers.map((each) => [
    each.broker, percent(each.within), percent(each.served), each.clients_mean, count(each.clients_peak), each.published_per_s, each.delivered_per_s,
  ]);
  const head = ["broker", "in its area", "nearest", "clients", "clients at most", "events/s published", "events/s delivered"];
  return html`<${Table} label="Load of brokers" head=${head} rows=${rows} empty="There is no broker." />`;
}

/** From which broker to which clients went; the busiest brokers only. */
function Matrix({ pairs }) {
  const totals = new globalThis.Map();
  const moves = new globalThis.Map();
  for (const { a, b, there, back } of pairs) {
    for (const name of [a, b]) totals.set(name, (totals.get(name) ?? 0) + there + back);
    moves.set(JSON.stringify([a, b]), there);
    moves.set(JSON.stringify([b, a]), back);
  }
  const all = [...totals].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1)).map(([name]) => name);
  const names = all.slice(0, MATRIX_BROKERS);
  const rows = names.map((from) => [html`<strong>${from}</strong>`, ...names.map((to) => moves.get(JSON.stringify([from, to])) || "")]);
  return html`
    <${Table} label="Moves from broker to broker" head=${["from \\ to", ...names]} rows=${rows} empty="Nobody moves from one broker to another." />
    ${all.length > names.length && html`<p class="dim">The ${MATRIX_BROKERS} brokers with most moves of ${count(all.length)} are shown.</p>`}`;
}

function Pairs({ pairs, links }) {
  const linked = new Set(links.flatMap(({ a, b }) => [JSON.stringify([a, b]), JSON.stringify([b, a])]));
  const rows = pairs.slice(0, 50).map(({ a, b, there, back, clients, share }) => [
    `${a} – ${b}`, count(there + back), count(clients), percent(share), linked.has(JSON.stringify([a, b])) ? html`<span class="holds">linked</span>` : "",
  ]);
  return html`<details><summary>Pairs worth a link</summary>
    <${Table} label="Pairs of brokers" head=${["between", "moves", "clients", "share of moves", "in the plan"]} rows=${rows} empty="Nobody moves from one broker to another." /></details>`;
}

function Evidence({ evidence: { setup, rows }, choice }) {
  if (!setup) return html`<p class="empty">Nothing was simulated: it takes two brokers and two clients.</p>`;
  const cells = rows.map((row) => [
    row.mode, row.reduction, row.safe ? html`<span class="holds">yes</span>` : html`<span class="fails">no${row.broken.length ? `: ${row.broken.join(", ")}` : ""}</span>`,
    count(row.lost), count(row.duplicated), count(row.out_of_order), count(row.messages), count(row.bytes_sent), ms(row.gap_p50_ms), ms(row.gap_p99_ms),
    row.mode === choice?.mode && row.reduction === choice?.reduction ? html`<strong>chosen</strong>` : "",
  ]);
  const head = ["mode", "reduction", "safe", "lost", "twice", "out of order", "messages", "bytes", "gap p50", "gap p99", ""];
  return html`
    <p>Simulated: ${setup.clients} of ${count(setup.clients_of)} clients and ${setup.brokers} of ${count(setup.brokers_of)} brokers, ${count(Math.round(setup.seconds))} s of the trace, seed ${setup.seed}.
      The gap is from a client's connection to another broker to the moment when its session is there.</p>
    <${Table} label="Evidence" head=${head} rows=${cells} empty="Nothing was simulated." />`;
}

function ms(value) {
  return value === null ? "" : `${Math.round(value)} ms`;
}
