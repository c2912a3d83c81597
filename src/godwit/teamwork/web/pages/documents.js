/** Documents of a community or of the team: stored, found again, changed, locked, moved. */

import { html } from "htm/preact";
import { useRef, useState } from "preact/hooks";
import { go, Link } from "/dashboard/address.js";
import { ofScope, upload, useTold } from "../api.js";
import { DocumentDetails } from "./document_details.js";
import { bytes, counted, Empty, moment, Problem, ScopeChoice } from "../team_parts.js";

const PAGE_ROWS = 100;

export function Documents({ parameters, session }) {
  const communities = useTold("/api/communities", {}, ["scope", "member"]).answer;
  if (!communities) return null;
  const mine = communities.mine.map(({ id, name, members, is_archived }) => ({ id, name, role: members[session.user], isArchived: is_archived }));
  const scopes = [...mine, { id: session.team, name: "The whole team", role: session.role, isArchived: false }];
  const scope = parameters.scope || scopes[0].id;
  const here = placeOf(scopes, scope);
  if (parameters.id) return html`<${DocumentDetails} key=${parameters.id} scope=${scope} id=${parameters.id} here=${here} scopes=${scopes} session=${session} reason=${noChanges(here)} />`;
  return html`<${List} key=${scope} scope=${scope} scopes=${scopes} mayWrite=${session.may_write && !noChanges(here)} text=${parameters.text ?? ""} first=${Math.max(0, Number(parameters.first) || 0)} />`;
}

/** Where documents are, if the user is a member there. Everybody in a conversation may change its documents. */
function placeOf(scopes, scope) {
  if (scope.startsWith("conversation/")) return { id: scope, name: "this conversation", role: "editor", isArchived: false };
  return scopes.find(({ id }) => id === scope);
}

/** Why the user cannot change documents here; empty: they can. */
function noChanges(here) {
  if (!here) return "It belongs to a community of which you are not a member, and was shown to you: you can read it.";
  if (here.isArchived) return `${here.name} is archived: nothing can be changed.`;
  return here.role === "reader" ? `You are a reader of ${here.name}: editors and owners can change its documents.` : "";
}

function List({ scope, scopes, mayWrite, text, first }) {
  const { answer, error, again } = useTold(ofScope(scope, "documents"), { text, first, limit: PAGE_ROWS }, ["artefact"]);
  const [typed, setTyped] = useState(text);
  const search = (submitted) => {
    submitted.preventDefault();
    go("documents", { scope, text: typed.trim() });
  };
  const page = (at) => ({ scope, text, first: at });
  return html`
    <h1>Documents</h1>
    <form class="question" role="search" onSubmit=${search}>
      <${ScopeChoice} scopes=${scopes} value=${scope} onChoose=${(chosen) => go("documents", { scope: chosen })} />
      <label class="wide">Name or title <input type="search" value=${typed} onInput=${(event) => setTyped(event.target.value)} /></label>
      <button>Show</button>
    </form>
    ${mayWrite && html`<${Upload} scope=${scope} onDone=${again} />`}
    <${Problem} error=${error} />
    ${answer && (answer.items.length > 0
      ? html`<p class="lead">${counted(answer.total, "document")}.</p><ul class="list">${answer.items.map((each) => html`<${Row} key=${each.id} document=${each} />`)}</ul>`
      : html`<${Empty} title=${text ? "No document has this name" : "No documents yet"}>${text ? "The page Search looks into texts, too, on all peers." : "Choose files above, or drop them there. All members can read them, also without a network."}<//>`)}
    <nav class="pages" aria-label="Rows">
      ${first > 0 && html`<${Link} page="documents" parameters=${page(Math.max(0, first - PAGE_ROWS))}>Earlier rows<//>`}
      ${answer && first + PAGE_ROWS < answer.total && html`<${Link} page="documents" parameters=${page(first + PAGE_ROWS)}>More rows<//>`}
    </nav>`;
}

function Row({ document }) {
  const { id, scope, name, fields } = document;
  return html`
    <li><${Link} class="item" page="documents" parameters=${{ scope, id }}>
      <span class="grow"><strong>${fields.title || name}</strong><small>${fields.title ? `${name} · ` : ""}${bytes(document.size)} · version ${document.version}${fields.changed ? ` · ${moment(Date.parse(fields.changed) / 1000)}` : ""}</small></span>
      ${document.conflicts.length > 0 && html`<span class="tag warning">changed twice at once</span>`}
      ${document.locked_by && html`<span class="tag">locked by ${document.locked_by}</span>`}
      ${!document.is_here && html`<span class="tag">at other peers</span>`}
    <//></li>`;
}

/** Files to be shared: chosen, or dropped here. */
function Upload({ scope, onDone }) {
  const [state, setState] = useState({ isOver: false, sending: null, errors: [] });
  const input = useRef(null);
  const send = async (files) => {
    const errors = [];
    for (const file of files) {
      const path = `${ofScope(scope, "documents")}?${new URLSearchParams({ name: file.name })}`;
      try {
        await upload("POST", path, file, (share) => setState({ isOver: false, sending: { name: file.name, share }, errors }));
      } catch (error) {
        errors.push(`${file.name}: ${error.message}`);
      }
    }
    if (input.current) input.current.value = "";
    setState({ isOver: false, sending: null, errors });
    onDone();
  };
  const drop = (dropped) => {
    dropped.preventDefault();
    send([...dropped.dataTransfer.files]);
  };
  const over = (isOver) => (event) => {
    event.preventDefault();
    setState((before) => ({ ...before, isOver }));
  };
  return html`
    <div class=${state.isOver ? "drop over" : "drop"} onDragOver=${over(true)} onDragLeave=${over(false)} onDrop=${drop}>
      <label>Add files: choose them, or drop them here <input type="file" multiple ref=${input} onChange=${(event) => send([...event.target.files])} /></label>
      <div role="status">${state.sending && html`<p>${state.sending.name} <progress aria-label=${`Upload of ${state.sending.name}`} value=${state.sending.share}></progress></p>`}</div>
      ${state.errors.map((each) => html`<p class="problem" role="alert">${each}</p>`)}
    </div>`;
}
