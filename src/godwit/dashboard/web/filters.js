/** Filters that somebody writes: in which language, and what is wrong with them, under the very place. */

import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { ask, RETRY_MS, useAnswer } from "./asking.js";

const TYPING_MS = 250; // of silence, after which what was typed is looked at

/** What the broker says to these parameters of /workbench, once typing pauses. The last answer stays until the next. */
export function useFilterAnswer(parameters) {
  const [state, setState] = useState({ answer: null, error: null, key: "" });
  const key = JSON.stringify(parameters);
  useEffect(() => {
    let isOver = false;
    const look = async () => {
      try {
        const answer = await ask("/workbench", parameters);
        if (!isOver) setState({ answer, error: null, key });
      } catch (error) {
        if (isOver) return;
        setState((before) => ({ ...before, error, key }));
        if (error.status === 0) timer = setTimeout(look, RETRY_MS);
      }
    };
    let timer = setTimeout(look, state.answer ? TYPING_MS : 0);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [key]);
  return { answer: state.answer, error: state.error, isCurrent: state.key === key };
}

/** A filter in the broker's own language, looked at before it is used: what is wrong with it, and whether it can be used. */
export function useCheckedFilter(filter) {
  const { answer, isCurrent } = useFilterAnswer({ filter });
  const problem = filter && isCurrent ? answer?.filter?.problem : null;
  return { problem, isUsable: !filter || (isCurrent && Boolean(answer) && !problem) };
}

/** The languages that this broker knows, to choose one from. */
export function LanguageSelect({ label = "Language", value, onChange }) {
  const { answer } = useAnswer("/workbench");
  const names = [...new Set(["filter", ...(value ? [value] : []), ...(answer?.languages ?? [])])];
  return html`
    <label>${label}
      <select value=${value || "filter"} onChange=${(event) => onChange(event.target.value === "filter" ? "" : event.target.value)}>
        ${names.map((name) => html`<option value=${name}>${name === "filter" ? "Godwit's own" : name}</option>`)}
      </select>
    </label>`;
}

/** What is wrong with a text: the line of it with the place marked, why, and what could stand there. */
export function FilterProblem({ id, text, problem }) {
  if (!problem) return null;
  const { message, line, column, expected } = problem;
  const place = line === null ? null : marked(text, line, column);
  return html`
    <div id=${id} class="problem" role="alert">
      ${place && html`<pre class="excerpt"><code>${place.before}<mark>${place.at}</mark>${place.after}</code></pre>`}
      ${line !== null && `Line ${line}, column ${column}: `}<span class="line">${message}</span>
      ${expected.length > 0 && html`<div>Allowed here: ${expected.map((each) => html`<code class="chip">${each}</code> `)}</div>`}
    </div>`;
}

const SHOWN = 60; // characters to each side of the place

/** The line of a text, cut at the place that is meant. */
export function marked(text, line, column) {
  const row = [...(text.split("\n")[line - 1] ?? "")]; // characters, as brokers count them
  const at = Math.min(Math.max(column - 1, 0), row.length);
  const said = (from, to) => row.slice(from, to).join("");
  return { before: said(Math.max(0, at - SHOWN), at), at: said(at, at + 1) || " ", after: said(at + 1, at + SHOWN) };
}

/** Where in a text a line and a column are. */
export function offsetOf(text, line, column) {
  const rows = text.split("\n");
  const before = [...(rows[line - 1] ?? "")].slice(0, column - 1).join("");
  return rows.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0) + before.length;
}
