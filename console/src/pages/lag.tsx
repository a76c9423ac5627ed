// All consumers and groups that have committed something, the one with most lag first.
import { useMemo } from "preact/hooks";
import { ApiError, getJson } from "../api/client";
import { metricsError, shots, type Families } from "../api/metrics";
import type { ConsumerName, Group, Stream, Topic } from "../api/types";
import { count, plural, short } from "../format";
import { Badge, Empty, Loading, Search } from "../parts/basics";
import { Chart } from "../parts/chart";
import { Rows, type Column } from "../parts/rows";
import { useCell } from "../state/cell";
import { usePolled } from "../state/polled";
import { setQuery, useRoute } from "../state/route";
import { Page } from "./shell";

interface Reader {
  key: string;
  stream: string;
  streamName: string;
  topic: string;
  topicName: string;
  kind: string;
  consumer: string;
  name: string;
  partitions: number;
  lag: number;
}

export function Lag() {
  const found = useCell(shots);
  const failed = useCell(metricsError);
  const filter = useRoute().query.get("filter") ?? "";
  const streams = usePolled((signal) => getJson<Stream[]>("/streams", { signal }), [], { everyMs: 30_000 });
  const last = found.at(-1)?.families;
  const bare = useMemo(() => readersOf(last, streams.data ?? []), [last, streams.data]);
  const names = useNames(bare);
  const all = useMemo(() => bare.map((one) => ({ ...one, topicName: names.get(topicKey(one)) ?? one.topicName, name: names.get(one.key) ?? one.name })), [bare, names]);
  const text = filter.toLowerCase();
  const rows = all.filter((one) => `${one.streamName} ${one.topicName} ${one.name}`.toLowerCase().includes(text));
  const largest = rows.slice(0, 6);
  const lines = largest.map((one) => ({ name: `${one.streamName}/${one.topicName} ${one.name}`, values: found.map((shot) => lagIn(shot.families, one)) }));
  return (
    <Page title="Consumer lag" fill note="Messages behind the committed offset, of every consumer and group that has committed one.">
      {failed && <Empty title="The metrics cannot be read.">This page is made from them: {failed} (http.metrics.enabled)</Empty>}
      {!last && !failed && <Loading />}
      {last && all.length === 0 && (
        <Empty title="No consumer has committed an offset yet." command="./borzoi message poll STREAM TOPIC 0 --consumer billing --auto-commit">
          A reader that commits is seen here, with its lag over time. For example:
        </Empty>
      )}
      {all.length > 0 && (
        <>
          <Chart label={`Lag over time, messages (${plural(largest.length, "reader")} with most)`} times={found.map((shot) => shot.at)} lines={lines} format={short} height={180} least={10} />
          <div class="tools"><Search label="Filter" value={filter} onText={(typed) => setQuery({ filter: typed || null })} /></div>
          <Rows label="Consumers and their lag" columns={COLUMNS} rows={rows} keyOf={(one) => one.key} href={(one) => `#/streams/${one.stream}/topics/${one.topic}/groups${one.kind === "group" ? `?group=${one.consumer}` : ""}`} />
        </>
      )}
    </Page>
  );
}

const NAMED_MAX = 40;
const topicKey = (one: Reader): string => `${one.stream}/${one.topic}`;

/** What single consumers call themselves; nothing where the user may not read the server. */
async function singles(signal: AbortSignal): Promise<ConsumerName[]> {
  try {
    return await getJson<ConsumerName[]>("/consumer-names", { signal });
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return [];
    throw error;
  }
}

/** Metrics have ids alone where metrics.names is off; the names of the first topics are asked for. */
function useNames(readers: Reader[]): Map<string, string> {
  const places = [...new Set(readers.map(topicKey))].slice(0, NAMED_MAX);
  const found = usePolled(
    async (signal) => {
      const names = new Map<string, string>();
      for (const one of await singles(signal)) for (const place of places) names.set(`${place}/consumer/${one.consumer}`, one.name);
      for (const place of places) {
        const [stream, topic] = place.split("/");
        const path = `/streams/${stream}/topics/${topic}`;
        names.set(place, (await getJson<Topic>(path, { signal })).name);
        for (const group of await getJson<Group[]>(`${path}/consumer-groups`, { signal })) names.set(`${place}/group/${group.id}`, group.name);
      }
      return names;
    },
    [places.join(" ")],
    { everyMs: 30_000 },
  );
  return found.data ?? new Map<string, string>();
}

const COLUMNS: readonly Column<Reader>[] = [
  { name: "Reader", width: "minmax(8rem, 2fr)", show: (one) => one.name },
  { name: "Kind", width: "minmax(5rem, .6fr)", show: (one) => <Badge>{one.kind}</Badge>, wideOnly: true },
  { name: "Stream", width: "minmax(6rem, 1.5fr)", show: (one) => one.streamName, wideOnly: true },
  { name: "Topic", width: "minmax(6rem, 1.5fr)", show: (one) => one.topicName },
  { name: "Partitions", width: "minmax(5rem, .7fr)", show: (one) => count(one.partitions), number: true, wideOnly: true },
  { name: "Lag", width: "minmax(5rem, 1fr)", show: (one) => <span class={one.lag ? "lagging" : ""}>{count(one.lag)}</span>, number: true },
];

function readersOf(families: Families | undefined, streams: Stream[]): Reader[] {
  const names = new Map(streams.map((one) => [String(one.id), one.name]));
  const found = new Map<string, Reader>();
  for (const { labels, value } of families?.get("borzoi_consumer_lag_messages") ?? []) {
    const { stream = "", topic = "", kind = "", consumer = "" } = labels;
    const key = [stream, topic, kind, consumer].join("/");
    const one = found.get(key) ?? {
      key, stream, topic, kind, consumer,
      streamName: labels.stream_name || names.get(stream) || `stream ${stream}`,
      topicName: labels.topic_name || `topic ${topic}`,
      name: labels.consumer_name || `${kind} ${consumer}`,
      partitions: 0,
      lag: 0,
    };
    one.partitions += 1;
    one.lag += value;
    found.set(key, one);
  }
  return [...found.values()].sort((a, b) => b.lag - a.lag);
}

function lagIn(families: Families, reader: Reader): number | null {
  let sum: number | null = null;
  for (const { labels, value } of families.get("borzoi_consumer_lag_messages") ?? []) {
    if (labels.stream === reader.stream && labels.topic === reader.topic && labels.kind === reader.kind && labels.consumer === reader.consumer) sum = (sum ?? 0) + value;
  }
  return sum;
}
