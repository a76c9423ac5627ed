// Reports of the load generator, if the broker is shown where they lie.
import { getJson } from "../api/client";
import type { Server } from "../api/types";
import { count, day, short } from "../format";
import { Empty, Loading, Problem } from "../parts/basics";
import { Rows, type Column } from "../parts/rows";
import { usePolled } from "../state/polled";
import { Page } from "./shell";

interface Report {
  name: string;
  at: number; // microseconds since 1970
  kind: string;
  messages_per_second: number;
  megabytes_per_second: number;
  p50_ms: number;
  p99_ms: number;
}

export function Bench() {
  const reports = usePolled((signal) => getJson<Report[]>("/reports", { signal }), [], { everyMs: 30_000 });
  const server = usePolled((signal) => getJson<Server>("/server", { signal }), [], { once: true });
  const isOff = reports.data?.length === 0 && server.data?.settings.find((one) => one.key === "console.reports")?.value === "";
  return (
    <Page title="Bench reports" fill note="Runs of borzoi bench, the newest first.">
      <Problem error={reports.error} />
      {!reports.data && !reports.error && <Loading />}
      {reports.data?.length === 0 && (
        <Empty title={isOff ? "The broker does not know where reports lie." : "There is no report yet."} command={isOff ? "IGGY_CONSOLE_REPORTS=performance_results ./borzoi serve" : "./borzoi bench pinned-producer tcp output"}>
          {isOff ? "Name the directory when the broker starts:" : "A run writes one:"}
        </Empty>
      )}
      {reports.data && reports.data.length > 0 && <Rows label="Bench reports" columns={COLUMNS} rows={reports.data} keyOf={(one) => one.name} />}
    </Page>
  );
}

const COLUMNS: readonly Column<Report>[] = [
  { name: "Run", width: "minmax(9rem, 3fr)", show: (one) => one.name },
  { name: "Kind", width: "minmax(7rem, 1.5fr)", show: (one) => one.kind, wideOnly: true },
  { name: "When", width: "minmax(9rem, 1fr)", show: (one) => day(one.at), number: true, wideOnly: true },
  { name: "Messages/s", width: "minmax(6rem, 1fr)", show: (one) => short(one.messages_per_second), number: true },
  { name: "MB/s", width: "minmax(4rem, .7fr)", show: (one) => count(one.megabytes_per_second), number: true },
  { name: "p50", width: "minmax(5rem, .7fr)", show: (one) => `${one.p50_ms.toFixed(2)} ms`, number: true, wideOnly: true },
  { name: "p99", width: "minmax(5rem, .7fr)", show: (one) => `${one.p99_ms.toFixed(2)} ms`, number: true },
];
