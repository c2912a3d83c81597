/** Search: profiles and texts on all peers that answer, as results come in. */

import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { go, Link } from "/dashboard/address.js";
import { bytes, Chips, counted, Empty, Face, Problem, QueryFields } from "../team_parts.js";

const KINDS = { artefact: "documents", user: "people", community: "communities" };
const NOTHING = { results: [], progress: null, isOver: false, error: null };

export function Search({ parameters, session }) {
  const { words = "", query = "", language = "xql", kinds = Object.keys(KINDS).join(), stays_open: stays = "" } = parameters;
  const isAsked = Boolean(words || query);
  const found = useSearch(isAsked ? { words, query, language, kinds, stays_open: stays || "false" } : null);
  return html`
    <h1>Search</h1>
    ${!session.may_write && html`<p class="lead">Your searches here are answered by this peer alone. A peer of your own asks all others.</p>`}
    <${Question} key=${JSON.stringify(parameters)} words=${words} query=${query} language=${language} kinds=${kinds.split(",")} stays=${stays === "true"} languages=${session.languages} />
    <${Problem} error=${found.error} />
    ${found.progress && html`<${Progress} found=${found} stays=${stays === "true"} />`}
    ${found.results.length > 0 && html`<ul class="list">${found.results.map((each) => html`<${Result} key=${`${each.scope} ${each.record}`} result=${each} />`)}</ul>`}
    ${found.isOver && found.results.length === 0 && html`<${Empty} title="Nothing was found">Try fewer words. Peers show only what you may see.<//>`}
    ${!isAsked && html`<${Empty} title="Find documents, people who know something, and communities">Words are searched in profiles and in the texts of documents, on your own disk and on all peers that are here.<//>`}`;
}

/** The state of a search while its stream is open; a new question ends the one before. */
function useSearch(asked) {
  const [state, setState] = useState(NOTHING);
  const key = JSON.stringify(asked);
  useEffect(() => {
    setState(NOTHING);
    if (asked === null) return undefined;
    const source = new EventSource(`/api/search?${new URLSearchParams(asked)}`);
    const told = (change) => (event) => setState((before) => change(before, JSON.parse(event.data)));
    source.addEventListener("progress", told((before, progress) => ({ ...before, progress })));
    source.addEventListener("result", told((before, result) => ({ ...before, results: [...before.results, result].sort((one, other) => other.score - one.score) })));
    source.addEventListener("end", (event) => {
      source.close();
      told((before, progress) => ({ ...before, progress, isOver: true }))(event);
    });
    source.onerror = () => {
      source.close();
      explained(asked).then((error) => setState((before) => ({ ...before, error, isOver: true })));
    };
    return () => source.close();
  }, [key]);
  return state;
}

/** Why a search could not be made: a stream does not tell. */
async function explained(asked) {
  const response = await fetch(`/api/search?${new URLSearchParams({ ...asked, stays_open: "false", wait_s: "0.1" })}`, { headers: { accept: "application/json" } }).catch(() => null);
  const said = await response?.json().catch(() => null);
  return new Error(said?.error ?? "the server cannot be reached");
}

function Question({ words, query, language, kinds, stays, languages }) {
  const submit = (submitted) => {
    submitted.preventDefault();
    const data = new FormData(submitted.target);
    const asked = { words: data.get("words").trim(), query: data.get("query").trim(), stays_open: data.has("stays") ? "true" : "" };
    if (asked.query) asked.language = data.get("language");
    if (data.getAll("kind").length < Object.keys(KINDS).length) asked.kinds = data.getAll("kind").join();
    go("search", asked);
  };
  return html`
    <form role="search" class="fields" onSubmit=${submit}>
      <div class="question">
        <label class="wide">Words <input key=${words} type="search" name="words" defaultValue=${words} placeholder="for example: bridge welding" autofocus /></label>
        <button>Search</button>
      </div>
      <fieldset><legend>Look for</legend>
        ${Object.entries(KINDS).map(([kind, label]) => html`<label class="check"><input type="checkbox" name="kind" value=${kind} checked=${kinds.includes(kind)} /> ${label}</label>`)}
        <label class="check"><input type="checkbox" name="stays" checked=${stays} /> stay open for peers that reconnect later</label>
      </fieldset>
      <details open=${Boolean(query)}>
        <summary>Query over profiles</summary>
        <${QueryFields} languages=${languages} query=${query} language=${language} />
      </details>
    </form>`;
}

function Progress({ found, stays }) {
  const { progress, results, isOver } = found;
  const missing = progress.waiting.length + progress.away.length;
  const parts = [
    counted(results.length, "result"),
    `${counted(progress.answered.length, "peer has", "peers have")} answered`,
    missing > 0 && `${counted(missing, "has", "have")} not answered`,
    progress.away.length > 0 && `${counted(progress.away.length, "is", "are")} away`,
  ];
  return html`
    <p role="status" class="lead says">${parts.filter(Boolean).join("; ")}.${isOver ? "" : stays ? " The search stays open." : " Searching…"}</p>
    ${Object.entries(progress.refused).map(([device, reason]) => html`<p class="warning">${device} did not search: ${reason}</p>`)}`;
}

function Result({ result }) {
  const { kind, id, scope, name, fields } = result;
  const where = { artefact: ["documents", { scope, id }], user: ["people", { user: id }], community: ["communities", { id: id.includes("/") ? id : `community/${id}` }] }[kind];
  const about = { artefact: [fields.title && name, fields.size !== undefined && bytes(fields.size), fields.description], user: [id, fields.organisation], community: [fields.about] }[kind] ?? [];
  const words = { artefact: fields.keyword, user: fields.skill, community: fields.topic }[kind];
  return html`
    <li><${Link} class="item" page=${where[0]} parameters=${where[1]}>
      ${kind === "user" && html`<${Face} name=${name} />`}
      <span class="grow"><strong>${(kind === "artefact" && fields.title) || name}</strong><small>${about.filter(Boolean).join(" · ")}</small>
        <${Chips} words=${words} /></span>
      <span class="tag">${kind === "artefact" ? "document" : kind === "user" ? "person" : kind}</span>
    <//></li>`;
}
