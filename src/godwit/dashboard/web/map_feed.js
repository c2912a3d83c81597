/**
 * What moves on the map, asked for again and again: up to ten times a second, and less often when it costs brokers more.
 *
 * Each answer of a broker has a mark. The next question sends the marks along, so that brokers tell only what has changed
 * since: clients by numbers, in columns. What a broker has told is kept here, as long as it answers.
 */

import { ask } from "./asking.js";

const FASTEST_MS = 100;
const SHARE = 0.025; // of a broker's time, at most: an answer that took it 12 ms is asked for again after 500 ms
const REQUEST_MS = 0.5; // that a request takes a broker besides its answer
const PASSED_ON_MS = 0.1; // that the answer of another broker takes it
const NEW_SHARE = 0.2; // of the last answer in what an answer takes on average: every tenth one takes longer, since it looks at all sessions
const LATE_MS = 50; // after a longer delay, the next question is timed from this one
const BREATH_MS = 10; // between an answer that took long and the next question
const TROUBLED_MS = 1_000; // after an error
const PATIENCE_MS = 300; // while some broker does not answer, so that all others are still seen to move
const SILENT_MS = 5_000; // after which the clients of a broker that does not answer are not drawn any more
const MARKS_MAX = 8_000; // characters: in a network of hundreds of brokers, each answer is a whole one

/**
 * Ask until `stop` is called. `onAnswer` gets clients that have changed and those that are gone, hand-overs and events
 * that are new, who has not answered, and how long it will take to the next answer.
 */
export function startFeed({ onAnswer, onError }) {
  const [reader, pace] = [makeReader(), makePace()];
  let isOver = false;
  let isAsking = false;
  let isMissing = false;
  let timer = 0;

  async function next() {
    if (document.hidden || isAsking) return; // a page that is shown again may still wait for an answer
    const began = performance.now();
    let dueAt;
    isAsking = true;
    try {
      const found = await ask("/everywhere/map", { since: reader.marks(), wait_ms: isMissing ? PATIENCE_MS : "" });
      if (isOver) return;
      const came = performance.now();
      const told = reader.read(found, began);
      isMissing = told.unanswered.length > 0;
      const spentMs = told.spentMs + REQUEST_MS + told.brokers.length * PASSED_ON_MS;
      dueAt = pace.next(began, came, spentMs, isMissing);
      onAnswer({ ...told, takesMs: dueAt - began });
    } catch (error) {
      if (isOver) return;
      dueAt = performance.now() + TROUBLED_MS;
      onError(error);
    }
    isAsking = false;
    timer = setTimeout(next, Math.max(0, dueAt - performance.now()));
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

/**
 * When to ask again: `next` gets when a question was asked and answered, what the answer took a broker, and whether some
 * broker has not answered. Costs are averaged, and a timer that comes late does not delay the questions that follow.
 */
export function makePace() {
  let dueAt = -Infinity; // when the last question was to be asked
  let averageMs = null;

  function next(began, came, spentMs, isMissing) {
    averageMs = averageMs === null ? spentMs : averageMs + NEW_SHARE * (spentMs - averageMs);
    const wasDue = began - dueAt < LATE_MS ? dueAt : began;
    dueAt = Math.max(wasDue + Math.max(FASTEST_MS, averageMs / SHARE), came + (isMissing ? FASTEST_MS : BREATH_MS));
    return dueAt;
  }

  return { next };
}

/** Puts answers together: `read` takes one, `marks` is what the next question sends along. */
export function makeReader() {
  const brokers = new Map(); // by name: its mark, what it has told by client's number, when it last answered
  const clients = new Map(); // by name: what each broker has told of it, by broker
  const best = new Map(); // by name: the row that is drawn

  function marks() {
    const text = JSON.stringify(Object.fromEntries([...brokers].map(([name, { mark }]) => [name, mark])));
    return text.length > 2 && text.length <= MARKS_MAX ? text : "";
  }

  /** What an answer of all brokers changes. */
  function read(found, now) {
    const touched = new Set(); // names of clients
    const [handOvers, events] = [[], []];
    let isCut = false;
    let spentMs = 0; // by the broker that had most to do
    for (const [name, told] of Object.entries(found.answers)) {
      if (!told?.moved) continue;
      const broker = brokers.get(name) ?? { mark: "", rows: new Map() };
      brokers.set(name, broker);
      [broker.mark, broker.answeredAt] = [told.mark, now];
      if (told.is_whole) forget(broker, name, touched);
      told.names.numbers.forEach((number, at) => broker.rows.set(number, { client: told.names.names[at], broker: name }));
      move(broker, told.moved, touched);
      for (const number of told.gone) drop(broker, name, number, touched);
      for (const { at, client, to, events: waiting } of told.hand_overs) handOvers.push({ at, client, from: name, to, waiting });
      told.events.lon.forEach((lon, at) => events.push({ lon, lat: told.events.lat[at], broker: name }));
      isCut ||= told.events.is_cut;
      spentMs = Math.max(spentMs, told.took_ms);
    }
    for (const [name, broker] of brokers) {
      if (now - broker.answeredAt < SILENT_MS) continue;
      forget(broker, name, touched);
      brokers.delete(name);
    }
    const [changed, gone] = settle(touched);
    handOvers.sort((a, b) => a.at - b.at);
    return { changed, gone, clients: best, handOvers, events, isCut, spentMs, unanswered: found.unanswered, brokers: [...Object.keys(found.answers), ...found.unanswered].sort() };
  }

  function move(broker, { numbers, lon, lat, attached, at }, touched) {
    numbers.forEach((number, n) => {
      const row = broker.rows.get(number);
      if (!row) return; // which no broker does
      Object.assign(row, { lon: lon[n], lat: lat[n], attached: attached[n], at: at[n] });
      if (!clients.has(row.client)) clients.set(row.client, new Map());
      clients.get(row.client).set(row.broker, row);
      touched.add(row.client);
    });
  }

  function drop(broker, name, number, touched) {
    const row = broker.rows.get(number);
    if (!row) return;
    broker.rows.delete(number);
    const tellers = clients.get(row.client);
    if (tellers?.get(name) === row) tellers.delete(name); // else it has come again, with another number
    touched.add(row.client);
  }

  function forget(broker, name, touched) {
    for (const number of [...broker.rows.keys()]) drop(broker, name, number, touched);
  }

  /** Which of the touched clients are drawn, and where; and who is not drawn any more. */
  function settle(touched) {
    const [changed, gone] = [[], []];
    for (const client of touched) {
      const rows = [...(clients.get(client)?.values() ?? [])];
      if (rows.length === 0) {
        clients.delete(client);
        best.delete(client);
        gone.push(client);
      } else {
        const row = rows.reduce((one, other) => (isBetter(other, one) ? other : one));
        best.set(client, row);
        changed.push(row);
      }
    }
    return [changed, gone];
  }

  return { read, marks };
}

/** Of two brokers that tell of a client, the one where it is attached knows; then the one that heard of it last. */
function isBetter(one, other) {
  if (one.attached !== other.attached) return one.attached;
  return (one.at ?? Infinity) > (other.at ?? Infinity);
}
