/** Small parts that the pages of a team share. */

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { Link } from "/dashboard/address.js";

/** Day and time, from seconds since 1970. */
export function moment(at) {
  if (typeof at !== "number") return "";
  return new Date(at * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** A number of bytes as people say it. */
export function bytes(size) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let at = 0;
  let number = size ?? 0;
  while (number >= 1000 && at < units.length - 1) {
    number /= 1000;
    at += 1;
  }
  return `${at === 0 || number >= 100 ? Math.round(number) : number.toFixed(1)} ${units[at]}`;
}

/** "1 member", "2 members". */
export function counted(number, one, many = `${one}s`) {
  return `${Number(number).toLocaleString("en-US")} ${number === 1 ? one : many}`;
}

/** Texts that were typed with commas between them. */
export function listed(text) {
  return String(text ?? "").split(",").map((each) => each.trim()).filter(Boolean);
}

/** Why something was not done. */
export function Problem({ error }) {
  if (!error) return null;
  return html`<p class="problem" role="alert">${error.message}${error.status === 0 ? ". It is tried again." : ""}</p>`;
}

/** The message shown where there is nothing, and what to do about it. */
export function Empty({ title, children }) {
  return html`<div class="nothing"><strong>${title}</strong>${children && html`<p>${children}</p>`}</div>`;
}

/** Initials in a circle, with a dot that tells how available somebody is. */
export function Face({ name, presence }) {
  const initials = name.split(/\s+/).map((word) => [...word][0] ?? "").slice(0, 2).join("").toUpperCase();
  const state = presence === undefined ? "" : ` ${(presence || "away").replaceAll(" ", "-")}`;
  return html`<span class=${`face${state}`} aria-hidden="true">${initials}</span>`;
}

/** A link to a person, by the name in the profile. */
export function Person({ name, people }) {
  const shown = people?.find((each) => each.name === name)?.profile?.name;
  return html`<${Link} page="people" parameters=${{ user: name }}>${shown || name}<//>`;
}

/** Words in small frames. */
export function Chips({ words }) {
  const known = [words ?? []].flat().map(String);
  return known.map((word) => html`<span class="chip word">${word}</span>`);
}

/** A form that does something, and says why if that was refused. `act` gets its data. */
export function Form({ act, label, children, className = "fields", after }) {
  const [state, setState] = useState({ error: null, isBusy: false });
  const submit = async (submitted) => {
    submitted.preventDefault();
    const form = submitted.target;
    setState({ error: null, isBusy: true });
    try {
      await act(new FormData(form), form);
      setState({ error: null, isBusy: false });
    } catch (error) {
      setState({ error, isBusy: false });
    }
  };
  return html`
    <form class=${className} onSubmit=${submit}>
      ${children}
      <div class="actions"><button disabled=${state.isBusy}>${label}</button>${after}</div>
      <${Problem} error=${state.error} />
    </form>`;
}

/** A button that does something, and says why if that was refused. With `sure`, it asks first. */
export function Act({ act, children, sure = "", quiet = true }) {
  const [state, setState] = useState({ error: null, isBusy: false, isAsked: false });
  const run = async () => {
    setState({ error: null, isBusy: true, isAsked: false });
    try {
      await act();
      setState({ error: null, isBusy: false, isAsked: false });
    } catch (error) {
      setState({ error, isBusy: false, isAsked: false });
    }
  };
  if (state.isAsked) {
    return html`
      <span class="sure" role="group" aria-label=${sure}>
        <span>${sure}</span>
        <button type="button" class="danger" onClick=${run}>Yes</button>
        <button type="button" class="quiet" onClick=${() => setState({ ...state, isAsked: false })}>No</button>
      </span>`;
  }
  const begin = () => (sure ? setState({ ...state, isAsked: true }) : run());
  return html`
    <button type="button" class=${quiet ? "quiet" : ""} disabled=${state.isBusy} onClick=${begin}>${children}</button>
    <${Problem} error=${state.error} />`;
}

/** A query over profiles, and its language: two fields of a form. `languages` has an example of each. */
export function QueryFields({ languages, label = "Query", name = "query", query = "", language = "xql", required = false }) {
  const [chosen, setChosen] = useState(language);
  return html`
    <div class="question">
      <label>Language <select name="language" onChange=${(event) => setChosen(event.target.value)}>${Object.keys(languages).map((each) => html`<option value=${each} selected=${each === chosen}>${each}</option>`)}</select></label>
      <label class="wide">${label} <input key=${query} class="code" name=${name} defaultValue=${query} required=${required} spellcheck=${false} placeholder=${languages[chosen] ?? ""} /></label>
    </div>`;
}

/** A list of scopes to choose from. */
export function ScopeChoice({ scopes, value, onChoose, label = "Where" }) {
  return html`
    <label>${label}
      <select value=${value} onChange=${(event) => onChoose(event.target.value)}>
        ${scopes.map(({ id, name }) => html`<option value=${id} selected=${id === value}>${name}</option>`)}
      </select>
    </label>`;
}
