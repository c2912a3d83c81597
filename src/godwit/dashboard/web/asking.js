/** Asking the broker, or the peer of a team, that served the page. What it answers is data; every value is shown as text. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export const RETRY_MS = 2_000; // after a server could not be reached

/** A request that was answered by no, or not at all. `status` 0: the server could not be reached. */
export class AskError extends Error {
  constructor(reason, status = 0) {
    super(reason);
    this.status = status;
  }
}

/** The answer to a question, as data. */
export async function ask(path, parameters = {}) {
  const said = Object.entries(parameters).filter(([, value]) => value !== "" && value != null);
  const query = new URLSearchParams(said).toString();
  return answered(query ? `${path}?${query}` : path, { headers: { accept: "application/json" } });
}

/** Ask for something to be done: the answer. `body` is a Blob, or nothing. */
export async function order(path, body) {
  return answered(path, { method: "POST", body });
}

/** The answer to a request, as data. */
export async function answered(address, options) {
  let response;
  try {
    response = await fetch(new URL(address, location.origin), options); // which has no password, even if the page's address has
  } catch {
    throw new AskError("The server cannot be reached");
  }
  const said = await response.json().catch(() => ({}));
  if (!response.ok) throw new AskError(said.error ?? `${response.status} ${response.statusText}`, response.status);
  return said;
}

/** The same, where the last answer stays until that to a changed question comes. */
export function useLasting(path, parameters = {}, everyMs = 0) {
  const found = useAnswer(path, parameters, everyMs);
  const kept = useRef(null);
  if (found.answer) kept.current = found.answer;
  return { ...found, answer: found.answer ?? kept.current };
}

/**
 * The answer to a question, asked again whenever it changes, and every `everyMs` while somebody looks at the page.
 *
 * While the server cannot be reached the last answer stays, with the error beside it, and the question is asked again
 * until it is answered. `path` null: nothing is asked.
 */
export function useAnswer(path, parameters = {}, everyMs = 0) {
  const [state, setState] = useState({ answer: null, error: null, isAsking: path !== null });
  const key = path === null ? null : JSON.stringify([path, parameters]);
  const latest = useRef(key);
  latest.current = key;
  const again = useCallback(async () => {
    if (key === null) return;
    setState((before) => ({ ...before, isAsking: true }));
    try {
      const answer = await ask(path, parameters);
      if (latest.current === key) setState({ answer, error: null, isAsking: false });
    } catch (error) {
      if (latest.current === key) setState((before) => ({ ...before, error, isAsking: false }));
    }
  }, [key]);
  useEffect(() => {
    setState({ answer: null, error: null, isAsking: key !== null });
    again();
  }, [key]);
  const eachMs = everyMs || (state.error?.status === 0 ? RETRY_MS : 0);
  useEffect(() => {
    if (!eachMs || key === null) return undefined;
    const timer = setInterval(() => document.hidden || again(), eachMs);
    return () => clearInterval(timer);
  }, [key, eachMs]);
  return { ...state, again };
}
