// Figures that are asked for again and again while a page shows them.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError, isAbort } from "../api/client";
import { useCell } from "./cell";
import { intervalMs } from "./preferences";

export interface Polled<T> {
  data: T | undefined;
  error: Error | undefined;
  refresh: () => void;
}

const REST = 8; // times as long as an answer took
const HIDDEN_LOOK_MS = 1000;
const NEVER_AGAIN = new Set([403, 404]);

/** Asks at once, when `keys` change, and then in the chosen interval; rests while hidden. */
export function usePolled<T>(
  ask: (signal: AbortSignal) => Promise<T>,
  keys: readonly unknown[],
  options: { everyMs?: number; once?: boolean } = {},
): Polled<T> {
  const [state, setState] = useState<{ data?: T; error?: Error }>({});
  const [round, setRound] = useState(0);
  const chosen = useCell(intervalMs);
  const everyMs = options.everyMs ?? chosen;
  const latest = useRef(ask);
  latest.current = ask;
  useEffect(() => setState({}), keys);
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const again = (waitMs: number) => {
      timer = window.setTimeout(turn, waitMs);
    };
    const turn = async (): Promise<void> => {
      if (document.hidden) return again(HIDDEN_LOOK_MS);
      let wait = everyMs;
      const begun = performance.now();
      try {
        const data = await latest.current(stop.signal);
        if (stop.signal.aborted) return;
        setState({ data });
        wait = Math.max(wait, REST * (performance.now() - begun)); // Long lists are asked for less often.
      } catch (error) {
        if (isAbort(error) || stop.signal.aborted) return;
        setState((before) => ({ ...before, error: error as Error }));
        if (error instanceof ApiError && NEVER_AGAIN.has(error.status)) wait = Math.max(wait, 10_000);
      }
      if (!options.once) again(wait);
    };
    void turn();
    return () => {
      stop.abort();
      window.clearTimeout(timer);
    };
  }, [...keys, everyMs, round]);
  const refresh = useCallback(() => setRound((number) => number + 1), []);
  return { data: state.data, error: state.error, refresh };
}
