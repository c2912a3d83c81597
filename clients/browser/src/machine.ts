/**
 * The client's side of a session: each request reaches a broker once, and each event comes to the application once.
 *
 * Theory. Wishes become numbered requests. At most `IN_FLIGHT_MAX` are under way, the others wait. A request without an
 * answer is sent again on the next connection, with the same number, so that the broker can tell what it has handled.
 * Deliveries are numbered by the session. `Attach` says which session we continue, how far we are in it, and, for
 * another broker than the last one, what the session holds: that broker fetches the session.
 *
 * When a broker has another session than we remember, no old number means anything. All is then said again: context,
 * subscriptions, events without an answer. Brokers and this client tell doubles by the events' ids.
 *
 * Rules.
 * 1. `deliver` is called once for each event, in the order of delivery.
 * 2. Only `Attach` is sent before `Attached`.
 * 3. An answered request is never sent again in the same session.
 * 4. Events are published in the order of their numbers, each of which is used once.
 * 5. At most one context is under way (context.ts); later requests wait with it.
 *
 * This is `client/client.py` of the Python package, without quenching, in the mode `relocate` and, with `mode`, in those
 * of publishers, in which each connection begins a session. A departure: after a broker has lost its last inputs, this
 * client cannot test filters. So it may get events of a filter that it had replaced, until the broker has heard again
 * what replaced it.
 */

import { type Parts, whole, withoutRefused, withPart } from "./context.js";
import { type GodwitError, ProtocolError, Refused } from "./errors.js";
import type {
  Advertise,
  Attached,
  Context,
  Delivery,
  FromBroker,
  Subscribe,
  ToBroker,
  WireEvent,
  Wish,
} from "./messages.js";
import { type Table, written } from "./values.js";

const IN_FLIGHT_MAX = 128; // requests: below what brokers remember of a publisher's numbers
const PUBLISHERS_MAX = 1_024;
const TRIED_MAX = 16; // brokers that Attach may name
const CONTEXT = "c";

export type Answer = (error?: GodwitError) => void;

/** What the machine asks of its driver. */
export interface MachineOutput {
  send(message: ToBroker): void;
  /** An event for these subscriptions; for none: it had come before, or nobody wants it. */
  deliver(event: WireEvent, names: string[], number: number): void;
}

/** Something asked for, and whom to tell the answer. */
interface Ask {
  /** What it is about: `s:` or `a:` and the name of a subscription or advertisement, `e:` and the number of an event,
   * the context, or the session's expiry. Of two that wait about one topic the later one counts. */
  readonly topic: string;
  wish: Wish;
  parts: Parts | undefined; // of a context
  number: number; // of the request; 0: it waits
  readonly answers: Answer[];
}

export type Machine = ReturnType<typeof makeMachine>;

export function makeMachine(
  client: string,
  sequenceStart: number,
  mode: string | undefined,
  { send, deliver }: MachineOutput,
) {
  let isAttached = false;
  let session = "";
  let home = ""; // the broker that has the session
  let confirmed = 0; // the last delivery that the broker was told of
  let received = 0; // the last delivery that has come
  let receipt = 0; // the number of the last receipt
  let numbered = 0; // the last number of a request
  let sequence = sequenceStart; // the last number of an event
  let attempt = 0;
  let since = 0; // the attempt that led to `home`
  let hasStrayed = false; // another broker was greeted since
  let isAfterLoss = false;
  let origin = "";
  let renewedAt = 0;
  let parts: Parts = new Map();
  let grantedParts = parts;
  let isUnsure = false; // the parts were granted in another session
  let underWay: Ask[] = [];
  let brought: (Subscribe | Advertise)[] = []; // what the last Attach said that the session may hold
  const wanted = new Map<string, Ask>(); // all that is wanted and said at present
  const granted = new Map<string, Ask>(); // what of it a broker has accepted
  const outbox = new Map<string, Ask>(); // what waits to be sent
  const tried = new Set<string>(); // brokers greeted since the last Attached
  const seen = new Map<string, number>(); // by publisher, the last number; the longest silent publisher first
  const ended = new Set<string>(); // subscriptions that a broker had after a loss, and that nobody here knows

  // ---------------------------------------------------------------- requests

  /** Send a wish when its turn comes, in the place of one that waits about the same topic. */
  function wait(topic: string, wish: Wish, answer?: Answer): Ask {
    const answers = outbox.get(topic)?.answers ?? [];
    if (answer) answers.push(answer);
    const ask: Ask = { topic, wish, parts: topic === CONTEXT ? parts : undefined, number: 0, answers };
    outbox.set(topic, ask);
    pump();
    return ask;
  }

  function say(topic: string, wish: Wish, answer?: Answer): void {
    wanted.set(topic, wait(topic, wish, answer));
  }

  function pump(): void {
    for (const ask of outbox.values()) {
      if (!isAttached || underWay.length >= IN_FLIGHT_MAX || (ask.parts && isUnderWay(CONTEXT))) return;
      outbox.delete(ask.topic);
      ask.number = ++numbered;
      underWay.push(ask);
      request(ask);
    }
  }

  const request = ({ number, wish }: Ask): void => send({ type: "Request", number, wish });

  const isUnderWay = (topic: string): boolean => underWay.some((ask) => ask.topic === topic);

  const waitingEvents = (): number => [...outbox.keys()].filter(isEvent).length;

  /** End the requests about a topic. */
  function end(topic: string, wish: Wish, answer: Answer): void {
    wanted.delete(topic);
    const ask = outbox.get(topic);
    if (ask && !granted.has(topic) && !isUnderWay(topic)) {
      outbox.delete(topic); // no broker has heard of it
      settle(ask);
      answer();
    } else {
      wait(topic, wish, answer);
    }
  }

  const endOf = ({ type, id }: Subscribe | Advertise): Wish => ({
    type: type === "Subscribe" ? "Unsubscribe" : "Unadvertise",
    id,
  });

  // ---------------------------------------------------------------- answers

  function checkAnswer(number: number): void {
    check(number);
    if (number > numbered) throw new ProtocolError(`request ${number} is answered, but ${numbered} were sent`);
  }

  function acknowledge(number: number): void {
    while (underWay[0] && underWay[0].number <= number) {
      const ask = underWay.shift()!;
      if (ask.wish.type.startsWith("Un")) granted.delete(ask.topic);
      else if (!isEvent(ask.topic)) granted.set(ask.topic, ask);
      if (ask.parts) {
        grantedParts = ask.parts;
        isUnsure = false;
      }
      settle(ask);
    }
  }

  function onRefused(number: number, reason: string): void {
    checkAnswer(number);
    acknowledge(number - 1);
    const ask = underWay[0];
    if (ask?.number !== number) return; // it is known
    underWay.shift();
    const before = granted.get(ask.topic);
    if (wanted.get(ask.topic) === ask) {
      if (before) wanted.set(ask.topic, before);
      else wanted.delete(ask.topic);
    }
    if (ask.parts) onContextRefused(ask.parts);
    settle(ask, new Refused(reason));
    pump();
  }

  /** Go back to the context that the broker has; where it may have none, say so. */
  function onContextRefused(refused: Parts): void {
    const later = outbox.get(CONTEXT);
    const isLost = isUnsure && !later;
    if (isLost) {
      parts = refused === grantedParts ? new Map() : grantedParts;
      grantedParts = parts;
    } else {
      parts = withoutRefused(parts, refused, grantedParts);
    }
    if (later || (isLost && refused.size)) say(CONTEXT, whole(parts));
  }

  // ---------------------------------------------------------------- connections

  function onAttached(message: Attached): void {
    if (isAttached) throw new ProtocolError("a second Attached on one connection");
    const { accepted, fresh } = message;
    check(accepted);
    const answered = numbered - underWay.length; // a broker that says less has lost its last inputs
    const isResumed = !fresh && message.session === session && accepted >= answered;
    if (isResumed) checkAnswer(accepted);
    isAttached = true;
    ({ broker: home, origin, renewed_at: renewedAt } = message);
    since = attempt;
    hasStrayed = false;
    tried.clear();
    ended.clear();
    receipt = message.receipt.number;
    isAfterLoss = message.receipt.lost_since !== null && !isResumed;
    if (isResumed) {
      acknowledge(accepted);
      underWay.forEach(request);
    } else {
      const isFirst = !session && fresh; // all that was ever asked for waits in its order
      ({ session } = message);
      received = confirmed = 0;
      numbered = accepted;
      if (!isFirst) sayAllAgain(fresh ? [] : brought);
    }
    pump();
  }

  /** The session knows nothing of us, but for what it began with: all that is wanted, then events it may not have. */
  function sayAllAgain(began: (Subscribe | Advertise)[]): void {
    const said = [...granted.values(), ...underWay, ...outbox.values()];
    const isOver = ({ wish }: Ask): boolean => wish.type === "Subscribe" && wish.expires! <= Date.now() / 1_000;
    for (const [topic, ask] of wanted) if (isOver(ask)) wanted.delete(topic);
    underWay = [];
    granted.clear();
    outbox.clear();
    isUnsure = true;
    const isContext = (ask: Ask): number => +(ask.topic === CONTEXT); // it comes first: by it we are meant
    for (const ask of [...wanted.values()].sort((a, b) => isContext(b) - isContext(a))) outbox.set(ask.topic, ask);
    for (const wish of began) {
      const topic = topicOf(wish);
      if (!wanted.has(topic)) outbox.set(topic, { topic, wish: endOf(wish), parts: undefined, number: 0, answers: [] });
    }
    for (const ask of said) {
      const heir = outbox.get(ask.topic);
      if (isEvent(ask.topic)) outbox.set(ask.topic, ask);
      else if (!heir)
        settle(ask); // it was an end, of what the new session never had
      else if (heir !== ask) heir.answers.push(...ask.answers.splice(0));
    }
  }

  // ---------------------------------------------------------------- deliveries

  function onDelivery({ number, event, subscriptions }: Delivery): void {
    if (!isAttached) throw new ProtocolError("Delivery before Attached");
    check(number);
    let names: string[] = [];
    if (number > received) {
      received = number;
      names = isAfterLoss ? subscriptions.filter(isKnown) : subscriptions;
      if (names.length && (event.attributes as { retained?: unknown }).retained !== true && !isNew(event)) names = [];
    }
    deliver(event, names, number);
  }

  /** Whether a subscription is ours. One that we have ended, and a broker still has after a loss, is ended again. */
  function isKnown(name: string): boolean {
    const topic = `s:${name}`;
    if (!wanted.has(topic) && !ended.has(name)) {
      ended.add(name);
      wait(topic, { type: "Unsubscribe", id: [client, name] });
    }
    return wanted.has(topic);
  }

  /** Whether an event has not come before: those of one publisher come in order. */
  function isNew(event: WireEvent): boolean {
    const last = seen.get(event.publisher);
    const canTell = Number.isSafeInteger(last); // beyond that, JavaScript takes one number for the next
    if (canTell && event.sequence <= last!) return false;
    seen.delete(event.publisher);
    seen.set(event.publisher, event.sequence);
    if (seen.size > PUBLISHERS_MAX) seen.delete(seen.keys().next().value!);
    return true;
  }

  return {
    isAttached: () => isAttached,
    session: () => session,
    home: () => home,
    waitingEvents,

    /** Whether everything asked for is answered. */
    isIdle: () => !underWay.length && !outbox.size,

    /** Whether brokers have everything that was published. */
    isPublished: () => !waitingEvents() && !underWay.some((ask) => isEvent(ask.topic)),

    wants: (subscription: string) => wanted.has(`s:${subscription}`),

    subscribe(name: string, fields: Omit<Subscribe, "type" | "id">, answer: Answer): void {
      say(`s:${name}`, { type: "Subscribe", id: [client, name], ...fields }, answer);
    },

    unsubscribe(name: string, answer: Answer): void {
      end(`s:${name}`, { type: "Unsubscribe", id: [client, name] }, answer);
    },

    unadvertise(name: string, answer: Answer): void {
      end(`a:${name}`, { type: "Unadvertise", id: [client, name] }, answer);
    },

    advertise(name: string, filter: string | object, answer: Answer): void {
      say(`a:${name}`, { type: "Advertise", id: [client, name], filter }, answer);
    },

    /** Publish what `make` gives for the next number and the present context. */
    publish(
      make: (sequence: number, context: Table) => WireEvent,
      retain: { key: string; clear: boolean } | null,
      answer: Answer,
    ): void {
      const event = make(++sequence, whole(parts).values);
      wait(`e:${sequence}`, retain ? { type: "Retain", event, ...retain } : { type: "Publish", event }, answer);
    },

    setContext(part: string, values: Table, dwellS: number | undefined, answer: Answer): void {
      parts = withPart(parts, part, { values, dwellS });
      say(CONTEXT, whole(parts), answer);
    },

    setSessionExpiry(seconds: number | null, answer: Answer): void {
      say("x", { type: "SetSessionExpiry", seconds }, answer);
    },

    /** The last delivery that the broker was told of; what was read is told, if it is more. */
    confirm(number: number): number {
      if (isAttached && number > confirmed) send({ type: "Received", number: (confirmed = number) });
      return confirmed;
    },

    /** End the session, if there is a connection. */
    leave(): void {
      if (isAttached) send({ type: "Bye", reason: "the client leaves" });
    },

    /** Nothing will be answered any more. */
    abandon(error: GodwitError): void {
      for (const ask of [...underWay.splice(0), ...outbox.values()]) settle(ask, error);
      outbox.clear();
    },

    /** There is a connection to a broker, by its name if that is known. */
    onOpened(broker: string): void {
      attempt++;
      hasStrayed ||= broker !== home;
      const said = session && (hasStrayed || mode) ? [...granted.values(), ...underWay] : []; // for another session
      const mayHold = ({ topic, wish: { type } }: Ask) => /^(Subscribe|Advertise)$/.test(type) && wanted.has(topic);
      brought = said.filter(mayHold).map((ask) => ask.wish as Subscribe | Advertise);
      tried.delete(broker);
      const others = [...tried].slice(-TRIED_MAX);
      tried.add(broker);
      send({
        type: "Attach",
        client,
        received: confirmed,
        session,
        receipt,
        attempt,
        home,
        since,
        wanted: brought,
        mode,
        context: (said.filter((ask) => ask.parts).at(-1)?.wish ?? null) as Context | null,
        tried: others,
        origin,
        renewed_at: renewedAt,
      });
    },

    /** The connection is gone. `isTooLarge`: the broker takes no message of that size; have the largest one refused. */
    onClosed(isTooLarge: boolean): void {
      isAttached = false;
      const size = (ask: Ask) => written(ask.wish).length;
      const [largest] = isTooLarge ? [...underWay].sort((a, b) => size(b) - size(a)) : [];
      if (largest)
        largest.wish = { type: "Denied", reason: `${size(largest)} bytes: this broker takes no message so large` };
    },

    /** A broker has said something. `ProtocolError`: it should not have; close the connection. */
    onMessage(message: FromBroker): void {
      const { type } = message;
      if (type === "Attached") onAttached(message);
      if (type === "Delivery") onDelivery(message);
      if (type === "Refused") onRefused(message.number, message.reason);
      if (type === "Accepted") {
        checkAnswer(message.number);
        acknowledge(message.number);
        pump();
      }
      for (const name of type === "Revoked" ? message.ended : []) {
        const topic = `s:${name}`;
        if (outbox.has(topic) || isUnderWay(topic)) continue; // it was asked for again since
        wanted.delete(topic);
        granted.delete(topic);
      }
    },
  };
}

const topicOf = ({ type, id }: Subscribe | Advertise): string => (type === "Subscribe" ? "s:" : "a:") + id[1];

const isEvent = (topic: string): boolean => topic.startsWith("e:");

function settle(ask: Ask, error?: GodwitError): void {
  for (const answer of ask.answers.splice(0)) answer(error);
}

function check(number: number): void {
  if (!(number >= 0 && Number.isSafeInteger(number))) throw new ProtocolError(`${number} is no whole number`);
}
