/** What a subscription yields: events, and receipts where these were asked for. */

import type { WireEvent, WireReceipt } from "./messages.js";
import { type Attributes, decoded, received, type WireAttributes } from "./values.js";

/** Names an event: no two events share both. */
export interface EventId {
  readonly publisher: string;
  readonly sequence: number;
}

/** An event that was received. */
export interface GodwitEvent<A = Attributes> extends EventId {
  readonly kind: "event";
  /** Flat: `user/zip` for nested data, an array where an attribute has several values. */
  readonly attributes: A;
  readonly payload: Uint8Array | null;
  readonly contentType: string | null;
  readonly publishedAt: Date | null;
  readonly expiresAt: Date | null;
}

/** What happened to events while the client was away. */
export interface Receipt {
  readonly kind: "receipt";
  /** Events that waited, and follow. */
  readonly replayed: number;
  /** Came twice, or for a subscription that had ended. */
  readonly suppressed: number;
  /** Removed by a rule of the queue, by rule. */
  readonly purged: Readonly<Record<string, number>>;
  /** Events whose lifetime was over. */
  readonly expired: number;
  /** Events known to be lost. */
  readonly lost: readonly EventId[];
  /** How many more were lost. */
  readonly lostMore: number;
  /** The broker has forgotten the session: what it held is gone. */
  readonly sessionLost: boolean;
  /** Some of what was acknowledged after this time may be lost; the time 0: it is not known since when. */
  readonly lostSince: Date | null;
}

export function eventOf(event: WireEvent): GodwitEvent {
  return {
    kind: "event",
    attributes: received(event.attributes as WireAttributes),
    publisher: event.publisher,
    sequence: event.sequence,
    payload: event.payload == null ? null : decoded(event.payload),
    contentType: event.content_type ?? null,
    publishedAt: date(event.published_at),
    expiresAt: date(event.expires_at),
  };
}

export function receiptOf(receipt: WireReceipt): Receipt {
  const { replayed, suppressed, purged, expired, lost_more: lostMore, session_lost: sessionLost } = receipt;
  const lost = receipt.lost.map(([publisher, sequence]) => ({ publisher, sequence }));
  return {
    kind: "receipt",
    replayed,
    suppressed,
    purged,
    expired,
    lost,
    lostMore,
    sessionLost,
    lostSince: date(receipt.lost_since),
  };
}

/** An event's payload as text. */
export function text(event: GodwitEvent<unknown>): string {
  return new TextDecoder().decode(event.payload ?? new Uint8Array());
}

/** An event's payload as JSON. `SyntaxError`: it is none. */
export function json(event: GodwitEvent<unknown>): unknown {
  return JSON.parse(text(event));
}

function date(seconds: number | null | undefined): Date | null {
  return seconds == null ? null : new Date(seconds * 1_000);
}
