/**
 * The events of the page Live, by the client for browsers (/client.js): each one, or samples where they are too many.
 *
 * Rules.
 * 1. Up to FULL_PER_S events a second come over a subscription, each one. To deliver more would cost the broker more than
 *    it should: the subscription ends, and brokers are asked once a second for the latest events that they remember.
 * 2. When less than half as many match, three times in a row, there is a subscription again. Where more match when the page
 *    begins, there is none at first.
 * 3. The session belongs to the page, and ends with it.
 */

import { ask, order } from "./asking.js";

export const FULL_PER_S = 100;
const SAMPLE_MS = 1_000;
const SAMPLED_S = 1; // that a sample looks back
const CALM = 3; // samples
const EXPIRY_S = 10; // of the session of a page that was closed without notice
const REMEMBERED = 1_000; // samples that were shown

/** Be a client of the broker that served the page, as the user who has logged in. */
export async function openClient(onState) {
  const { connect } = await import("/client.js"); // which a page without a broker does not have
  let first = await order("/ws/ticket");
  const token = async () => {
    const { ticket } = first ?? (await order("/ws/ticket"));
    first = null; // each opens one connection
    return ticket;
  };
  const own = `dashboard-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
  const name = first.user ? `${first.user}/${own}` : own;
  return connect(location.origin, { name, token, sessionExpiryS: EXPIRY_S, onState });
}

/**
 * Tell of events that match, until `stop` is called. `onListening` is called when a broker has accepted the subscription;
 * `onEvents` gets rows of `id` and `attributes`; `onSampling` about how many match in a second, or null when each one
 * comes; `onEnd` why the broker has ended the subscription.
 */
export function startTail(client, { filter, language, onListening, onEvents, onSampling, onEnd }) {
  const seen = new Set();
  let subscription = null;
  let timer = 0;
  let isOver = false;
  let calm = 0;

  async function listen() {
    let [beganAt, came] = [performance.now(), 0];
    try {
      subscription = client.subscribe(filter || "TRUE", language ? { language } : {});
      subscription.accepted.then(onListening, () => {}); // a refusal ends the loop below
      for await (const { publisher, sequence, attributes } of subscription) {
        const now = performance.now();
        if (now - beganAt > 1_000) [beganAt, came] = [now, 0];
        came += 1;
        onEvents([{ id: `${publisher}:${sequence}`, attributes }]);
        if (came > FULL_PER_S) break; // which unsubscribes
      }
    } catch (error) {
      if (!isOver) onEnd(error);
      return;
    }
    if (!isOver) sample();
  }

  async function sample() {
    const found = document.hidden ? null : await ask("/everywhere/latest", { filter, language, seconds: SAMPLED_S }).catch(() => null);
    if (isOver) return;
    if (found) {
      const told = Object.values(found.answers).filter((each) => each?.events);
      const perS = rateOf(found);
      onEvents(told.flatMap(({ events }) => events).filter(isNew).sort((a, b) => a.at - b.at).map(({ event, attributes }) => ({ id: event, attributes })));
      calm = perS < FULL_PER_S / 2 ? calm + 1 : 0;
      onSampling(calm < CALM ? perS : null);
      if (calm >= CALM) {
        calm = 0;
        return listen();
      }
    }
    timer = setTimeout(sample, SAMPLE_MS);
  }

  /** Listen, unless too many events come already. */
  async function begin() {
    const found = await ask("/everywhere/latest", { filter, language, seconds: SAMPLED_S }).catch(() => null);
    if (isOver) return;
    if (rateOf(found) <= FULL_PER_S / 2) listen();
    else sample();
  }

  function isNew({ event }) {
    if (seen.has(event)) return false;
    seen.add(event);
    if (seen.size > REMEMBERED) seen.delete(seen.values().next().value);
    return true;
  }

  begin();
  return function stop() {
    isOver = true;
    clearTimeout(timer);
    subscription?.unsubscribe();
  };
}

/** About how many events match in a second, at all brokers that answered. */
function rateOf(found) {
  return Object.values(found?.answers ?? {}).reduce((sum, each) => sum + (each?.per_s ?? 0), 0);
}
