/** Samples of every broker over time: asked for as they come, so that each travels once. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "./asking.js";

const REFRESH_MS = 2_000;
const KEPT = 10_000; // samples of each broker

/** All samples of every broker: what was answered last, and in `kept` the samples by broker. */
export function useSeries(path) {
  const [state, setState] = useState({ found: null, error: null });
  const since = useRef(0);
  useEffect(() => {
    let isOver = false;
    const kept = {};
    const look = async () => {
      if (document.hidden) return;
      try {
        const found = await ask(path, { since: Math.floor(since.current) });
        if (isOver) return;
        for (const [broker, answer] of Object.entries(found.answers)) {
          const before = kept[broker] ?? [];
          const last = before.at(-1)?.at ?? 0;
          const fresh = (answer?.samples ?? []).filter(({ at }) => at > last);
          kept[broker] = [...before, ...fresh].slice(-KEPT);
        }
        since.current = Math.max(0, Math.min(...Object.values(kept).map((rows) => rows.at(-1)?.at ?? 0)) - 1);
        setState({ found: { ...found, kept: { ...kept } }, error: null });
      } catch (error) {
        if (!isOver) setState((before) => ({ ...before, error }));
      }
    };
    look();
    const timer = setInterval(look, REFRESH_MS);
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, [path]);
  return state;
}
