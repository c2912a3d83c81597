/**
 * A client of a network of brokers, for browsers and Node.
 *
 * Theory. The machine (machine.ts) numbers, resends and tells doubles apart. This module gives it a connection, and
 * dials the next broker when one fails or is lost.
 *
 * Rules.
 * 1. Requests are accepted with or without a connection. Their promises are settled by a broker's answer.
 * 2. Reconnecting is at once after a connection that was good, and to another broker after one that failed. When all
 *    have failed the client waits, twice as long each time, by a random factor: a thousand clients of a broker that
 *    comes back do not come at once.
 * 3. `moveTo` counts from the moment it is called: a connection to where the client was is closed.
 * 4. Of events that have come, brokers are told those that were read (subscription.ts).
 * 5. A client that comes back to a session by its name may get events of a subscription before it has asked for that
 *    again: they are held until it does.
 */

import { type Connection, makeConnection, type SocketClass } from "./connection.js";
import { BufferFull, type GodwitError, InvalidValue, NotConnected, Refused } from "./errors.js";
import { type EventId, eventOf, type GodwitEvent, type Receipt, receiptOf } from "./events.js";
import { type Answer, makeMachine } from "./machine.js";
import type { Attached, FromBroker } from "./messages.js";
import {
  type ConnectOptions,
  digest,
  generatedName,
  type PublishOptions,
  socketUrl,
  type State,
  subscribeFields,
  type SubscribeOptions,
} from "./options.js";
import { FORMER, makeReader, makeUnread, type Reader, type Subscription } from "./subscription.js";
import { type Attributes, copied, encoded, type Plain, type Table, type Value } from "./values.js";

const RETRY_FIRST_MS = 50;
const GOOD_MS = 1_000; // a connection that lasted for so long was good
const CONFIRM_EVERY = 16; // deliveries
const CONFIRM_MS = 50;
const CLOSE_MS = 5_000; // for events that no broker has yet
const HELD_MAX = 4_096; // events of subscriptions that were not asked for yet

/** A client that is, or is about to be, connected to one of its brokers. */
export interface Client {
  readonly name: string;
  readonly state: State;
  /** What happened to events while the client was away the last time; null: it was not away yet. */
  readonly receipt: Receipt | null;

  /** Want what `filter` matches: read it with `for await`. A loop that is left unsubscribes. */
  subscribe<A = Attributes>(
    filter: string | object,
    options: SubscribeOptions & { receipts: true },
  ): Subscription<GodwitEvent<A> | Receipt>;
  subscribe<A = Attributes>(filter: string | object, options?: SubscribeOptions): Subscription<GodwitEvent<A>>;
  /** End a subscription by its name, also one that an earlier client of this name has left behind. */
  unsubscribe(name: string): Promise<void>;
  /** Publish an event. Resolves with its id when a broker has it in its journal. */
  publish(attributes: Table, options?: PublishOptions): Promise<EventId>;
  /** Say that events to be published match `filter`, for networks that ask for this. */
  advertise(filter: string | object, options?: { name?: string }): Promise<void>;
  /** End an advertisement by its name. */
  unadvertise(name?: string): Promise<void>;
  /** Set the context, or the part of it that a component looks after: own `my.x`, and others' `sender.x` and `to`. */
  setContext(values: Table, options?: { part?: string; dwellS?: number }): Promise<void>;
  /** Say where the client is: `myloc` in filters. */
  setPlace(place: Value, options?: { dwellS?: number }): Promise<void>;
  /** Keep the session for so many seconds while the client is away; null: the default of the broker. */
  setSessionExpiry(seconds: number | null): Promise<void>;

  /** Go to these brokers, from now on. Without any: be away until the next move. */
  moveTo(...urls: string[]): void;
  /** Wait until a broker has accepted the client. Throws `NotConnected` if none has within so many milliseconds. */
  attached(timeoutMs?: number): Promise<void>;
  /** Until brokers have answered everything. */
  drained(timeoutMs?: number): Promise<void>;
  /** Until one more event may be published. */
  room(timeoutMs?: number): Promise<void>;
  /** Go, when brokers have what was published, or 5 s later. `leave`: end the session (default: if it has no name). */
  close(options?: { leave?: boolean }): Promise<void>;
}

/** Be a client of the network that these brokers belong to. Without any: of the broker that served the page. */
export function connect(urls: string | readonly string[] = [], options: ConnectOptions = {}): Client {
  const { location, WebSocket, addEventListener, removeEventListener } = globalThis as Partial<typeof window>;
  const Socket = options.WebSocket ?? (WebSocket as SocketClass | undefined);
  const { bufferEventsMax = 1_000, silenceS = 30, retryMaxS = 5, user, password, onState, onReceipt } = options;
  if (!Socket) throw new InvalidValue("there is no WebSocket here: give a class of sockets, {WebSocket: …}");

  const name = options.name || generatedName(options);
  let brokers = [urls.length ? urls : (location?.origin ?? "")].flat().map(socketUrl);
  let state: State = { kind: "connecting", broker: "", reason: "" };
  let receipt: Receipt | null = null;
  let held: { event: unknown; names: string[] }[] | null = null; // rule 5; null: nothing is held
  let connection: Connection | undefined;
  let attachedAt = 0;
  let cameUpTo = 0; // the last delivery on this connection
  let confirming: ReturnType<typeof setTimeout> | undefined;
  let hasMoved = false;
  let wake = () => {};
  const onOnline = () => wake();
  const unread = makeUnread();
  const readers = new Map<string, { reader: Reader; options: SubscribeOptions }>(); // by subscription
  const namesOf = new Map<string, string>(); // of brokers, by address
  const watchers = new Set<() => void>();

  const sequenceStart = options.name ? Date.now() * 1_000 : 0; // who had the name before has used lower numbers
  const machine = makeMachine(name, sequenceStart, options.mode, {
    send: (message) => connection?.send(message),

    deliver(wire, names, number) {
      const known = names.flatMap((each) => readers.get(each) ?? []);
      const others = names.filter((each) => !readers.has(each));
      const event = names.length && eventOf(wire);
      if (held && others.length && held.length < HELD_MAX) held.push({ event, names: others });
      unread.came(number, known.length);
      for (const { reader } of known) reader.put(event, number);
    },
  });

  // ---------------------------------------------------------------- requests

  function ask(asking: (answer: Answer) => void): Promise<void> {
    return quiet(
      new Promise((resolve, reject) => {
        checkOpen();
        asking((error) => (error ? reject(error) : resolve()));
      }),
    );
  }

  function checkOpen(): void {
    if (state.kind === "closed") throw new NotConnected("the client was closed");
  }

  function subscribe(filter: string | object, options: SubscribeOptions = {}): Subscription<unknown> {
    checkOpen();
    const fields = subscribeFields(filter, options);
    let id = options.name ?? digest(fields);
    while (!options.name && readers.has(id)) id += "'";
    if (readers.has(id)) throw new InvalidValue(`there is a subscription "${id}" already`);
    const reader = makeReader((number) => {
      unread.read(number);
      confirmSoon();
    });
    readers.set(id, { reader, options });
    const accepted = ask((answer) => machine.subscribe(id, fields, answer));
    accepted.catch((error: GodwitError) => onRefused(id, error));
    for (const each of held ?? []) {
      if (!each.names.includes(id)) continue;
      unread.claimed();
      reader.put(each.event, FORMER);
    }
    release(id);
    const isOpen = () => readers.get(id)?.reader === reader;
    const end = () => (isOpen() ? unsubscribe(id) : Promise.resolve());
    return {
      name: id,
      accepted,
      next: reader.next,
      async return() {
        end();
        return { value: undefined, done: true };
      },
      [Symbol.asyncIterator]() {
        return this;
      },
      unsubscribe: end,
      replace: (filter) =>
        ask((answer) => {
          if (!isOpen()) throw new InvalidValue(`the subscription "${id}" has ended`);
          machine.subscribe(id, subscribeFields(filter, { ...options, retained: false }), answer);
        }),
    };
  }

  function unsubscribe(id: string): Promise<void> {
    endReader(id);
    release(id);
    return ask((answer) => machine.unsubscribe(id, answer));
  }

  /** Hold nothing more for a subscription. */
  function release(id: string): void {
    for (const each of held ?? []) each.names = each.names.filter((other) => other !== id);
    held &&= held.filter(({ names }) => names.length);
  }

  function endReader(id: string, error?: GodwitError): void {
    const known = readers.get(id);
    readers.delete(id);
    if (!error) known?.reader.discard();
    known?.reader.end(error);
  }

  /** A broker does not want a subscription; a former one of that name may still be in force. */
  function onRefused(id: string, error: GodwitError): void {
    if (!machine.wants(id)) endReader(id, error);
  }

  function publish(attributes: Table, options: PublishOptions = {}): Promise<EventId> {
    const { payload, contentType, to, expiresInS, retain, clear = false } = options;
    let id: EventId;
    return quiet(
      ask((answer) => {
        if (machine.waitingEvents() >= bufferEventsMax) {
          throw new BufferFull(`${bufferEventsMax} events wait for a broker: await room()`);
        }
        if (expiresInS !== undefined && !(expiresInS > 0)) throw new InvalidValue("expiresInS must be above 0");
        const now = Date.now() / 1_000;
        const [bytes, type] = bytesOf(payload);
        machine.publish(
          (sequence, context) => {
            id = { publisher: name, sequence };
            const sender = Object.entries(context).map(([key, value]) => [`sender.${key}`, value]);
            return {
              ...id,
              attributes: copied({ ...attributes, ...Object.fromEntries(sender) }),
              payload: bytes && encoded(bytes),
              content_type: contentType ?? type,
              published_at: now,
              expires_at: expiresInS && now + expiresInS,
              to: copied(to),
            };
          },
          retain === undefined ? null : { key: retain, clear },
          answer,
        );
      }).then(() => id),
    );
  }

  function setContext(values: Table, { part = "", dwellS }: { part?: string; dwellS?: number } = {}): Promise<void> {
    return ask((answer) => machine.setContext(part, copied(values), dwellS, answer));
  }

  // ---------------------------------------------------------------- confirmations (rule 4)

  const confirmable = () => Math.min(unread.upTo(), cameUpTo);

  function confirmSoon(): void {
    const count = confirmable() - machine.confirm(0);
    if (count >= CONFIRM_EVERY) confirm();
    else if (count > 0) confirming ??= setTimeout(confirm, CONFIRM_MS);
  }

  function confirm(): void {
    clearTimeout(confirming);
    confirming = undefined;
    machine.confirm(confirmable());
  }

  // ---------------------------------------------------------------- connections

  /** Dial one broker after the other, and again when a connection is lost. (rule 2) */
  async function run(): Promise<void> {
    let waitMs = RETRY_FIRST_MS;
    let at = 0;
    while (state.kind !== "closed") {
      if (hasMoved) [at, waitMs] = [0, RETRY_FIRST_MS];
      hasMoved = false;
      if (!brokers.length) {
        await pause();
      } else if ((await visit(brokers[at % brokers.length]!)) >= GOOD_MS) {
        waitMs = RETRY_FIRST_MS;
      } else if (++at % brokers.length === 0 && !hasMoved) {
        await pause(waitMs * (0.5 + Math.random()));
        waitMs = Math.min(2 * waitMs, retryMaxS * 1_000);
      }
    }
  }

  function pause(ms?: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms && setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
      if (state.kind === "closed") wake();
    });
  }

  /** Be connected to one broker, for as long as that lasts: the milliseconds since it has let us in, or 0. */
  async function visit(url: string): Promise<number> {
    try {
      const token = typeof options.token === "function" ? await options.token() : options.token;
      if (hasMoved || state.kind === "closed") return 0; // rule 3
      return await new Promise((resolve) => {
        attachedAt = 0;
        connection = makeConnection(url, Socket!, silenceS * 1_000, {
          onOpened() {
            connection!.send({ type: "Intro", token, user, password });
            machine.onOpened(namesOf.get(url) ?? url);
          },
          onMessage: (message) => onMessage(message, url),
          onLost(reason, isTooLarge) {
            machine.onClosed(isTooLarge);
            connection = undefined;
            become("away", reason);
            resolve(attachedAt && Date.now() - attachedAt);
          },
        });
      });
    } catch (error) {
      become("away", `no token, or no socket: ${(error as Error).message}`); // as for ws: in a page of https:
      return 0;
    }
  }

  function onMessage(message: FromBroker, url: string): void {
    const former = machine.session();
    if (message.type === "Delivery") cameUpTo = message.number;
    machine.onMessage(message);
    if (message.type === "Delivery") confirmSoon(); // it may have been read before
    if (message.type === "Attached") {
      namesOf.set(url, message.broker);
      onAttached(message, former);
    }
    if (message.type === "Revoked") for (const id of message.ended) onRefused(id, new Refused(message.reason));
    if (message.type === "Suspended") {
      endReader(message.subscription, new Refused(message.reason));
      unsubscribe(message.subscription);
    }
    notify();
  }

  function onAttached({ fresh, receipt: said }: Attached, former: string): void {
    attachedAt = Date.now();
    if (machine.session() !== former) {
      held = former || fresh ? null : [];
      unread.startOver();
      for (const { reader } of readers.values()) reader.disown();
    }
    cameUpTo = machine.confirm(0);
    if (former || !fresh) {
      const came = (receipt = receiptOf(said));
      for (const { reader, options } of readers.values()) if (options.receipts) reader.put(came, 0);
      if (onReceipt) queueMicrotask(() => onReceipt(came));
    }
    become("attached", "");
  }

  function become(kind: State["kind"], reason: string): void {
    if (state.kind === "closed") return;
    const broker = machine.home();
    const now: State = (state = { kind: kind === "away" && !broker ? "connecting" : kind, broker, reason });
    if (onState) queueMicrotask(() => onState(now));
    notify();
  }

  // ---------------------------------------------------------------- waiting

  const notify = () => watchers.forEach((look) => look());

  function until(holds: () => boolean, timeoutMs?: number): Promise<void> {
    return quiet(
      new Promise((resolve, reject) => {
        const fail = (reason: string) => reject(new NotConnected(reason));
        const look = () => {
          if (holds()) resolve();
          else if (state.kind === "closed") fail("the client was closed");
          else return;
          watchers.delete(look);
          clearTimeout(timer);
        };
        const late = () => {
          watchers.delete(look);
          fail(`after ${timeoutMs} ms the client is ${state.kind}${state.reason && `: ${state.reason}`}`);
        };
        const timer = timeoutMs && setTimeout(late, timeoutMs);
        watchers.add(look);
        look();
      }),
    );
  }

  const expiryS = options.sessionExpiryS ?? (options.name ? undefined : 300);
  if (expiryS !== undefined) machine.setSessionExpiry(expiryS, () => {});
  addEventListener?.("online", onOnline);
  run();

  return {
    name,
    get state() {
      return state;
    },
    get receipt() {
      return receipt;
    },
    subscribe: subscribe as Client["subscribe"],
    unsubscribe,
    publish,
    setContext,
    advertise: (filter, { name = "all" } = {}) => ask((answer) => machine.advertise(name, copied(filter), answer)),
    unadvertise: (name = "all") => ask((answer) => machine.unadvertise(name, answer)),
    setPlace: (place, { dwellS } = {}) =>
      setContext({ location: place as Plain }, { part: "location", ...(dwellS && { dwellS }) }),
    setSessionExpiry: (seconds) => ask((answer) => machine.setSessionExpiry(seconds, answer)),
    attached: (timeoutMs) => until(machine.isAttached, timeoutMs),
    drained: (timeoutMs) => until(machine.isIdle, timeoutMs),
    room: (timeoutMs) => until(() => machine.waitingEvents() < bufferEventsMax, timeoutMs),

    moveTo(...urls) {
      checkOpen();
      brokers = urls.map(socketUrl);
      hasMoved = true;
      connection?.lose("the client goes elsewhere");
      wake();
    },

    async close({ leave = !options.name } = {}) {
      await until(machine.isPublished, CLOSE_MS).catch(() => {});
      confirm();
      if (leave) machine.leave();
      become("closed", "");
      removeEventListener?.("online", onOnline);
      machine.abandon(new NotConnected("the client was closed before a broker had answered"));
      for (const { reader } of readers.values()) reader.end();
      wake();
      await connection?.close();
    },
  };
}

/** A payload as bytes, with its content type. */
function bytesOf(payload: unknown): [bytes?: Uint8Array, type?: string] {
  if (payload === undefined) return [];
  if (payload instanceof Uint8Array) return [payload];
  const isText = typeof payload === "string";
  const bytes = new TextEncoder().encode(isText ? payload : JSON.stringify(payload));
  return [bytes, isText ? "text/plain; charset=utf-8" : "application/json"];
}

/** A promise that may be dropped: a rejection that nobody awaits is no error of the program. */
function quiet<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}
