// The broker at a glance: what it holds, how it is, what deserves a look.
import { getJson } from "../api/client";
import { shots, total } from "../api/metrics";
import type { Server, Stats, Stream } from "../api/types";
import { Badge, Command, Empty, Facts, Figure, Loading, Meter, Panel, Problem } from "../parts/basics";
import { Chart } from "../parts/chart";
import { Durability, Warnings } from "../parts/health";
import { count, duration, parseSize, percent, plural, short, size } from "../format";
import { useCell } from "../state/cell";
import { usePolled } from "../state/polled";
import { rates } from "../parts/series";
import { Page } from "./shell";

export function Overview() {
  const stats = usePolled((signal) => getJson<Stats>("/stats", { signal }), []);
  const server = usePolled((signal) => getJson<Server>("/server", { signal }), [], { everyMs: 60_000 });
  const streams = usePolled((signal) => getJson<Stream[]>("/streams", { signal }), []);
  const found = stats.data;
  return (
    <Page
      title="Overview"
      note={found && <>{found.hostname} · borzoi {server.data?.version ?? ""} · up {duration(found.run_time)}</>}
      actions={server.data && <Durability mode={server.data.durability} />}
    >
      <Problem error={stats.error} />
      {!found && !stats.error && <Loading />}
      <Warnings server={server.data} stats={found} />
      {found && (
        <>
          <dl class="figures">
            <Figure label="Messages" value={count(found.messages_count)} note={<Rate />} />
            <Figure label="Size" value={size(parseSize(found.messages_size_bytes))} note={plural(found.segments_count, "segment")} />
            <Figure label="Streams" value={count(found.streams_count)} href="#/streams" note={plural(found.topics_count, "topic")} />
            <Figure label="Partitions" value={count(found.partitions_count)} note={plural(found.consumer_groups_count, "consumer group")} />
            <Figure label="Clients" value={count(found.clients_count)} href="#/clients" note={plural(found.threads_count, "thread")} />
          </dl>
          <div class="columns">
            <Traffic />
            <Host stats={found} />
          </div>
        </>
      )}
      {streams.data && streams.data.length === 0 && <FirstSteps />}
      {streams.data && streams.data.length > 0 && <Largest streams={streams.data} />}
    </Page>
  );
}

function Rate() {
  const found = useCell(shots);
  const last = rates(found, (families) => total(families, "messages")).at(-1);
  return <>{last === undefined || last === null ? "measuring" : `${short(Math.max(0, last))} per second`}</>;
}

function Traffic() {
  const found = useCell(shots);
  const times = found.map((shot) => shot.at);
  const lines = [{ name: "messages/s", values: rates(found, (families) => total(families, "messages")).map((value) => (value === null ? null : Math.max(0, value))) }];
  return (
    <Panel title="Messages appended" actions={<a href="#/load">All of the load</a>}>
      <Chart label="Messages appended per second" times={times} lines={lines} format={short} height={210} least={10} />
    </Panel>
  );
}

function Host(props: { stats: Stats }) {
  const { stats } = props;
  const disk = parseSize(stats.total_disk_space);
  const free = parseSize(stats.free_disk_space);
  const memory = parseSize(stats.total_memory);
  const available = parseSize(stats.available_memory);
  const used = disk ? 1 - free / disk : 0;
  return (
    <Panel title="Host">
      <Facts
        rows={[
          ["CPU", <span class="with-meter">{stats.total_cpu_usage.toFixed(0)} %, of it the broker {stats.cpu_usage.toFixed(0)} %<Meter share={stats.total_cpu_usage / 100} label="CPU of the host" /></span>],
          ["Memory", <span class="with-meter">{size(available)} free of {size(memory)}, the broker has {size(parseSize(stats.memory_usage))}<Meter share={memory ? 1 - available / memory : 0} label="Memory of the host" /></span>],
          ["Disk", <span class="with-meter">{size(free)} free of {size(disk)}, {percent(used)} used<Meter share={used} label="Disk of the data" tone={used > 0.97 ? "bad" : used > 0.9 ? "warn" : "calm"} /></span>],
          ["I/O since start", <>{size(parseSize(stats.read_bytes))} read, {size(parseSize(stats.written_bytes))} written</>],
          ["System", stats.os_version || stats.os_name],
          ["Kernel", <>{stats.kernel_version}, process {stats.process_id}</>],
        ]}
      />
    </Panel>
  );
}

const LARGEST = 8;

function Largest(props: { streams: Stream[] }) {
  const largest = [...props.streams].sort((a, b) => parseSize(b.size) - parseSize(a.size)).slice(0, LARGEST);
  const top = Math.max(1, ...largest.map((stream) => parseSize(stream.size)));
  return (
    <Panel title="Largest streams" actions={<a href="#/streams">All {count(props.streams.length)}</a>} flush>
      <table class="plain">
        <thead><tr><th>Stream</th><th class="number">Topics</th><th class="number">Messages</th><th class="number">Size</th><th class="wide-only"><span class="visually-hidden">Share of the largest</span></th></tr></thead>
        <tbody>
          {largest.map((stream) => (
            <tr key={stream.id}>
              <td><a href={`#/streams/${stream.id}`}>{stream.name}</a></td>
              <td class="number">{count(stream.topics_count)}</td>
              <td class="number">{count(stream.messages_count)}</td>
              <td class="number">{size(parseSize(stream.size))}</td>
              <td class="wide-only"><Meter share={parseSize(stream.size) / top} label={`Share of ${stream.name}`} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

function FirstSteps() {
  return (
    <Panel title={<>First steps <Badge>nothing is stored yet</Badge></>}>
      <Empty title="Create a stream, a topic, and send the first messages.">
        On the page <a href="#/streams">Streams</a>, or in a terminal beside the broker:
      </Empty>
      <Command text="./borzoi stream create orders && ./borzoi topic create orders events 4" />
      <Command text="./borzoi message send orders events hello world" />
      <Command text="./borzoi tail -f orders/events" />
    </Panel>
  );
}
