// What deserves a look: durability, warnings, what holds up retention, what is read-only.
import { shots, total } from "../api/metrics";
import type { Server, Stats } from "../api/types";
import { count, duration, parseSize, percent, plural } from "../format";
import { useCell } from "../state/cell";
import { Badge } from "./basics";
import { Icon } from "./icons";

export const DURABILITY: Record<string, string> = {
  buffered: "A send is answered when the batch is in memory. A crash loses the newest messages.",
  written: "A send is answered when the kernel has the bytes. A crash of the broker loses nothing; a power cut loses at most what came since the last sync.",
  fsync: "A send is answered when the disk has the bytes. Neither a crash nor a power cut loses anything.",
};

export function Durability(props: { mode: string }) {
  return (
    <a class="durability" href="#/server" title={DURABILITY[props.mode]}>
      <Badge tone={props.mode === "buffered" ? "warn" : "good"}>durability: {props.mode}</Badge>
    </a>
  );
}

export interface Blocker {
  key: string;
  stream: string;
  topic: string;
  partition: string;
  kind: string;
  consumer: string;
  since: number; // seconds since 1970
}

export function blockersOf(families: Map<string, { labels: Record<string, string>; value: number }[]> | undefined): Blocker[] {
  return (families?.get("borzoi_retention_blocked_since_seconds") ?? []).map(({ labels, value }) => ({
    key: JSON.stringify(labels),
    stream: labels.stream ?? "",
    topic: labels.topic ?? "",
    partition: labels.partition ?? "",
    kind: labels.kind ?? "",
    consumer: labels.consumer_name || labels.consumer || "",
    since: value,
  }));
}

export interface Warning {
  tone: "warn" | "bad";
  text: string;
  href?: string;
}

export function useWarnings(server: Server | undefined, stats: Stats | undefined): Warning[] {
  const families = useCell(shots).at(-1)?.families;
  const found: Warning[] = (server?.warnings ?? []).map((text) => ({ tone: "warn", text }));
  const add = (tone: "warn" | "bad", number: number, text: string, href?: string) => {
    if (number > 0) found.push({ tone, text, ...(href ? { href } : {}) });
  };
  add("bad", total(families, "borzoi_metadata_read_only"), "Streams, topics and users cannot be changed until a restart: the metadata log could not be written.", "#/logs?level=ERROR");
  const readOnly = total(families, "borzoi_partitions_read_only");
  add("bad", readOnly, `${plural(readOnly, "partition takes", "partitions take")} nothing until a restart, because a sync has failed.`, "#/logs?level=ERROR");
  const refused = total(families, "borzoi_partitions_refused");
  add("bad", refused, `${plural(refused, "partition is", "partitions are")} not served: files are missing or cannot be trusted. ./borzoi check DIRECTORY says more once the broker is stopped.`, "#/logs?level=ERROR");
  const down = (families?.get("borzoi_shard_up") ?? []).filter((one) => one.value === 0).length;
  add("bad", down, `${plural(down, "shard")} gave no figures.`, "#/load");
  const restarts = total(families, "borzoi_shard_restarts_total");
  add("warn", restarts, `${plural(restarts, "worker has", "workers have")} died and been replaced since the start.`, "#/logs?level=ERROR");
  const errors = total(families, "borzoi_write_errors_total");
  add("bad", errors, `${plural(errors, "write")} failed since the workers started.`, "#/logs?level=ERROR");
  const blockers = blockersOf(families);
  const longest = Math.max(0, ...blockers.map((one) => Date.now() / 1000 - one.since));
  add("warn", blockers.length, `${plural(blockers.length, "consumer holds", "consumers hold")} up retention, the longest for ${duration(longest * 1e6)}.`, "#/server");
  if (stats) {
    const free = parseSize(stats.free_disk_space) / Math.max(1, parseSize(stats.total_disk_space));
    if (free < 0.1) found.push({ tone: free < 0.03 ? "bad" : "warn", text: `The disk of the data has ${percent(free)} left.` });
  }
  return found;
}

export function Warnings(props: { server: Server | undefined; stats?: Stats | undefined }) {
  const found = useWarnings(props.server, props.stats);
  if (found.length === 0) return null;
  return (
    <ul class="warnings" aria-label={`${count(found.length)} warnings`}>
      {found.map((one) => (
        <li key={one.text} class={`notice ${one.tone}`}>
          <Icon name="warning" />
          <p>{one.text} {one.href && <a href={one.href}>Look</a>}</p>
        </li>
      ))}
    </ul>
  );
}
