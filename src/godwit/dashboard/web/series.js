/** Samples of every broker over time: asked for as they come, so that each travels once. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "./asking.js";

const REFRESH_MS = 2_000;
const FINE_S = 3_600; // of which every sample is kept
const COARSE_STEP_S = 30; // between samples of the rest of the day
const DAY_S = 86_400;
const AWAY_S = 15; // between two samples of the last hour: nobody has looked in between
const COARSE_AWAY_S = 100; // the same before it: an answer has at least every third sample

/** The samples of a day: all of the last hour, and before it one every half minute, as brokers keep them. */
export function ofADay(rows) {
  const now = rows.at(-1)?.at ?? 0;
  let last = -Infinity;
  return rows.filter(({ at }) => {
    if (at < now - DAY_S) return false;
    if (at < now - FINE_S && at - last < COARSE_STEP_S) return false;
    last = at;
    return true;
  });
}

/** Whether nobody has looked between two times; `last` is the time of the last sample of all. */
export function isPause(from, to, last) {
  return to - from > (from < last - FINE_S ? COARSE_AWAY_S : AWAY_S);
}

/** The data of a plot, with no value in each pause, so that no line is drawn through it. */
export function withPauses([times, ...lines]) {
  const last = times.at(-1);
  const shown = times.flatMap((at, place) => (place > 0 && isPause(times[place - 1], at, last) ? [null, place] : [place]));
  const at = shown.map((place, number) => (place === null ? times[shown[number + 1] - 1] + 1 : times[place]));
  return [at, ...lines.map((values) => shown.map((place) => (place === null ? null : values[place])))];
}

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
          kept[broker] = ofADay([...before, ...fresh]);
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
