/** Status: this peer, the user's password and tokens; for its administrator, login links and the audit log. */

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { useAnswer } from "/dashboard/asking.js";
import { Table } from "/dashboard/parts.js";
import { call, useTold } from "../api.js";
import { Act, bytes, counted, Form, moment, Problem } from "../team_parts.js";

const REFRESH_MS = 5_000;
const DAY_S = 86_400;

export function Status({ session, onSession }) {
  const { answer: status, error } = useAnswer("/api/status", {}, REFRESH_MS);
  return html`
    <h1>Status</h1>
    <${Problem} error=${error} />
    ${status && html`<${Peer} status=${status} />`}
    <div class="columns wide">
      <${Tokens} />
      <div><${Password} session=${session} onDone=${onSession} />${session.is_operator && html`<${LoginLink} session=${session} />`}</div>
    </div>
    ${session.is_operator && html`<${Audit} />`}`;
}

function Peer({ status }) {
  const isHere = status.connection === "attached";
  const peers = Object.entries(status.peers);
  return html`
    <p class=${isHere ? "verdict yes" : "verdict no"} role="status"><strong>${isHere ? "Connected." : "Not connected."}</strong> ${isHere ? `At the broker ${status.broker}.` : "Everything works on this disk, and is sent when a broker is reachable."}</p>
    <article class="card"><dl>
      <dt>User</dt><dd>${status.user}, ${status.role} of the team</dd>
      <dt>Device</dt><dd class="code">${status.device}</dd>
      <dt>Team</dt><dd class="code">${status.team}</dd>
      <dt>Waits to go out</dt><dd>${status.waiting === 0 ? "nothing" : counted(status.waiting, "event")}</dd>
      <dt>Documents on this disk</dt><dd>${bytes(status.bytes_used)}${status.bytes_max ? ` of ${bytes(status.bytes_max)}` : ""}</dd>
      <dt>Communities and conversations</dt><dd>${Math.max(0, status.scopes.length - 1)}</dd>
      <dt>Peers that are here</dt><dd>${peers.length === 0 ? "none" : peers.map(([device, user]) => html`<div>${user} <span class="dim code">${device}</span></div>`)}</dd>
      ${status.lost.length > 0 && html`<dt>Your changes that were replaced</dt><dd class="warning">${status.lost.map((each) => html`<div>${each}</div>`)}</dd>`}
      ${status.faults.length > 0 && html`<dt>Faults</dt><dd class="problem">${status.faults.map((each) => html`<div>${each}</div>`)}</dd>`}
    </dl></article>`;
}

function Tokens() {
  const { answer, error, again } = useAnswer("/api/tokens");
  const [made, setMade] = useState(null);
  const create = async (data, form) => {
    setMade(await call("POST", "/api/tokens", { label: data.get("label"), expires_s: Number(data.get("days")) * DAY_S }));
    form.reset();
    again();
  };
  const rows = (answer ?? []).map((each) => [each.label, moment(each.created), moment(each.expires), html`<${Act} act=${() => call("DELETE", `/api/tokens/${each.id}`).then(again)} sure=${`End “${each.label}”?`}>End<span class="unseen"> ${each.label}</span><//>`]);
  return html`
    <section class="card"><h2>Tokens for programs</h2>
      <p class="dim">Anyone who has a token can do here what you can.</p>
      <${Problem} error=${error} />
      <${Table} label="Tokens" head=${["label", "made", "ends", "end it"]} rows=${rows} empty="You have no tokens." />
      ${made && html`<div role="status"><p>This is shown once:</p><p><code>${made.secret}</code></p><pre class="excerpt"><code>curl -H "Authorization: Bearer ${made.secret}" ${location.origin}/api/status</code></pre></div>`}
      <${Form} act=${create} label="Make a token">
        <div class="pairs"><label>Label <input name="label" required maxlength="100" placeholder="for example: backup script" /></label>
          <label>Days <input name="days" type="number" min="1" max="366" value="90" required /></label></div>
      <//>
    </section>`;
}

function Password({ session, onDone }) {
  const [isDone, setDone] = useState(false);
  const save = async (data, form) => {
    setDone(false);
    await call("PUT", "/api/password", { new: data.get("new"), old: data.get("old") ?? "" });
    form.reset();
    setDone(true);
    onDone();
  };
  return html`
    <section class="card"><h2>Password</h2>
      <${Form} act=${save} label=${session.has_password ? "Change the password" : "Set a password"}>
        <input class="unseen" name="username" autocomplete="username" value=${session.user} tabindex="-1" aria-hidden="true" readonly />
        ${session.has_password && html`<label>Present password <input name="old" type="password" required autocomplete="current-password" /></label>`}
        <label>New password <input name="new" type="password" required minlength="8" autocomplete="new-password" /></label>
      <//>
      <div role="status">${isDone && html`<p>Saved. Other sessions have ended.</p>`}</div>
    </section>`;
}

function LoginLink({ session }) {
  const people = useTold("/api/people", { limit: 500 }, ["user", "member"]).answer?.items ?? [];
  const [link, setLink] = useState(null);
  const make = async (data) => {
    const user = data.get("user");
    if (data.has("write") && user !== session.user) await call("POST", `/api/people/${encodeURIComponent(user)}/host`);
    setLink({ user, ...(await call("POST", "/api/login_links", { user })) });
  };
  return html`
    <section class="card"><h2>Login link</h2>
      <p class="dim">Logs a user of the team in by a browser, once, within a day. Anyone who has the link can log in as that user.</p>
      <${Form} act=${make} label="Make a link">
        <label>For <select name="user">${people.filter(({ state }) => state === "joined").map(({ name }) => html`<option value=${name}>${name}${name === session.user ? " (you, on another device)" : ""}</option>`)}</select></label>
        <label class="check"><input type="checkbox" name="write" /> also to write: makes a device for the user on this peer</label>
      <//>
      <div role="status">${link && html`<p>For ${link.user}: <code>${location.origin}${link.path}</code></p>`}</div>
    </section>`;
}

function Audit() {
  const { answer, error } = useAnswer("/api/audit", { newest: true, limit: 200 });
  const rows = (answer ?? []).map((each) => [moment(each.time), each.user, each.way, each.record, each.scope, each.detail]);
  return html`
    <details><summary>Who was shown what</summary>
      <${Problem} error=${error} />
      <${Table} label="Audit log" head=${["when", "to", "how", "what", "where", "details"]} rows=${rows} empty="Nothing was shown to others." />
    </details>`;
}
