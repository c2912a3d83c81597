/** Calls to the HTTP API of the peer that served the page, and news of what happens in the team. */

import { useEffect, useRef } from "preact/hooks";
import { answered, AskError, useAnswer } from "/dashboard/asking.js";

const NEWS = "team-news";
const DUE = "team-notification";
const TOGETHER_MS = 150; // changes that come together are asked for once
const OWN = { "x-godwit": "1" }; // pages of other sites cannot set this header

/** Call an operation that changes something: the answer. `body`: data, or nothing. */
export function call(method, path, body) {
  if (body === undefined) return answered(path, { method, headers: OWN });
  return answered(path, { method, headers: { ...OWN, "content-type": "application/json" }, body: JSON.stringify(body) });
}

/** Send a file: the answer. `onProgress` is told the share that has been sent, from 0 to 1. */
export function upload(method, path, file, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, path);
    request.setRequestHeader("x-godwit", "1");
    request.setRequestHeader("content-type", "application/octet-stream");
    request.responseType = "json";
    request.upload.onprogress = ({ loaded, total }) => onProgress?.(total ? loaded / total : 0);
    request.onerror = () => reject(new AskError("the server cannot be reached"));
    request.onload = () => {
      if (request.status < 300) resolve(request.response);
      else reject(new AskError(request.response?.error ?? `${request.status}`, request.status));
    };
    request.send(file);
  });
}

/** The address of things of a scope, as `community/ann.9f3c21`. */
export function ofScope(scope, ...rest) {
  return ["/api/scopes", ...scope.split("/").map(encodeURIComponent), ...rest.map(encodeURIComponent)].join("/");
}

/** The address of a community. */
export function ofCommunity(id, ...rest) {
  return ["/api/communities", encodeURIComponent(id.replace(/^community\//, "")), ...rest.map(encodeURIComponent)].join("/");
}

/** Follow the news of the team, and hand them to all listeners; returns the function that ends it. */
export function followNews(onTrouble) {
  const source = new EventSource("/api/news");
  const tell = (name) => (event) => dispatchEvent(new CustomEvent(name, { detail: JSON.parse(event.data) }));
  source.addEventListener("change", tell(NEWS));
  source.addEventListener("notification", tell(DUE));
  source.addEventListener("missed", () => dispatchEvent(new CustomEvent(NEWS, { detail: { kind: "" } })));
  source.onopen = () => onTrouble(false);
  source.onerror = () => onTrouble(true);
  return () => source.close();
}

/** Call a function for each piece of news of these kinds; of all, without kinds. */
export function useNews(kinds, told) {
  const latest = useRef(told);
  latest.current = told;
  useEffect(() => {
    const heard = ({ detail }) => {
      if (!kinds || !detail.kind || kinds.includes(detail.kind)) latest.current(detail);
    };
    addEventListener(NEWS, heard);
    return () => removeEventListener(NEWS, heard);
  }, [kinds?.join()]);
}

/** Call a function for notifications that the browser is to show. */
export function useDue(show) {
  useEffect(() => {
    const heard = ({ detail }) => show(detail);
    addEventListener(DUE, heard);
    return () => removeEventListener(DUE, heard);
  }, []);
}

/** The answer to a question, asked again when news of these kinds come. */
export function useTold(path, parameters, kinds) {
  const told = useAnswer(path, parameters);
  const timer = useRef(0);
  useNews(kinds, () => {
    clearTimeout(timer.current);
    timer.current = setTimeout(told.again, TOGETHER_MS);
  });
  useEffect(() => () => clearTimeout(timer.current), []);
  return told;
}
