/** Small parts that pages share. */

import { html } from "htm/preact";

/** A value of an attribute as text. */
export function shown(value) {
  if (typeof value === "string") return value;
  if (value === null || value === undefined) return "";
  if (value instanceof Date) return value.toISOString();
  if (typeof value === "object" && "$time" in value) return value.$time;
  if (typeof value.lon === "number" && typeof value.lat === "number") return `${value.lat.toFixed(4)}, ${value.lon.toFixed(4)}`;
  return JSON.stringify(value);
}

/** Attributes, each name beside its value. */
export function Pairs({ attributes, cut = (text) => text }) {
  return Object.entries(attributes ?? {}).map(([name, value]) => html`<span class="pair"><b>${name}</b> ${cut(shown(value))}</span> `);
}

/** Attributes as one text. */
export function inLine(attributes) {
  return Object.entries(attributes ?? {}).map(([name, value]) => `${name}=${shown(value)}`).join("  ");
}

/** A time of day, from seconds since 1970. */
export function clock(at) {
  if (typeof at !== "number") return "";
  const time = new Date(at * 1000);
  return `${time.toLocaleTimeString("en-GB")}.${String(time.getMilliseconds()).padStart(3, "0")}`;
}

/** A whole number with groups of three. */
export function count(number) {
  return Number(number ?? 0).toLocaleString("en-US");
}

/** A number of things: "1 client", "2 clients". */
export function counted(number, thing) {
  return `${count(number)} ${thing}${number === 1 ? "" : "s"}`;
}

/** A moment to the second: a time of day, with the date if that is not today. From seconds since 1970. */
export function moment(at) {
  if (typeof at !== "number") return "";
  const time = new Date(at * 1000);
  const day = time.toLocaleDateString("sv-SE"); // as in 2026-11-17
  return day === new Date().toLocaleDateString("sv-SE") ? time.toLocaleTimeString("en-GB") : `${day} ${time.toLocaleTimeString("en-GB")}`;
}

/** The message shown when no answer came, and why. */
export function Problem({ error }) {
  if (!error) return null;
  const hint = error.status === 0 ? "It is tried again." : error.status === 403 ? "Log in as a user with admin rights." : "";
  return html`<p class="problem" role="alert">${error.message}. ${hint}</p>`;
}

/** The message about brokers that have not answered. */
export function Unanswered({ found }) {
  const missing = found?.unanswered ?? [];
  if (missing.length === 0) return null;
  const all = missing.length + Object.keys(found.answers ?? {}).length || missing.length;
  return html`<p class="warning" role="status">${missing.length} of ${all} brokers did not answer: ${missing.join(", ")}.</p>`;
}

/** A table with a head; `rows` are arrays of cells. On a phone each row is a card, with the name of each cell before it. */
export function Table({ label, head, rows, empty }) {
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`;
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${label}>
      <table class="cards">
        <thead><tr>${head.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
        <tbody>${rows.map((cells) => html`<tr>${cells.map((cell, at) => html`<td data-label=${head[at]}>${cell}</td>`)}</tr>`)}</tbody>
      </table>
    </div>`;
}
