/** The frame of the dashboard: the list of pages, and the page that the address names. */

import { html, render } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { Link, useAddress } from "./address.js";
import { useAnswer } from "./asking.js";
import { Here } from "./pages/here.js";
import { Live } from "./pages/live.js";
import { Map } from "./pages/map.js";
import { Metrics } from "./pages/metrics.js";
import { Network } from "./pages/network.js";
import { Plan } from "./pages/plan.js";
import { Sessions } from "./pages/sessions.js";
import { Simulate } from "./pages/simulate.js";
import { Users } from "./pages/users.js";
import { Why } from "./pages/why.js";
import { Workbench } from "./pages/workbench.js";

const PAGES = [
  ["why", "Why?", Why],
  ["network", "Network", Network],
  ["map", "Map", Map],
  ["live", "Live", Live],
  ["workbench", "Workbench", Workbench],
  ["here", "What is here", Here],
  ["sessions", "Sessions", Sessions],
  ["metrics", "Metrics", Metrics],
  ["users", "Users", Users],
  ["simulate", "Simulate", Simulate],
  ["plan", "Plan", Plan],
];
const FIRST = "why";
const HEALTH_MS = 3_000;

/** What is shown at an address that no page has. */
function Missing() {
  return html`
    <h1>There is no such page</h1>
    <p>The address may be misspelt, or of another version of Godwit. These are the pages:</p>
    <ul>${PAGES.map(([each, label]) => html`<li><${Link} page=${each}>${label}<//></li>`)}</ul>`;
}

function Dashboard() {
  const { page, parameters } = useAddress();
  const { answer, error } = useAnswer("/healthz", {}, HEALTH_MS);
  const [name, title, Page] = PAGES.find(([each]) => each === (page || FIRST)) ?? ["", "No such page", Missing];
  const [isOpen, setOpen] = useState(false); // the list of pages, on a phone
  useEffect(() => {
    document.title = `${title} · Godwit`;
    setOpen(false);
  }, [title]);
  return html`
    <a class="skip" href="#content">Skip to the content</a>
    <header>
      <strong class="brand"><img src="/dashboard/godwit.svg" alt="" width="28" height="28" /> Godwit</strong>
      <button class="menu" aria-expanded=${isOpen} aria-controls="pages" onClick=${() => setOpen(!isOpen)}>${title} <span aria-hidden="true">${isOpen ? "▴" : "▾"}</span></button>
      <nav id="pages" class=${isOpen ? "" : "closed"} aria-label="Pages">
        ${PAGES.map(([each, label]) => html`
          <${Link} page=${each} aria-current=${each === name ? "page" : undefined}>${label}<//>`)}
      </nav>
      <span class=${error ? "broker down" : "broker"} role="status">
        ${error ? "broker unreachable" : answer ? html`${answer.broker} <span class="version">· ${answer.version}</span>` : "…"}
      </span>
    </header>
    <main id="content" tabindex="-1"><${Page} key=${name} parameters=${parameters} /></main>`;
}

render(html`<${Dashboard} />`, document.getElementById("page"));
