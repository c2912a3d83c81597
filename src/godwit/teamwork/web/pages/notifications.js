/** Notifications: what the user was told of, because of which subscription, and how to end that. */

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { Link } from "/dashboard/address.js";
import { call, useTold } from "../api.js";
import { askPermission, permission } from "../browser_notifications.js";
import { Act, counted, Empty, moment, Problem } from "../team_parts.js";

const PAGES = { artefact: "documents", message: "messages", meeting: "meetings", user: "people", scope: "communities" };

export function Notifications({ session }) {
  if (!session.may_write) return html`<h1>Notifications</h1><${Empty} title="No notifications here">This peer notifies its own user alone.<//>`;
  return html`<${Inbox} />`;
}

function Inbox() {
  const { answer, error, again } = useTold("/api/notifications", { limit: 200 }, null);
  const mark = (ids) => call("POST", "/api/notifications/read", { ids }).then(again);
  const unread = (answer?.items ?? []).filter(({ read }) => !read).map(({ id }) => id);
  return html`
    <div class="head"><h1>Notifications</h1><div class="actions">
      <${Browser} />
      ${unread.length > 0 && html`<${Act} act=${() => mark(unread)}>Mark all as read<//>`}</div></div>
    <${Problem} error=${error} />
    ${answer && html`<p class="lead">${answer.unread > 0 ? `${counted(answer.unread, "notification")} not read.` : "All read."}</p>`}
    ${answer && (answer.items.length > 0
      ? html`<ul class="list">${answer.items.map((each) => html`<${Row} key=${each.id} told=${each} onRead=${() => mark([each.id])} onEnd=${again} />`)}</ul>`
      : html`<${Empty} title="Nothing has happened yet"><${Link} page="subscriptions">Subscribe<//> to what you want to hear of.<//>`)}`;
}

/** Whether the browser shows notifications while a page is open. */
function Browser() {
  const [state, setState] = useState(permission());
  if (state === "granted") return html`<span class="dim">shown by this browser</span>`;
  if (state === "denied") return html`<span class="dim">this browser was told not to show them</span>`;
  if (state === "none") return null;
  return html`<button type="button" class="quiet" onClick=${async () => setState(await askPermission())}>Show them in this browser</button>`;
}

function Row({ told, onRead, onEnd }) {
  const [kind, id] = told.record.split("/");
  const page = PAGES[kind];
  const where = { documents: { scope: told.scope, id }, messages: { scope: told.scope }, meetings: { scope: told.scope, id }, people: { user: id }, communities: { id: told.scope } }[page];
  const title = html`<strong>${told.title}</strong>`;
  return html`
    <li class=${told.read ? "" : "fresh"}><div class="item">
      <span class="grow">${page ? html`<${Link} page=${page} parameters=${where}>${title}<//>` : title}
        <small><time>${moment(told.time)}</time> · because of your subscription “${told.subscription_name}”</small></span>
      ${!told.read && html`<${Act} act=${onRead}>Read<span class="unseen">: ${told.title}</span><//>`}
      <${Act} act=${() => call("DELETE", `/api/subscriptions/${encodeURIComponent(told.subscription)}`).then(onEnd)} sure=${`End “${told.subscription_name}”?`}>End the subscription<span class="unseen"> ${told.subscription_name}</span><//>
    </div></li>`;
}
