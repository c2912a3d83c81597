/** Why? An event that somebody writes: attribute by attribute, or as JSON as in POST /events. Nothing is published. */

import { html } from "htm/preact";
import { useState } from "preact/hooks";

const EMPTY = [{ name: "", value: "" }];

export function WriteEvent({ written, publisher, client, ask }) {
  const [isJson, setJson] = useState(written !== "" && rowsOf(written) === null);
  const [rows, setRows] = useState(rowsOf(written) ?? EMPTY);
  const [text, setText] = useState(written || "{}");
  const [problem, setProblem] = useState("");
  const change = (at, changed) => {
    const next = rows.map((row, index) => (index === at ? { ...row, ...changed } : row));
    if (next.at(-1).name) next.push({ name: "", value: "" });
    setRows(next);
  };
  const toggle = () => {
    if (!isJson) setText(jsonOf(rows));
    else if (rowsOf(text) === null) return setProblem("This JSON has more to it than attributes: it stays as it is.");
    else setRows([...rowsOf(text), { name: "", value: "" }]);
    setProblem("");
    setJson(!isJson);
  };
  const submit = (submitted) => {
    submitted.preventDefault();
    const form = new FormData(submitted.target);
    try {
      const said = isJson ? text : jsonOf(rows);
      JSON.parse(said);
      setProblem("");
      ask({ written: said, event: "", client: form.get("receiver").trim(), publisher: form.get("publisher").trim() });
    } catch (error) {
      setProblem(`This is not valid JSON: ${error.message}`);
    }
  };
  return html`
    <details open=${written !== ""}>
      <summary>Write an event: would a client get it?</summary>
      <form onSubmit=${submit}>
        ${isJson
          ? html`<label class="wide">Event, as JSON <textarea class="code" rows="4" spellcheck=${false} value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>
            <p class="dim">Attributes, or <code>{"attributes": …, "to": …, "expires_in": …, "context": …}</code>.</p>`
          : rows.map((row, at) => html`
            <div class="question row" key=${at}>
              <label>Attribute <input value=${row.name} spellcheck=${false} onInput=${(event) => change(at, { name: event.target.value })} /></label>
              <label>Value <input class="code" value=${row.value} spellcheck=${false} onInput=${(event) => change(at, { value: event.target.value })} /></label>
            </div>`)}
        <div class="question">
          <label>Receiver <input key=${client} name="receiver" list="clients" defaultValue=${client} required autocomplete="off" placeholder="name of a client" /></label>
          <label>Publisher <input key=${publisher} name="publisher" list="clients" defaultValue=${publisher} autocomplete="off" placeholder="anonymous" /></label>
          <button>Explain it</button>
          <button type="button" class="quiet" onClick=${toggle}>${isJson ? "Write it in rows" : "Write it as JSON"}</button>
        </div>
        <p role="status" class="fails">${problem}</p>
      </form>
    </details>`;
}

/** What is typed as a value: JSON where it is that, else a text. */
export function valueOf(typed) {
  try {
    return JSON.parse(typed);
  } catch {
    return typed;
  }
}

function jsonOf(rows) {
  return JSON.stringify(Object.fromEntries(rows.filter(({ name }) => name.trim()).map(({ name, value }) => [name.trim(), valueOf(value)])));
}

/** The rows of an event that is nothing but attributes; null: it is something else. */
function rowsOf(text) {
  try {
    const said = JSON.parse(text);
    if (said === null || Array.isArray(said) || typeof said !== "object" || typeof said.attributes === "object") return null;
    const rows = Object.entries(said).map(([name, value]) => ({ name, value: typeof value === "string" && valueOf(value) === value ? value : JSON.stringify(value) }));
    return rows.length ? rows : null;
  } catch {
    return null;
  }
}
