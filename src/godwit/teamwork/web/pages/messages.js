/** Messages: conversations with people, and those of communities. */

import { html } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { go, Link } from "/dashboard/address.js";
import { call, ofScope, useTold } from "../api.js";
import { Empty, Face, Form, moment, Person, Problem } from "../team_parts.js";

const KINDS = ["message", "receipt", "member", "scope"];
const ROWS = 200;

export function Messages({ parameters, session }) {
  const { answer: talks, error } = useTold("/api/conversations", {}, KINDS);
  const people = useTold("/api/people", { limit: 500 }, ["user", "member"]).answer?.items ?? [];
  const scope = parameters.scope ?? "";
  const chosen = talks?.find((each) => each.scope === scope);
  return html`
    <h1>Messages</h1>
    <${Problem} error=${error} />
    <div class="columns">
      <div>
        ${talks?.length === 0 && html`<${Empty} title="No conversations yet">Begin one with somebody of the team.<//>`}
        ${talks?.length > 0 && html`<ul class="list">${talks.map((each) => html`<${Talk} key=${each.scope} talk=${each} isChosen=${each.scope === scope} />`)}</ul>`}
        ${session.may_write && html`<${Begin} people=${people.filter(({ name, state }) => name !== session.user && state === "joined")} />`}
      </div>
      ${scope ? html`<${Thread} key=${scope} scope=${scope} title=${chosen?.title ?? ""} session=${session} people=${people} />` : talks?.length > 0 && html`<${Empty} title="Choose a conversation" />`}
    </div>`;
}

function Talk({ talk, isChosen }) {
  const { last } = talk;
  return html`
    <li><${Link} class="item" page="messages" parameters=${{ scope: talk.scope }} aria-current=${isChosen ? "true" : undefined}>
      <${Face} name=${talk.title} />
      <span class="grow"><strong>${talk.title}</strong><small class="more">${last ? `${last.author}: ${last.text.slice(0, 60)}` : "no messages yet"}</small></span>
      ${talk.unread > 0 && html`<span class="badge">${talk.unread}<span class="unseen"> not read</span></span>`}
    <//></li>`;
}

function Begin({ people }) {
  const begin = async (data) => {
    const { scope } = await call("POST", "/api/conversations", { users: data.getAll("user") });
    go("messages", { scope });
  };
  if (people.length === 0) return null;
  return html`
    <details>
      <summary>New conversation</summary>
      <${Form} act=${begin} label="Begin">
        <fieldset><legend>With</legend>
          ${people.map(({ name, profile }) => html`<label class="check"><input type="checkbox" name="user" value=${name} /> ${profile.name || name}</label>`)}
        </fieldset>
      <//>
    </details>`;
}

function Thread({ scope, title, session, people }) {
  const { answer, error, again } = useTold(ofScope(scope, "messages"), { limit: ROWS }, KINDS);
  const documents = useTold(ofScope(scope, "documents"), { limit: 500 }, ["artefact"]).answer?.items ?? [];
  const [replyTo, setReplyTo] = useState(null);
  const end = useRef(null);
  const messages = answer?.items ?? [];
  useEffect(() => {
    if (end.current) end.current.scrollTop = end.current.scrollHeight;
    if (session.may_write) markRead(messages, session.user);
  }, [messages.length]);
  const send = async (data, form) => {
    const attachments = data.getAll("attachment").filter(Boolean);
    await call("POST", ofScope(scope, "messages"), { text: data.get("text"), reply_to: replyTo?.id ?? "", attachments });
    form.reset();
    setReplyTo(null);
    again();
  };
  return html`
    <section aria-label=${title || "Conversation"}>
      <h2>${title}</h2>
      <${Problem} error=${error} />
      ${answer?.total > messages.length && html`<p class="dim">The last ${messages.length} of ${answer.total} messages.</p>`}
      ${answer && messages.length === 0 && html`<${Empty} title="No messages yet" />`}
      ${messages.length > 0 && html`<ol class="thread" tabindex="0" aria-label="Messages" ref=${end}>
        ${messages.map((each) => html`<${Bubble} key=${each.id} message=${each} all=${messages} documents=${documents} session=${session} people=${people} onReply=${() => setReplyTo(each)} />`)}
      </ol>`}
      ${session.may_write ? html`
        <${Form} act=${send} label="Send">
          ${replyTo && html`<p class="dim">In reply to ${replyTo.author}: “${replyTo.text.slice(0, 80)}” <button type="button" class="link" onClick=${() => setReplyTo(null)}>no reply</button></p>`}
          <label>Message <textarea name="text" rows="3" required maxlength="100000"></textarea></label>
          ${documents.length > 0 && html`<label>Attach a document <select name="attachment"><option value="">none</option>${documents.map(({ id, name }) => html`<option value=${id}>${name}</option>`)}</select></label>`}
        <//>` : html`<p class="dim">This peer cannot sign for you: you can read here, and write at a peer of your own.</p>`}
    </section>`;
}

function Bubble({ message, all, documents, session, people, onReply }) {
  const isOwn = message.author === session.user;
  const before = all.find(({ id }) => id === message.reply_to);
  const read = message.receipts.filter((each) => each.read && each.user !== message.author).map(({ user }) => user);
  const delivered = message.receipts.filter((each) => !each.read && each.user !== message.author).map(({ user }) => user);
  const attached = message.attachments.map((id) => documents.find((each) => each.id === id) ?? { id, name: id });
  const told = [read.length > 0 && `read by ${read.join(", ")}`, isOwn && delivered.length > 0 && `delivered to ${delivered.join(", ")}`].filter(Boolean).join(", ");
  return html`
    <li class=${isOwn ? "bubble own" : "bubble"}>
      <small>${isOwn ? "You" : html`<${Person} name=${message.author} people=${people} />`}, <time>${moment(message.time)}</time></small>
      ${before && html`<blockquote>${before.author}: ${before.text}</blockquote>`}
      <p>${message.text}</p>
      ${attached.map(({ id, name }) => html`<p><${Link} page="documents" parameters=${{ scope: message.scope, id }}>${name}<//></p>`)}
      <small>${told && html`<span class="receipts">${told} </span>`}${session.may_write && html`<button type="button" class="link" onClick=${onReply}>Reply<span class="unseen"> to ${message.author}</span></button>`}</small>
    </li>`;
}

/** Tell the authors that their messages were read. */
function markRead(messages, user) {
  for (const { id, scope, author, receipts } of messages) {
    const isRead = receipts.some((each) => each.user === user && each.read);
    if (author !== user && !isRead) call("POST", ofScope(scope, "messages", id, "read")).catch(() => {});
  }
}
