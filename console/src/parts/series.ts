// From counters at points in time to what charts show.
import type { Families, Shot } from "../api/metrics";

/** What was added per second between each shot and the one before; null where nothing can be said. */
export function rates(shots: Shot[], read: (families: Families) => number | null): (number | null)[] {
  return shots.map((shot, index) => {
    const before = shots[index - 1];
    if (!before) return null;
    const [now, then] = [read(shot.families), read(before.families)];
    const seconds = shot.at - before.at;
    return now === null || then === null || seconds <= 0 || seconds > 30 ? null : (now - then) / seconds;
  });
}

/** The values of one label in a family, in order. */
export function labelsOf(families: Families | undefined, name: string, label: string): string[] {
  const found = new Set((families?.get(name) ?? []).map((one) => one.labels[label] ?? ""));
  return [...found].sort((a, b) => Number(a) - Number(b) || a.localeCompare(b));
}

export function valueOf(families: Families, name: string, labels: Record<string, string>): number | null {
  let sum: number | null = null;
  for (const one of families.get(name) ?? []) {
    if (Object.entries(labels).every(([label, value]) => one.labels[label] === value)) sum = (sum ?? 0) + one.value;
  }
  return sum;
}
