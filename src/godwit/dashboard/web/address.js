/**
 * Which page is shown, and what it shows: all of it is in the address, so that it can be sent to somebody else.
 *
 * An address is /dashboard/PAGE?name=value, or /team/PAGE?name=value for the pages of a team. Links among them change it
 * without loading anything.
 */

import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";

const ROOT = `/${location.pathname.split("/")[1]}/`;
const CHANGED = "address-changed";

/** The page and the parameters of the present address. */
function present() {
  const page = location.pathname.slice(ROOT.length).split("/")[0];
  return { page, parameters: Object.fromEntries(new URLSearchParams(location.search)) };
}

/** The address of a page. Parameters that are empty are left out. */
export function addressOf(page, parameters = {}) {
  const said = Object.entries(parameters).filter(([, value]) => value !== "" && value != null);
  const query = new URLSearchParams(said).toString();
  return ROOT + page + (query ? `?${query}` : "");
}

/** Show a page. `replace`: without a step that "back" would return to. */
export function go(page, parameters = {}, { replace = false } = {}) {
  const address = addressOf(page, parameters);
  history[replace ? "replaceState" : "pushState"](null, "", address);
  dispatchEvent(new Event(CHANGED));
}

/** The present address, and again when it changes. */
export function useAddress() {
  const [address, setAddress] = useState(present);
  useEffect(() => {
    const changed = () => setAddress(present());
    addEventListener(CHANGED, changed);
    addEventListener("popstate", changed);
    return () => {
      removeEventListener(CHANGED, changed);
      removeEventListener("popstate", changed);
    };
  }, []);
  return address;
}

/** A link to a page. */
export function Link({ page, parameters, children, ...more }) {
  const address = addressOf(page, parameters);
  const follow = (click) => {
    if (click.ctrlKey || click.metaKey || click.shiftKey || click.button !== 0) return;
    click.preventDefault();
    go(page, parameters);
  };
  return html`<a href=${address} onClick=${follow} ...${more}>${children}</a>`;
}
