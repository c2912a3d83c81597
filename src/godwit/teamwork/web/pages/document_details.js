/** One document: its profile, its versions, and what has become of it. */

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { go, Link } from "/dashboard/address.js";
import { call, ofScope, upload, useTold } from "../api.js";
import { History } from "../history.js";
import { shown } from "/dashboard/parts.js";
import { Act, bytes, Chips, Form, listed, moment, Problem } from "../team_parts.js";

const HIDDEN = ["name", "type", "size", "content", "root", "version", "title", "description", "keyword", "changed", "created"];

/** `here`: where it is, if the user is a member there; `reason`: why the user cannot change it, or empty. */
export function DocumentDetails({ scope, id, here, scopes, session, reason }) {
  const path = ofScope(scope, "documents", id);
  const { answer: document, error, again } = useTold(path, {}, ["artefact"]);
  const versions = useTold(here ? `${path}/versions` : null, {}, ["artefact"]).answer ?? []; // only members see its history
  const back = here
    ? html`<p><${Link} page="documents" parameters=${{ scope }}>Documents of ${here.name}<//></p>`
    : html`<p><${Link} page="search">Search<//></p>`;
  if (!document) return html`${back}<h1>Document</h1><${Problem} error=${error} />`;
  const { fields } = document;
  const does = (what) => () => call("POST", `${path}/${what}`).then(again);
  const remove = () => call("DELETE", path).then(() => go("documents", { scope }));
  const isFree = !document.locked_by || document.locked_by === session.user || here?.role === "owner";
  const mayChange = session.may_write && !reason && isFree;
  const more = Object.entries(fields).filter(([name]) => !HIDDEN.includes(name));
  return html`
    ${back}
    <div class="head"><h1>${fields.title || document.name}</h1>
      <div class="actions">
        <a class="button" href=${`${path}/content`} download=${document.name}>Download</a>
        ${mayChange && html`${document.locked_by ? html`<${Act} act=${does("unlock")}>Unlock<//>` : html`<${Act} act=${does("lock")}>Lock<//>`}
        <${Act} act=${remove} sure="Delete it for all members?">Delete<//>`}
      </div></div>
    ${document.conflicts.length > 0 && html`<p class="warning" role="status">Version ${document.conflicts.join(", ")} was made at the same time as the current one, without knowledge of it. Nothing is lost: compare them, and upload what is right.</p>`}
    ${reason && html`<p role="status">${reason}</p>`}
    ${document.locked_by && html`<p role="status">Locked by ${document.locked_by}: others cannot change it.</p>`}
    ${!document.is_here && html`<p role="status" class="dim">The content is at other peers. A download fetches it first.</p>`}
    <div class="columns wide">
      <div>
        <article class="card">
          ${fields.description && html`<p>${fields.description}</p>`}
          <dl>
            <dt>File</dt><dd>${document.name}</dd>
            <dt>Type</dt><dd>${document.type}</dd>
            <dt>Size</dt><dd>${bytes(document.size)}</dd>
            ${fields.changed && html`<dt>Changed</dt><dd>${moment(Date.parse(fields.changed) / 1000)}</dd>`}
            ${[fields.keyword ?? []].flat().length > 0 && html`<dt>Keywords</dt><dd><${Chips} words=${fields.keyword} /></dd>`}
            ${more.map(([name, value]) => html`<dt>${name}</dt><dd>${[value].flat().map(shown).join(", ")}</dd>`)}
          </dl>
        </article>
        ${here && html`<h2>Versions</h2>
        <ul class="list">${[...versions].reverse().map((each) => html`
          <li key=${each.number}><div class="item"><span class="grow">Version ${each.number} by ${each.user}<small>${moment(each.time)} · ${bytes(each.size)}</small></span>
            ${each.is_conflict && html`<span class="tag warning">lost against another</span>`}
            ${!each.is_here && html`<span class="tag">at other peers</span>`}
            <a href=${`${path}/content?version=${each.number}`} download=${document.name}>Download<span class="unseen"> version ${each.number}</span></a></div></li>`)}
        </ul>
        <${History} path=${path} kinds=${["artefact"]} />`}
      </div>
      ${mayChange && html`<${Changes} key=${document.content} path=${path} document=${document} scope=${scope} scopes=${scopes} onDone=${again} />`}
    </div>`;
}

/** What can be changed. */
function Changes({ path, document, scope, scopes, onDone }) {
  const { fields } = document;
  const [share, setShare] = useState(null);
  const save = async (data) => {
    const keyword = listed(data.get("keyword"));
    const changed = { title: data.get("title").trim() || null, description: data.get("description").trim() || null, keyword: keyword.length ? keyword : null };
    await call("PATCH", path, { fields: changed });
    onDone();
  };
  const replace = async (data, form) => {
    await upload("PUT", `${path}/content`, data.get("file"), setShare);
    setShare(null);
    form.reset();
    onDone();
  };
  const others = scopes.filter(({ id, role, isArchived }) => id !== scope && role !== "reader" && !isArchived);
  const move = async (data) => {
    const moved = await call("POST", `${path}/move`, { scope: data.get("scope") });
    go("documents", { scope: moved.scope, id: moved.id });
  };
  return html`
    <div>
      <section class="card"><h2>New version</h2>
        <${Form} act=${replace} label="Upload">
          <label>File <input type="file" name="file" required /></label>
          ${share !== null && html`<progress aria-label="Upload" value=${share}></progress>`}
        <//></section>
      <section class="card"><h2>Profile</h2>
        <${Form} act=${save} label="Save">
          <label>Title <input name="title" defaultValue=${fields.title ?? ""} /></label>
          <label>Description <textarea name="description" rows="3" defaultValue=${fields.description ?? ""}></textarea></label>
          <label>Keywords, with commas between them <input name="keyword" defaultValue=${[fields.keyword ?? []].flat().join(", ")} /></label>
        <//></section>
      ${others.length > 0 && html`<section class="card"><h2>Move</h2>
        <${Form} act=${move} label="Move">
          <label>To <select name="scope">${others.map(({ id, name }) => html`<option value=${id}>${name}</option>`)}</select></label>
        <//></section>`}
    </div>`;
}
