/**
 * One WebSocket to a broker: opened, kept alive, given up when the broker is silent.
 *
 * The client sends `Intro` again every few seconds, and a broker that is there answers. Counted is how long an `Intro`
 * waits for its answer, not how long nothing came: browsers slow down the timers of hidden pages.
 */

import type { FromBroker, ToBroker } from "./messages.js";
import { written } from "./values.js";

const DIAL_MS = 5_000;
const BEAT_MS = 5_000;
const CLOSE_MS = 1_000;
const TOO_LARGE = 1009; // a close code
const OPEN = 1; // a state of a socket

export type SocketClass = new (url: string) => WebSocket;

export interface ConnectionOwner {
  onOpened(): void;
  /** An error thrown here closes the connection. */
  onMessage(message: FromBroker): void;
  /** Called once: the connection is over, or was never made. */
  onLost(reason: string, isTooLarge: boolean): void;
}

export type Connection = ReturnType<typeof makeConnection>;

export function makeConnection(url: string, Socket: SocketClass, silenceMs: number, owner: ConnectionOwner) {
  let askedAt = 0; // since when an answer is awaited; 0: none is
  let reason = `cannot connect to ${url}`;
  let isLost = false;
  const socket = new Socket(url);
  const closed = new Promise<void>((resolve) => {
    socket.onclose = (event) => {
      lose(event.reason || reason, event.code === TOO_LARGE);
      resolve();
    };
  });
  let timer = setTimeout(() => lose(`${url} does not answer`), DIAL_MS);

  socket.onopen = () => {
    if (isLost) return;
    clearTimeout(timer);
    timer = setInterval(beat, Math.min(BEAT_MS, silenceMs / 2));
    reason = "the connection was lost";
    owner.onOpened();
  };

  socket.onmessage = ({ data }) => {
    if (isLost) return;
    askedAt = 0;
    try {
      const message: FromBroker = JSON.parse(data);
      if (message.type === "Bye") reason = message.reason;
      owner.onMessage(message);
    } catch (error) {
      lose(`a bad message of the broker: ${(error as Error).message}`);
    }
  };

  socket.onerror = () => {}; // onclose follows

  function send(message: ToBroker): void {
    if (socket.readyState === OPEN) socket.send(written(message));
  }

  function beat(): void {
    const now = Date.now();
    if (askedAt && now - askedAt > silenceMs) return lose("the broker is silent");
    askedAt ||= now;
    send({ type: "Intro" });
  }

  /** Give it up, for this reason. What was sent before is still sent. */
  function lose(because: string, isTooLarge = false): void {
    if (isLost) return;
    isLost = true;
    clearTimeout(timer); // of either kind
    socket.close();
    owner.onLost(because, isTooLarge);
  }

  return {
    send,
    lose,

    /** Close it, and wait for that, but not for long. */
    close(): Promise<unknown> {
      lose("the client was closed");
      return Promise.race([closed, new Promise((resolve) => setTimeout(resolve, CLOSE_MS))]);
    },
  };
}
