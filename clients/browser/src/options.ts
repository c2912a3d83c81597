/** The options of an application, and how messages carry them. */

import type { SocketClass } from "./connection.js";
import { InvalidValue } from "./errors.js";
import type { Receipt } from "./events.js";
import type { Subscribe } from "./messages.js";
import { copied } from "./values.js";

/** Where the client is. */
export interface State {
  readonly kind: "connecting" | "attached" | "away" | "closed";
  /** The broker that it is at, or was at last; "": none yet. */
  readonly broker: string;
  /** Why it is not attached. */
  readonly reason: string;
}

export interface ConnectOptions {
  /** Client name, by which it can come back to its session. Default: generated, and the session ends with `close`. */
  name?: string;
  /** A token, or a function that gives one for each connection. */
  token?: string | (() => string | Promise<string>);
  user?: string;
  password?: string;
  /** How long brokers keep the session while the client is away, in seconds.
   * Default: 300 without a name, else the default of the broker. */
  sessionExpiryS?: number;
  /** How many events may wait for a broker. Default: 1000. */
  bufferEventsMax?: number;
  /** How long a broker may be silent, in seconds. Default: 30. */
  silenceS?: number;
  /** The longest pause between two attempts to connect, in seconds. Default: 5. */
  retryMaxS?: number;
  /** The class of sockets. Default: the global WebSocket, which Node has from version 22 on. */
  WebSocket?: SocketClass;
  /** Who advertises for a publisher while it is on its way. Each connection begins a new session.
   * Default: the session follows the client, and no event is lost. */
  mode?: "standard" | "delayed" | "prefetching" | "prefetching+delayed" | "proxy";
  onState?: (state: State) => void;
  /** Called when the client is back: what happened to events while it was away. */
  onReceipt?: (receipt: Receipt) => void;
}

/** What may leave the queue of a client that is away. */
export interface QueueRules {
  /** Older events go; in seconds. */
  ageSMax?: number;
  /** Of events with the same value of this attribute only the newest stays. */
  newestPer?: string;
  /** Only the event with the highest value of this attribute stays. */
  highWater?: string;
  countMax?: number;
  bytesMax?: number;
  /** Over a budget, the event with the least value of this attribute goes first. Default: the oldest. */
  importance?: string;
}

export interface SubscribeOptions {
  /** Name of the subscription in the session.
   * Default: derived from the filter, so that a page that is loaded again continues it. */
  name?: string;
  /** Language of the filter. Default: the filter language. */
  language?: string;
  /** A filter on the publisher's context. */
  sender?: string | object;
  /** Begin with the retained events that match. */
  retained?: boolean;
  /** Group name: of the members of a group with the same filter, one gets each event. */
  share?: string;
  queue?: QueueRules;
  /** When the subscription ends by itself. */
  expires?: Date;
  /** Yield receipts, too, where the events were interrupted. */
  receipts?: boolean;
}

export interface PublishOptions {
  /** Bytes, a text, or anything that JSON can hold. */
  payload?: unknown;
  contentType?: string;
  /** A filter on the receiver's context. */
  to?: string | object;
  /** Event lifetime in seconds. */
  expiresInS?: number;
  /** Retain the event for later subscribers, the last one of this key. */
  retain?: string;
  /** With `retain`: remove the retained event of that key. */
  clear?: boolean;
}

/** The address of `/ws` that is meant by `http`, `https`, `ws`, `wss`, or a host and port alone. */
export function socketUrl(text: string): string {
  try {
    const url = new URL(/^\w+:\/\//.test(text) ? text : `ws://${text}`);
    url.protocol = url.protocol.replace("http", "ws");
    if (url.pathname === "/") url.pathname = "/ws";
    url.hash = "";
    if (/^wss?:/.test(url.href)) return url.href;
  } catch {
    // as below
  }
  throw new InvalidValue(`"${text}" is not an address of a broker: give one such as "http://127.0.0.1:7080"`);
}

/** A name for a client that was given none: a user's clients bear its name. */
export function generatedName({ user, token }: ConnectOptions): string {
  const owner = user || (token && subject(token));
  return `${owner ? `${owner}/` : ""}web-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
}

/** For whom a token was made. */
function subject(token: NonNullable<ConnectOptions["token"]>): string {
  try {
    return JSON.parse(atob((token as string).split(".")[1]!.replace(/-/g, "+").replace(/_/g, "/"))).sub;
  } catch {
    throw new InvalidValue('the token does not tell the user, so a name is needed, such as {name: "ann/phone"}');
  }
}

/** The fields of a Subscribe. */
export function subscribeFields(filter: string | object, options: SubscribeOptions): Omit<Subscribe, "type" | "id"> {
  const { language, sender, retained, share, queue, expires } = options;
  const rules = Object.entries(queue ?? {}).map(([name, value]) => [
    name.replace(/[A-Z]/g, "_$&").toLowerCase(),
    value,
  ]);
  return {
    filter: copied(filter),
    language,
    sender: copied(sender),
    retained,
    share,
    queue: queue && Object.fromEntries(rules),
    expires: expires && +expires / 1_000,
  };
}

/** A short text that is the same for the same data. */
export function digest(data: unknown): string {
  let hash = 0;
  for (const char of JSON.stringify(data)) hash = (Math.imul(hash, 31) + char.codePointAt(0)!) | 0;
  return (hash >>> 0).toString(36);
}
