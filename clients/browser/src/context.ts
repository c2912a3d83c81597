/**
 * What a client says of itself: its context in parts.
 *
 * The application and, say, a reader of the position each set a part of the context without knowing the other's. A
 * broker gets all parts in one. Where two parts have the same attribute, the one set last counts.
 *
 * Rule: with nothing under way, the context here is the one that the broker has accepted last, or is to hear next. At
 * most one context is under way, so an answer always belongs to that one.
 */

import type { Context } from "./messages.js";
import type { Table } from "./values.js";

interface Part {
  readonly values: Table;
  readonly dwellS: number | undefined;
}

/** By the name of a part, what it says; the part that was set last stands last. */
export type Parts = ReadonlyMap<string, Part>;

/** The context with one part replaced. */
export function withPart(parts: Parts, name: string, part: Part): Parts {
  const changed = new Map(parts);
  changed.delete(name);
  return changed.set(name, part);
}

/** All parts in one. */
export function whole(parts: Parts): Context {
  const context: Context = { type: "Context", values: {} };
  for (const { values, dwellS } of parts.values()) {
    context.values = { ...context.values, ...values };
    if (dwellS) context.dwell_s = Math.min(dwellS, context.dwell_s ?? dwellS);
  }
  return context;
}

/** The context without what is new in refused parts; what was set again since stays. */
export function withoutRefused(parts: Parts, refused: Parts, granted: Parts): Parts {
  const kept = new Map(parts);
  for (const [name, part] of refused) {
    const before = granted.get(name);
    if (kept.get(name) !== part) continue;
    if (before) kept.set(name, before);
    else kept.delete(name);
  }
  return kept;
}
