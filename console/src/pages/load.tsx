// Throughput, latency, CPU and memory of every shard, live from the metrics.
import { has, metricsError, quantile, shots, total, type Families, type Shot } from "../api/metrics";
import { count, duration, percent, short, size } from "../format";
import { Badge, Empty, Loading, Panel } from "../parts/basics";
import { Chart, type Line } from "../parts/chart";
import { labelsOf, rates, valueOf } from "../parts/series";
import { useCell } from "../state/cell";
import { Page } from "./shell";

export function Load() {
  const found = useCell(shots);
  const failed = useCell(metricsError);
  const last = found.at(-1)?.families;
  const shards = labelsOf(last, "borzoi_shard_up", "shard");
  const times = found.map((shot) => shot.at);
  const perShard = (name: string, scale = 1): Line[] =>
    shards.map((shard) => ({ name: `shard ${shard}`, values: scaled(rates(found, (families) => valueOf(families, name, { shard })), scale) }));
  const latency = has(last, /^borzoi_request_duration\w*_bucket$/)?.replace(/_bucket$/, "");
  return (
    <Page title="Load" note="Per shard, every 2 s, for as long as this page is open.">
      {failed && <Empty title="The metrics cannot be read.">This page is made from them: {failed} (http.metrics.enabled)</Empty>}
      {!last && !failed && <Loading />}
      {last && (
        <div class="charts">
          <Panel><Chart label="Messages appended per second" times={times} lines={[{ name: "all", values: above(rates(found, (families) => total(families, "messages"))) }]} format={short} least={10} /></Panel>
          <Panel><Chart label="CPU per shard" times={times} lines={perShard("borzoi_shard_cpu_seconds_total")} format={(value) => percent(value)} least={0.1} /></Panel>
          {FLOWS.filter(([name]) => last.has(name)).map(([name, label, unit]) => (
            <Panel key={name}><Chart label={label} times={times} lines={perShard(name)} format={unit === "B" ? perSecond : short} least={unit === "B" ? 1024 : 10} /></Panel>
          ))}
          {latency ? (
            <Panel><Chart label="Latency of requests: median, 99 and 99.9 %" times={times} lines={latencies(found, latency)} format={(value) => duration(value * 1e6)} least={0.0001} /></Panel>
          ) : (
            <Panel title="Latency"><p class="hint">This broker has no histogram of latencies in its metrics.</p></Panel>
          )}
          {latency && (
            <Panel><Chart label="99 % of requests per shard" times={times} lines={shards.map((shard) => ({ name: `shard ${shard}`, values: between(found, (before, after) => quantile(before, after, latency, 0.99, shard)) }))} format={(value) => duration(value * 1e6)} least={0.0001} /></Panel>
          )}
          {last.has(`${LOOP}_bucket`) && (
            <Panel><Chart label="Lag of the event loop: 99 % per shard" times={times} lines={shards.map((shard) => ({ name: `shard ${shard}`, values: between(found, (before, after) => quantile(before, after, LOOP, 0.99, shard)) }))} format={(value) => duration(value * 1e6)} least={0.0001} /></Panel>
          )}
          {latency && <Panel><Chart label="Requests per second and shard" times={times} lines={perShard(`${latency}_count`)} format={short} least={10} /></Panel>}
          <Panel><Chart label="Connections" times={times} lines={shards.map((shard) => ({ name: `shard ${shard}`, values: found.map((shot) => valueOf(shot.families, "borzoi_shard_connections", { shard })) }))} format={count} least={4} /></Panel>
        </div>
      )}
      {last && <Shards families={last} shards={shards} />}
    </Page>
  );
}

const LOOP = "borzoi_loop_lag_seconds";
const FLOWS: readonly (readonly [string, string, "B" | "messages"])[] = [
  ["borzoi_log_written_messages_total", "Messages written per second and shard", "messages"],
  ["borzoi_polled_messages_total", "Messages polled per second and shard", "messages"],
  ["borzoi_log_written_bytes_total", "Bytes written per second and shard", "B"],
  ["borzoi_polled_bytes_total", "Bytes polled per second and shard", "B"],
  ["borzoi_request_bytes_total", "Bytes of requests per second and shard", "B"],
];
const perSecond = (value: number) => `${size(Math.round(value))}/s`;

const scaled = (values: (number | null)[], scale: number) => values.map((value) => (value === null || value < 0 ? null : value * scale));
const above = (values: (number | null)[]) => values.map((value) => (value === null ? null : Math.max(0, value)));

function between(found: Shot[], read: (before: Families, after: Families) => number | null): (number | null)[] {
  return found.map((shot, index) => {
    const before = found[index - 1];
    return before ? read(before.families, shot.families) : null;
  });
}

const latencies = (found: Shot[], name: string): Line[] =>
  ([["median", 0.5], ["99 %", 0.99], ["99.9 %", 0.999]] as const).map(([label, share]) => ({
    name: label,
    values: between(found, (before, after) => quantile(before, after, name, share)),
  }));

function Shards(props: { families: Families; shards: string[] }) {
  const { families } = props;
  const one = (name: string, shard: string, more: Record<string, string> = {}) => valueOf(families, name, { shard, ...more }) ?? 0;
  return (
    <Panel title="Shards" flush>
      <table class="plain">
        <thead><tr><th>Shard</th><th>State</th><th class="number">Connections</th><th class="number">CPU time</th><th class="number">Memory</th><th class="number wide-only">HTTP requests</th><th class="number wide-only">Restarts</th></tr></thead>
        <tbody>
          {props.shards.map((shard) => (
            <tr key={shard}>
              <td>{shard}</td>
              <td>{one("borzoi_shard_up", shard) ? <Badge tone="good">up</Badge> : <Badge tone="bad">no figures</Badge>}</td>
              <td class="number">{count(one("borzoi_shard_connections", shard))}</td>
              <td class="number">{duration(one("borzoi_shard_cpu_seconds_total", shard) * 1e6)}</td>
              <td class="number">{size(one("borzoi_shard_resident_memory_bytes", shard))}</td>
              <td class="number wide-only">{count(one("http_requests_total", shard))}</td>
              <td class="number wide-only">{count(one("borzoi_shard_restarts_total", shard))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}
