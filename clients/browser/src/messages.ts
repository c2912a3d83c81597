/** The messages of `/ws` that this client sends and reads: docs/reference/messages.md explains them. */

import type { Table } from "./values.js";

export type EntryId = [client: string, name: string];

export interface WireEvent {
  attributes: Table;
  publisher: string;
  sequence: number;
  payload?: string | undefined;
  content_type?: string | undefined;
  published_at?: number;
  expires_at?: number | undefined;
  to?: unknown;
}

export interface WireReceipt {
  replayed: number;
  suppressed: number;
  purged: Record<string, number>;
  expired: number;
  lost: [publisher: string, sequence: number][];
  lost_more: number;
  session_lost: boolean;
  number: number;
  lost_since: number | null;
}

export interface Subscribe {
  type: "Subscribe";
  id: EntryId;
  filter: string | object;
  language?: string | undefined;
  sender?: string | object | undefined;
  expires?: number | undefined;
  queue?: object | undefined;
  share?: string | undefined;
  retained?: boolean | undefined;
}

export interface Advertise {
  type: "Advertise";
  id: EntryId;
  filter: string | object;
}

export interface Context {
  type: "Context";
  values: Table;
  dwell_s?: number;
}

export type Wish =
  | Subscribe
  | Advertise
  | Context
  | { type: "Unsubscribe" | "Unadvertise"; id: EntryId }
  | { type: "Publish"; event: WireEvent }
  | { type: "Retain"; event: WireEvent; key: string; clear: boolean }
  | { type: "SetSessionExpiry"; seconds: number | null }
  | { type: "Denied"; reason: string };

/** What a client sends. */
export type ToBroker =
  | { type: "Intro"; token?: string | undefined; user?: string | undefined; password?: string | undefined }
  | {
      type: "Attach";
      client: string;
      received: number;
      session: string;
      receipt: number;
      attempt: number;
      home: string;
      since: number;
      wanted: (Subscribe | Advertise)[];
      mode: string | undefined;
      context: Context | null;
      tried: string[];
      origin: string;
      renewed_at: number;
    }
  | { type: "Request"; number: number; wish: Wish }
  | { type: "Received"; number: number }
  | { type: "Bye"; reason: string };

export interface Attached {
  type: "Attached";
  accepted: number;
  fresh: boolean;
  receipt: WireReceipt;
  session: string;
  broker: string;
  origin: string;
  renewed_at: number;
}

export interface Delivery {
  type: "Delivery";
  number: number;
  event: WireEvent;
  subscriptions: string[];
}

/** What a broker sends. */
export type FromBroker =
  | Attached
  | Delivery
  | { type: "Accepted"; number: number }
  | { type: "Refused"; number: number; reason: string }
  | { type: "Revoked"; ended: string[]; narrowed: string[]; reason: string }
  | { type: "Suspended"; subscription: string; reason: string }
  | { type: "Bye"; reason: string }
  | { type: "Intro" };
