/** Users: who may do what, as the user file of this broker says; and whether somebody could do a certain thing. */

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { ask, useAnswer } from "../asking.js";
import { inLine, Problem, Table } from "../parts.js";

export function Users() {
  const { answer, error } = useAnswer("/users");
  const rows = (answer ?? []).map((user) => [
    html`<strong>${user.user}</strong>${user.admin ? html` <span class="tag">admin</span>` : ""}`,
    html`<${Grants} filters=${user.subscribe} />`,
    html`<${Grants} filters=${user.publish} />`,
    inLine(user.context),
    [user.password && "password", user.certificate && "certificate"].filter(Boolean).join(", "),
  ]);
  const head = ["user", "may subscribe to", "may publish", "context that the broker asserts", "comes in by"];
  return html`
    <h1>Users</h1>
    <${Problem} error=${error} />
    ${answer && rows.length > 0 && html`<${Test} names=${answer.map(({ user }) => user)} />`}
    ${answer && html`<${Table} label="Users" head=${head} rows=${rows} empty="This broker has no user file: connections from this machine have every right." />`}`;
}

function Grants({ filters }) {
  if (filters.length === 0) return html`<span class="dim">nothing</span>`;
  return filters.map((filter) => html`<div><code>${filter === "*" ? "everything" : filter}</code></div>`);
}

/** Could somebody do that? */
function Test({ names }) {
  const [verb, setVerb] = useState("subscribe");
  const [found, setFound] = useState(null);
  const submit = async (submitted) => {
    submitted.preventDefault();
    const form = new FormData(submitted.target);
    try {
      setFound({ answer: await ask("/may", { user: form.get("user"), verb, what: form.get("what") }), error: null });
    } catch (error) {
      setFound({ answer: null, error });
    }
  };
  const example = verb === "subscribe" ? "a filter, as in kind = 'alarm'" : 'attributes, as in {"kind": "alarm"}';
  return html`
    <form class="question" onSubmit=${submit}>
      <label>Could <select name="user">${names.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
      <label>do this <select name="verb" value=${verb} onChange=${(event) => setVerb(event.target.value)}>
        <option value="subscribe">subscribe to</option><option value="publish">publish</option>
      </select></label>
      <label class="wide">What <input class="code" name="what" required spellcheck=${false} placeholder=${example} /></label>
      <button>Test</button>
    </form>
    <div role="status">
      ${found?.error && html`<p class="problem">${found.error.message}</p>`}
      ${found?.answer && html`<p class=${found.answer.allowed ? "verdict yes" : "verdict no"}>
        <strong>${found.answer.allowed ? "Yes." : "No."}</strong> ${found.answer.reason}
        ${found.answer.narrowed && html`It would be narrowed to <code>${found.answer.narrowed}</code>`}
      </p>`}
    </div>`;
}
