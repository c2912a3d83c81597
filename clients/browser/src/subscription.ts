/**
 * A subscription as an async iterator, and the account of what the application has read.
 *
 * An event counts as read when the loop asks for the next one, so its body has run. Brokers are told only of what was
 * read. Until then they keep it, and they send only so many events ahead: a slow loop fills no memory here.
 */

import type { GodwitError } from "./errors.js";

/** What one subscription gives: read it with `for await`. A loop that is left unsubscribes. */
export interface Subscription<T> extends AsyncIterableIterator<T, undefined> {
  readonly name: string;
  /** Resolves when a broker has accepted the subscription; rejects with `Refused` when it does not. */
  readonly accepted: Promise<void>;
  /** Want something else from now on, with no gap and no double. If it is refused, all stays as it was. */
  replace(filter: string | object): Promise<void>;
  /** Want nothing more. Events that were not read are gone, and the loop ends. */
  unsubscribe(): Promise<void>;
}

/** Stands for the number of a delivery of a session that is over. */
export const FORMER = -1;

export type Reader = ReturnType<typeof makeReader>;

/** What has come for one subscription. `onRead` is called with the number of each delivery that was read. */
export function makeReader(onRead: (number: number) => void) {
  type Waiting = { resolve(result: IteratorResult<unknown, undefined>): void; reject(error: GodwitError): void };
  let items: { item: unknown; number: number }[] = [];
  let taken: number[] = []; // the deliveries that the loop works on: one, unless it asks for several at once
  let fault: GodwitError | undefined;
  let isOver = false;
  const waiting: Waiting[] = [];

  const read = (number: number | undefined): void => {
    if (number) onRead(number);
  };

  function serve(): void {
    while (waiting.length && (items.length || isOver)) {
      const { resolve, reject } = waiting.shift()!;
      const first = items.shift();
      if (first) {
        taken.push(first.number);
        resolve({ value: first.item, done: false });
      } else if (fault) {
        reject(fault);
        fault = undefined;
      } else {
        resolve({ value: undefined, done: true });
      }
    }
  }

  return {
    next(): Promise<IteratorResult<unknown, undefined>> {
      read(taken.shift());
      return new Promise((resolve, reject) => {
        waiting.push({ resolve, reject });
        serve();
      });
    },

    /** An event has come, or a receipt, whose number is 0. */
    put(item: unknown, number: number): void {
      items.push({ item, number });
      serve();
    },

    /** No more will come. What has come can be read first; then the error is thrown. */
    end(error?: GodwitError): void {
      isOver = true;
      fault = error;
      serve();
    },

    /** Forget what was not read. */
    discard(): void {
      [...taken.splice(0), ...items.splice(0).map(({ number }) => number)].forEach(read);
    },

    /** The session is another: the numbers of what waits mean nothing any more. */
    disown(): void {
      taken = taken.map((number) => number && FORMER);
      items = items.map(({ item, number }) => ({ item, number: number && FORMER }));
    },
  };
}

/** Up to which delivery of the session everything was read. */
export function makeUnread() {
  let count = 0;
  let former = 0; // of a session that is over: while there are any, an event sent again may be one of them
  let upTo = 0;
  const left = new Map<number, number>(); // by delivery, how many subscriptions have not read it

  function advance(): void {
    for (const [number, unread] of left) {
      if (former || unread) return;
      upTo = number;
      left.delete(number);
    }
  }

  return {
    upTo: () => upTo,

    /** A delivery has come, for so many subscriptions: none, if its event had come before. */
    came(number: number, subscriptions: number): void {
      if (number <= upTo || left.has(number)) return;
      count += subscriptions;
      left.set(number, subscriptions);
      advance();
    },

    read(number: number): void {
      count--;
      if (left.has(number)) left.set(number, left.get(number)! - 1);
      else former--;
      advance();
    },

    /** An event of no delivery of this session was handed to a subscription. */
    claimed(): void {
      count++;
      former++;
    },

    /** The session is another: its numbers begin again. */
    startOver(): void {
      left.clear();
      upTo = 0;
      former = count;
    },
  };
}
