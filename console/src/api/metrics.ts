// The broker's metrics: read from their text, and kept for some minutes as the page stays open.
import { Cell } from "../state/cell";
import { ask, session } from "./client";

export interface Sample {
  labels: Record<string, string>;
  value: number;
}

export type Families = Map<string, Sample[]>;

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

export function parseMetrics(text: string): Families {
  const found: Families = new Map();
  for (const line of text.split("\n")) {
    if (!line || line.startsWith("#")) continue;
    const match = LINE.exec(line);
    if (!match) continue;
    const labels: Record<string, string> = {};
    for (const [, name, value] of (match[2] ?? "").matchAll(LABEL)) {
      if (name) labels[name] = (value ?? "").replace(/\\(.)/g, (_, one: string) => (one === "n" ? "\n" : one));
    }
    const name = match[1] ?? "";
    const rows = found.get(name);
    const sample = { labels, value: Number(match[3] === "+Inf" ? Infinity : match[3]) };
    if (rows) rows.push(sample);
    else found.set(name, [sample]);
  }
  return found;
}

export interface Shot {
  at: number; // seconds since 1970
  families: Families;
}

const SHOTS_MAX = 450;
const EVERY_MS = 2000;
const REST = 4; // times as long as an answer took
const REST_MAX_MS = 25_000;

export const shots = new Cell<Shot[]>([]);
export const metricsError = new Cell<string>("");

const KEPT = /^(borzoi_(shard|request|log_written|polled|consumer_lag|loop_lag)|messages|clients|http_requests)/;

/** Of older shots only what charts show is kept. */
function thinned(families: Families): Families {
  return new Map([...families].filter(([name, rows]) => KEPT.test(name) && rows.length <= 2000));
}

export function startMetrics(): void {
  let isAsking = false;
  let restsUntil = 0;
  const turn = async (): Promise<void> => {
    if (!session.value || document.hidden || isAsking || performance.now() < restsUntil) return;
    isAsking = true;
    const begun = performance.now();
    try {
      const response = await ask("GET", "/metrics", { accept: "text/plain, */*" });
      const families = parseMetrics(await response.text());
      const before = shots.value.slice(-SHOTS_MAX + 1);
      const last = before.pop();
      if (last) before.push({ at: last.at, families: thinned(last.families) });
      shots.value = [...before, { at: Date.now() / 1000, families }];
      metricsError.value = "";
    } catch (error) {
      metricsError.value = (error as Error).message;
    } finally {
      isAsking = false;
      // A broker with very many topics works for them: it is asked less often.
      restsUntil = performance.now() + Math.min(REST_MAX_MS, REST * (performance.now() - begun));
    }
  };
  session.watch((now) => {
    if (!now) shots.value = [];
    restsUntil = 0;
    void turn();
  });
  void turn();
  window.setInterval(() => void turn(), EVERY_MS);
}

export const total = (families: Families | undefined, name: string): number =>
  (families?.get(name) ?? []).reduce((sum, one) => sum + one.value, 0);

export const has = (families: Families | undefined, pattern: RegExp): string | undefined =>
  [...(families?.keys() ?? [])].find((name) => pattern.test(name));

/** The value at which a share of the observations between two shots lies; seconds. */
export function quantile(before: Families, after: Families, name: string, share: number, shard?: string): number | null {
  const counts = new Map<number, number>();
  const add = (families: Families, sign: number) => {
    for (const one of families.get(`${name}_bucket`) ?? []) {
      if (shard !== undefined && one.labels.shard !== shard) continue;
      const bound = one.labels.le === "+Inf" ? Infinity : Number(one.labels.le);
      counts.set(bound, (counts.get(bound) ?? 0) + sign * one.value);
    }
  };
  add(after, 1);
  add(before, -1);
  const bounds = [...counts.keys()].sort((a, b) => a - b);
  const all = counts.get(Infinity) ?? 0;
  if (all <= 0) return null;
  let low = 0;
  let below = 0;
  for (const bound of bounds) {
    const upTo = counts.get(bound) ?? 0;
    if (upTo >= share * all) {
      if (bound === Infinity) return low;
      const inside = upTo - below;
      return inside > 0 ? low + ((share * all - below) / inside) * (bound - low) : bound;
    }
    low = bound;
    below = upTo;
  }
  return low;
}
