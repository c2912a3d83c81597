/** People: who is in the team, what they know, and who is here now. */

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { go, Link } from "/dashboard/address.js";
import { call, useTold } from "../api.js";
import { History } from "../history.js";
import { Act, Chips, counted, Empty, Face, Form, listed, Problem } from "../team_parts.js";

const KINDS = ["user", "member", "device", "presence"];
const LISTS = [["role", "Roles"], ["skill", "Skills"], ["language", "Languages"], ["place", "Places"], ["mail", "Mail addresses"], ["phone", "Phone numbers"]];
const INPUTS = { integer: "number", number: "number", date: "date" };
const AVAILABILITIES = ["available", "busy", "do not disturb", "hidden"];

export function People({ parameters, session }) {
  const { user = "", text = "" } = parameters;
  if (user) return html`<${One} name=${user} session=${session} />`;
  return html`<${All} text=${text} session=${session} />`;
}

function All({ text, session }) {
  const { answer, error, again } = useTold("/api/people", { text, limit: 500 }, KINDS);
  const [typed, setTyped] = useState(text);
  const search = (submitted) => {
    submitted.preventDefault();
    go("people", { text: typed.trim() });
  };
  const here = (answer?.items ?? []).filter(({ presence }) => presence).length;
  return html`
    <h1>People</h1>
    <form class="question" role="search" onSubmit=${search}>
      <label class="wide">Name, skill or place <input type="search" value=${typed} onInput=${(event) => setTyped(event.target.value)} placeholder="for example: welding" /></label>
      <button>Show</button>
    </form>
    <${Problem} error=${error} />
    ${answer && html`<p class="lead">${counted(answer.total, "person", "people")}${text ? ` with “${text}”` : ""}${session.may_write ? `, ${here} here now` : ""}.</p>`}
    ${answer && (answer.items.length > 0
      ? html`<ul class="cards">${answer.items.map((user) => html`<${Card} key=${user.name} user=${user} />`)}</ul>`
      : html`<${Empty} title="Nobody was found">${text ? "Search over all peers finds expertise in documents, too: see the page Search." : ""}<//>`)}
    ${answer && session.may_write && html`<${Presence} session=${session} people=${answer.items} onDone=${again} />`}
    ${session.role === "owner" && session.may_write && html`<${NewUser} onDone=${again} />`}`;
}

function Card({ user }) {
  const { profile } = user;
  return html`
    <li class="card">
      <div class="who">
        <${Face} name=${String(profile.name || user.name)} presence=${user.presence} />
        <div><h2><${Link} page="people" parameters=${{ user: user.name }}>${profile.name || user.name}<//></h2>
          <span class="dim">${user.name} · ${user.presence || "away"}${user.state === "joined" ? "" : ` · ${user.state}`}</span></div>
      </div>
      ${[profile.role].flat().filter(Boolean).length > 0 && html`<p>${[profile.role].flat().join(", ")}</p>`}
      <div><${Chips} words=${profile.skill} /></div>
    </li>`;
}

/** What the team is told of how available the user is, and who is told. */
function Presence({ session, people, onDone }) {
  const others = people.filter(({ name, state }) => name !== session.user && state === "joined");
  const set = async (data) => {
    await call("PUT", "/api/presence", { availability: data.get("availability"), status: data.get("status").trim(), shown_to: data.getAll("user") });
    onDone();
  };
  return html`
    <details>
      <summary>Your presence</summary>
      <${Form} act=${set} label="Tell them">
        <div class="pairs">
          <label>I am <select name="availability">${AVAILABILITIES.map((each) => html`<option value=${each}>${each}</option>`)}</select></label>
          <label>Note <input name="status" maxlength="200" placeholder="for example: on the train until four" /></label>
        </div>
        ${others.length > 0 && html`<fieldset><legend>Show it to these alone (nobody chosen: to all)</legend>
          ${others.map(({ name, profile }) => html`<label class="check"><input type="checkbox" name="user" value=${name} /> ${profile.name || name}</label>`)}
        </fieldset>`}
      <//>
    </details>`;
}

function One({ name, session }) {
  const { answer: user, error, again } = useTold(`/api/people/${encodeURIComponent(name)}`, {}, KINDS);
  if (!user) return html`<p><${Link} page="people">All people<//></p><h1>${name}</h1><${Problem} error=${error} />`;
  const { profile } = user;
  const isSelf = name === session.user;
  const write = async () => {
    const { scope } = await call("POST", "/api/conversations", { users: [name] });
    go("messages", { scope });
  };
  const state = (what) => call("POST", `/api/people/${encodeURIComponent(name)}/${what}`).then(again);
  return html`
    <p><${Link} page="people">All people<//></p>
    <div class="columns wide">
      <article class="card">
        <div class="who"><${Face} name=${String(profile.name || name)} presence=${user.presence} />
          <div><h1>${profile.name || name}</h1><span class="dim">${name} · ${user.role} of the team · ${user.presence || "away"}${user.state === "joined" ? "" : ` · ${user.state}`}</span></div></div>
        ${profile.about && html`<p>${profile.about}</p>`}
        <dl>
          ${profile.organisation && html`<dt>Organisation</dt><dd>${profile.organisation}</dd>`}
          ${LISTS.map(([field, label]) => [profile[field] ?? []].flat().length > 0 && html`<dt>${label}</dt><dd><${Chips} words=${profile[field]} /></dd>`)}
          ${Object.keys(session.added_elements ?? {}).map((field) => profile[field] !== undefined && html`<dt>${labelled(field)}</dt><dd><${Chips} words=${profile[field]} /></dd>`)}
          <dt>Devices</dt><dd>${user.devices.join(", ") || "none"}</dd>
        </dl>
        <div class="actions">
          ${!isSelf && session.may_write && html`<${Act} act=${write} quiet=${false}>Write a message<//>`}
          ${session.role === "owner" && session.may_write && !isSelf && (user.state === "suspended"
            ? html`<${Act} act=${() => state("resume")}>Let back in<//>`
            : html`<${Act} act=${() => state("suspend")} sure=${`Take all rights of ${name} away?`}>Suspend<//>`)}
        </div>
        <${History} path=${`/api/people/${encodeURIComponent(name)}`} kinds=${KINDS} />
      </article>
      ${isSelf && session.may_write && html`<${Profile} key=${JSON.stringify(profile)} name=${name} profile=${profile} added=${session.added_elements ?? {}} onDone=${again} />`}
    </div>`;
}

/** The name of an element as a label: `staff_number` is "Staff number". */
function labelled(field) {
  const words = field.replaceAll("_", " ");
  return words[0].toUpperCase() + words.slice(1);
}

/** A text as the value of an element; nothing removes it. What is wrong is told by the peer. */
function typed(text, { type, repeatable }) {
  const known = String(text ?? "").trim();
  if (!known) return null;
  const value = (each) => (type === "integer" || type === "number" ? Number(each) : type === "boolean" ? ["true", "yes"].includes(each.toLowerCase()) : each);
  return repeatable ? listed(known).map(value) : value(known);
}

/** The profile of the user, to be changed. */
function Profile({ name, profile, added, onDone }) {
  const save = async (data) => {
    const lists = Object.fromEntries(LISTS.map(([field]) => [field, listed(data.get(field))]));
    const texts = Object.fromEntries(["name", "organisation", "about"].map((field) => [field, data.get(field).trim()]));
    const changed = Object.entries({ ...texts, ...lists }).map(([field, value]) => [field, value.length ? value : null]);
    for (const [field, element] of Object.entries(added)) changed.push([field, typed(data.get(field), element)]);
    await call("PATCH", `/api/people/${encodeURIComponent(name)}`, { profile: Object.fromEntries(changed) });
    onDone();
  };
  return html`
    <section class="card">
      <h2>Your profile</h2>
      <p class="dim">The team finds you by what stands here. Put commas between several roles, skills and so on.</p>
      <${Form} act=${save} label="Save">
        <label>Name <input name="name" defaultValue=${profile.name ?? ""} autocomplete="name" /></label>
        <label>Organisation <input name="organisation" defaultValue=${profile.organisation ?? ""} /></label>
        ${LISTS.map(([field, label]) => html`<label>${label} <input name=${field} defaultValue=${[profile[field] ?? []].flat().join(", ")} /></label>`)}
        ${Object.entries(added).map(([field, { type, repeatable }]) => html`<label>${labelled(field)} <input name=${field} type=${repeatable ? "text" : INPUTS[type] ?? "text"} step="any" defaultValue=${[profile[field] ?? []].flat().join(", ")} /></label>`)}
        <label>About you <textarea name="about" rows="3" defaultValue=${profile.about ?? ""}></textarea></label>
      <//>
    </section>`;
}

function NewUser({ onDone }) {
  const create = async (data, form) => {
    const profile = data.get("full").trim() ? { name: data.get("full").trim() } : {};
    await call("POST", "/api/people", { name: data.get("name").trim(), role: data.get("role"), profile });
    form.reset();
    onDone();
  };
  return html`
    <details>
      <summary>New user</summary>
      <${Form} act=${create} label="Make the user">
        <div class="pairs">
          <label>User name <input name="name" required maxlength="100" /></label>
          <label>Full name <input name="full" /></label>
          <label>Role <select name="role"><option value="editor">editor</option><option value="reader">reader</option><option value="owner">owner</option></select></label>
        </div>
      <//>
      <p class="dim">A device joins by an invitation: <code>godwit team invite</code>. To let the user in here, by a browser alone, make a login link on the page Status.</p>
    </details>`;
}
