/** The frame of the pages of a team: who is logged in, the list of pages, and the page that the address names. */

import { html, render } from "htm/preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Link, useAddress } from "/dashboard/address.js";
import { useAnswer } from "/dashboard/asking.js";
import { call, followNews, useDue, useTold } from "./api.js";
import { tellBrowser } from "./browser_notifications.js";
import { Communities } from "./pages/communities.js";
import { Documents } from "./pages/documents.js";
import { Login } from "./pages/login.js";
import { Meetings } from "./pages/meetings.js";
import { Messages } from "./pages/messages.js";
import { Notifications } from "./pages/notifications.js";
import { People } from "./pages/people.js";
import { Search } from "./pages/search.js";
import { Status } from "./pages/status.js";
import { Subscriptions } from "./pages/subscriptions.js";

const PAGES = [
  ["people", "People", People],
  ["communities", "Communities", Communities],
  ["documents", "Documents", Documents],
  ["search", "Search", Search],
  ["messages", "Messages", Messages],
  ["meetings", "Meetings", Meetings],
  ["notifications", "Notifications", Notifications],
  ["subscriptions", "Subscriptions", Subscriptions],
  ["status", "Status", Status],
];

function Team() {
  const { page, parameters } = useAddress();
  const { answer: session, error, again } = useAnswer("/api/session");
  if (error) return html`<${Frame}><h1>The peer does not answer</h1><p class="problem" role="alert">${error.message}. Is <code>godwit team serve</code> running?</p><//>`;
  if (!session) return null;
  if (!session.user) return html`<${Frame}><${Login} onDone=${again} /><//>`;
  return html`<${Pages} page=${page} parameters=${parameters} session=${session} onSession=${again} />`;
}

function Pages({ page, parameters, session, onSession }) {
  const [isDown, setDown] = useState(false);
  const [name, title, Page] = PAGES.find(([each]) => each === page) ?? PAGES[0];
  const endNews = useRef(() => {});
  useEffect(() => {
    endNews.current = followNews((isTrouble) => {
      setDown(isTrouble);
      if (isTrouble) onSession(); // which may have ended
    });
    return () => endNews.current();
  }, []);
  useEffect(() => {
    document.title = `${title} · Godwit team`;
  }, [title]);
  const told = useTold(session.may_write ? "/api/notifications" : null, { only_unread: true, limit: 1 }, null).answer;
  const talks = useTold("/api/conversations", {}, ["message", "receipt", "member"]).answer;
  useDue(tellBrowser);
  const waiting = { notifications: told?.unread ?? 0, messages: (talks ?? []).reduce((sum, each) => sum + each.unread, 0) };
  const links = PAGES.map(([each, label]) => html`
    <${Link} page=${each} aria-current=${each === name ? "page" : undefined}>${label}${waiting[each] > 0 && html` <span class="badge">${waiting[each]}<span class="unseen"> new</span></span>`}<//>`);
  return html`
    <${Frame} title=${title} news=${waiting.notifications + waiting.messages} links=${links} aside=${html`<${Account} session=${session} isDown=${isDown} onLeave=${() => endNews.current()} />`}>
      <${Page} key=${name} parameters=${parameters} session=${session} onSession=${onSession} />
    <//>`;
}

/** What is around every page. */
function Frame({ title, news, links, aside, children }) {
  const [isOpen, setOpen] = useState(false); // the list of pages, on a phone
  useEffect(() => setOpen(false), [title]);
  return html`
    <a class="skip" href="#content">Skip to the content</a>
    <header>
      <strong class="brand"><img src="/dashboard/godwit.svg" alt="" width="28" height="28" /> Godwit team</strong>
      ${aside}
      ${links && html`
        <button type="button" class="menu" aria-expanded=${isOpen} aria-controls="pages" onClick=${() => setOpen(!isOpen)}>${title} <span aria-hidden="true">${isOpen ? "▴" : "▾"}</span>${news > 0 && html` <span class="badge">${news}<span class="unseen"> new</span></span>`}</button>
        <nav id="pages" class=${isOpen ? "" : "closed"} aria-label="Pages">${links}</nav>`}
    </header>
    <main id="content" tabindex="-1">${children}</main>`;
}

function Account({ session, isDown, onLeave }) {
  const leave = async () => {
    onLeave();
    await call("POST", "/api/logout");
    location.assign("/team/people"); // so that nothing of the user stays in the page
  };
  return html`
    <div class="account">
      <span class=${isDown ? "broker down" : "broker"} role="status">${isDown ? "peer unreachable" : session.user}</span>
      <button type="button" class="quiet small" onClick=${leave}>Log out</button>
    </div>`;
}

render(html`<${Team} />`, document.getElementById("page"));
