/**
 * What moves on the map, asked for again and again: up to ten times a second, and less often when it costs brokers more.
 *
 * Brokers tell what happened in the last seconds, so that nothing is missed between two answers; what was seen before is
 * left out here.
 */

import { ask } from "./asking.js";

const FASTEST_MS = 100;
const SHARE = 0.02; // of a broker's time, at most: an answer that took it 9 ms is asked for again after 500 ms
const REQUEST_MS = 1; // that a request takes a broker besides its answer
const TROUBLED_MS = 1_000; // after an error
const PATIENCE_MS = 300; // while some broker does not answer, so that all others are still seen to move
const REMEMBERED_MS = 120_000;

/**
 * Ask until `stop` is called. `onAnswer` gets clients, hand-overs and events that are new, who has not answered, and
 * how long it will take to the next answer.
 */
export function startFeed({ onAnswer, onError }) {
  const seen = new Map(); // what was told already, and when
  let isOver = false;
  let timer = 0;
  let waitMs = FASTEST_MS;
  let isMissing = false;

  async function next() {
    if (document.hidden) return;
    const began = performance.now();
    const seconds = Math.min(60, 1 + Math.ceil((2 * waitMs) / 1_000));
    try {
      const found = await ask("/everywhere/map", { seconds, wait_ms: isMissing ? PATIENCE_MS : "" });
      if (isOver) return;
      const tookMs = performance.now() - began;
      const told = readAnswer(found, seen, began);
      isMissing = told.unanswered.length > 0;
      const restMs = isMissing ? FASTEST_MS : tookMs; // an answer that took long was waited for, and asked much of somebody
      waitMs = Math.max(FASTEST_MS - tookMs, restMs, (told.spentMs + REQUEST_MS) / SHARE - tookMs);
      onAnswer({ ...told, takesMs: waitMs + tookMs });
    } catch (error) {
      if (isOver) return;
      waitMs = TROUBLED_MS;
      onError(error);
    }
    timer = setTimeout(next, waitMs);
  }

  const onVisible = () => {
    clearTimeout(timer);
    next();
  };
  document.addEventListener("visibilitychange", onVisible);
  next();
  return function stop() {
    isOver = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", onVisible);
  };
}

/** An answer of all brokers as lists; `seen` forgets what nobody tells any more. */
export function readAnswer(found, seen, now) {
  const clients = new Map();
  const [handOvers, events] = [[], []];
  let isCut = false;
  let spentMs = 0; // by the broker that had most to do
  const isNew = (key) => {
    const is = !seen.has(key);
    seen.set(key, now);
    return is;
  };
  for (const [broker, told] of Object.entries(found.answers)) {
    if (!told?.positions) continue;
    for (const [client, lon, lat, attached, at] of told.positions) {
      const other = clients.get(client);
      if (!other || isBetter({ attached, at }, other)) clients.set(client, { client, lon, lat, attached, at, broker });
    }
    for (const { at, client, to, events: waiting } of told.hand_overs) {
      if (isNew(`${broker} ${at} ${client}`)) handOvers.push({ at, client, from: broker, to, waiting });
    }
    for (const { at, event, lon, lat } of told.events.rows) if (isNew(`${broker} ${event}`)) events.push({ at, event, lon, lat, broker });
    isCut ||= told.events.is_cut;
    spentMs = Math.max(spentMs, told.took_ms);
  }
  for (const [key, at] of seen) if (now - at > REMEMBERED_MS) seen.delete(key);
  handOvers.sort((a, b) => a.at - b.at);
  return { clients: [...clients.values()], handOvers, events, isCut, spentMs, unanswered: found.unanswered, brokers: [...Object.keys(found.answers), ...found.unanswered].sort() };
}

/** Of two brokers that tell of a client, the one where it is attached knows; then the one that heard of it last. */
function isBetter(one, other) {
  if (one.attached !== other.attached) return one.attached;
  return (one.at ?? Infinity) > (other.at ?? Infinity);
}
