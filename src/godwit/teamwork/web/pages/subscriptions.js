/** Subscriptions: what the user wants to be notified of, by which channel, and when not. */

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { call, useTold } from "../api.js";
import { Act, counted, Empty, Form, moment, Problem, QueryFields } from "../team_parts.js";

const KINDS = { artefact: "documents", message: "messages", meeting: "meetings", reminder: "meetings that begin soon", user: "people", community: "communities", presence: "people who go online or offline", lost: "my changes that were replaced" };
const CHANNELS = { desktop: "this browser", message: "a message in your notes", mail: "mail", webhook: "webhook" };
const TARGETS = { mail: ["Mail address", "email"], webhook: ["URL", "url"] };
const DIGESTS = { 0: "at once", 3600: "every hour", 86400: "once a day" };

export function Subscriptions({ session }) {
  if (!session.may_write) return html`<h1>Subscriptions</h1><${Empty} title="No subscriptions here">This peer notifies its own user alone.<//>`;
  return html`<${All} languages=${session.languages} />`;
}

function All({ languages }) {
  const { answer, error, again } = useTold("/api/subscriptions", {}, []);
  return html`
    <h1>Subscriptions</h1>
    <${Problem} error=${error} />
    ${answer && (answer.length > 0
      ? html`<ul class="list">${answer.map((each) => html`<${Row} key=${each.id} subscription=${each} onDone=${again} />`)}</ul>`
      : html`<${Empty} title="No subscriptions yet">Make a subscription below.<//>`)}
    <${New} onDone=${again} languages=${languages} />`;
}

function hours(minutes) {
  return `${String(Math.floor(minutes / 60)).padStart(2, "0")}:${String(minutes % 60).padStart(2, "0")}`;
}

function Row({ subscription, onDone }) {
  const { id, name, kinds, channels, query, language, expires, digest_s: digest, quiet } = subscription;
  const ways = channels.map(({ kind, target }) => `${CHANNELS[kind] ?? kind}${target ? ` (${target})` : ""}`).join(", ");
  const rest = [digest ? DIGESTS[digest] ?? `every ${counted(digest / 60, "minute")}` : "at once", quiet && `not from ${hours(quiet[0])} to ${hours(quiet[1])}`, expires && `until ${moment(expires)}`];
  return html`
    <li><div class="item"><span class="grow"><strong>${name}</strong>
      <small>${kinds.map((each) => KINDS[each] ?? (each === "listing" ? KINDS.community : each)).join(", ")} · by ${ways} · ${rest.filter(Boolean).join(" · ")}</small>
      ${query && html`<code>${language ?? "xql"}: ${query}</code>`}</span>
      <${Act} act=${() => call("DELETE", `/api/subscriptions/${encodeURIComponent(id)}`).then(onDone)} sure=${`End “${name}”?`}>End<span class="unseen"> ${name}</span><//></div></li>`;
}

function New({ onDone, languages }) {
  const [channel, setChannel] = useState("desktop");
  const [isQuiet, setQuiet] = useState(false);
  const [secret, setSecret] = useState("");
  const minutes = (text) => text.split(":").reduce((sum, each) => sum * 60 + Number(each), 0);
  const create = async (data, form) => {
    const wanted = {
      name: data.get("name").trim(),
      kinds: data.getAll("kind"),
      channels: [{ kind: channel, target: data.get("target") ?? "" }],
      query: data.get("query").trim(),
      language: data.get("language"),
      digest_s: Number(data.get("digest")),
      quiet: isQuiet ? [minutes(data.get("from")), minutes(data.get("until"))] : null,
      utc_offset_s: -60 * new Date().getTimezoneOffset(),
      expires: data.get("expires") ? Date.parse(data.get("expires")) / 1000 : null,
    };
    const made = await call("POST", "/api/subscriptions", wanted);
    setSecret(made.webhook_secret ?? "");
    form.reset();
    setChannel("desktop");
    setQuiet(false);
    onDone();
  };
  const [label, type] = TARGETS[channel] ?? [];
  return html`
    <h2>New subscription</h2>
    <section class="card">
      <${Form} act=${create} label="Subscribe">
        <label>Name <input name="name" required maxlength="100" placeholder="for example: bridges" /></label>
        <fieldset><legend>Tell me of new and changed</legend>
          ${Object.entries(KINDS).map(([kind, text]) => html`<label class="check"><input type="checkbox" name="kind" value=${kind} checked=${kind === "artefact"} /> ${text}</label>`)}
        </fieldset>
        <${QueryFields} languages=${languages} label="Only if the profile matches this query (empty: all)" />
        <div class="pairs">
          <label>By <select value=${channel} onChange=${(event) => setChannel(event.target.value)}>${Object.entries(CHANNELS).map(([each, text]) => html`<option value=${each} selected=${each === channel}>${text}</option>`)}</select></label>
          ${label && html`<label>${label} <input name="target" type=${type} required /></label>`}
          <label>When <select name="digest">${Object.entries(DIGESTS).map(([seconds, text]) => html`<option value=${seconds}>${text}</option>`)}</select></label>
          <label>Until <input name="expires" type="date" /></label>
        </div>
        <label class="check"><input type="checkbox" checked=${isQuiet} onChange=${(event) => setQuiet(event.target.checked)} /> quiet hours</label>
        ${isQuiet && html`<div class="pairs"><label>From <input name="from" type="time" value="22:00" required /></label><label>Until <input name="until" type="time" value="07:00" required /></label></div>`}
      <//>
      <div role="status">${secret && html`<p>Secret that signs webhooks of this peer (hexadecimal): <code>${secret}</code></p>`}</div>
    </section>`;
}
