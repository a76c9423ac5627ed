// How the broker is set up: durability, warnings, what holds up retention, doors, every setting.
import { useMemo, useState } from "preact/hooks";
import { ask, getJson } from "../api/client";
import { shots } from "../api/metrics";
import type { Server as Facts_, SettingValue, Stats } from "../api/types";
import { count, duration } from "../format";
import { Badge, Button, Check, Facts, Loading, Panel, Problem, Search } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { blockersOf, DURABILITY, Warnings } from "../parts/health";
import { download } from "../parts/message";
import { Rows, type Column } from "../parts/rows";
import { useCell } from "../state/cell";
import { usePolled } from "../state/polled";
import { setQuery, useRoute } from "../state/route";
import { Page } from "./shell";

const UNREAD: Record<string, string> = {
  always: "Nothing is deleted that a consumer with a committed offset has not read.",
  until_full: "What is unread stays until its topic is full.",
  bounded: "What is unread stays until its topic is full, and past its expiry for a while.",
  never: "Retention deletes what is old or too much, read or not.",
};

type Setting = Facts_["settings"][number];

export function Server() {
  const server = usePolled((signal) => getJson<Facts_>("/server", { signal }), [], { everyMs: 30_000 });
  const stats = usePolled((signal) => getJson<Stats>("/stats", { signal }), []);
  const { query } = useRoute();
  const filter = query.get("filter") ?? "";
  const onlyChanged = query.get("changed") === "1";
  const [snapshot, setSnapshot] = useState(false);
  const families = useCell(shots).at(-1)?.families;
  const blockers = blockersOf(families);
  const found = server.data;
  const rows = useMemo(() => {
    const text = filter.toLowerCase();
    return (found?.settings ?? []).filter((one) => (!onlyChanged || one.is_changed) && `${one.key} ${said(one.value)}`.toLowerCase().includes(text));
  }, [found, filter, onlyChanged]);
  return (
    <Page title="Server" note={found && <>borzoi {found.version} · {found.data}</>} actions={<Button icon="download" onClick={() => setSnapshot(true)}>Snapshot</Button>}>
      <Problem error={server.error} />
      {!found && !server.error && <Loading />}
      <Warnings server={found} stats={stats.data} />
      {found && (
        <div class="columns even">
          <Panel title={<>Durability <Badge tone={found.durability === "buffered" ? "warn" : "good"}>{found.durability}</Badge></>}>
            <p>{DURABILITY[found.durability]}</p>
            <p class="hint">system.partition.durability</p>
          </Panel>
          <Panel title={<>Unread messages <Badge>{found.protect_unread}</Badge></>}>
            <p>{UNREAD[found.protect_unread]}</p>
            <p class="hint">system.segment.protect_unread</p>
          </Panel>
          <Panel title="Doors">
            <Facts rows={[...Object.entries(found.doors).map(([door, address]) => [door, <span class="mono">{address}</span>] as [string, preact.JSX.Element]), ["loops", <>{found.loops}</>]]} />
          </Panel>
          <Panel title={<>What holds up retention <Badge tone={blockers.length ? "warn" : "good"}>{count(blockers.length)}</Badge></>} flush={blockers.length > 0}>
            {blockers.length === 0 ? (
              <p class="hint">Nothing: no segment is due and unread.</p>
            ) : (
              <table class="plain">
                <thead><tr><th>Reader</th><th>Place</th><th class="number">For</th></tr></thead>
                <tbody>
                  {blockers.slice(0, 50).map((one) => (
                    <tr key={one.key}>
                      <td>{one.kind} {one.consumer}</td>
                      <td><a href={`#/streams/${one.stream}/topics/${one.topic}/groups`}>stream {one.stream}, topic {one.topic}, partition {one.partition}</a></td>
                      <td class="number">{duration(Math.max(0, Date.now() / 1000 - one.since) * 1e6)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )}
          </Panel>
        </div>
      )}
      {found && (
        <Panel title="Settings" actions={<Check label="Only what differs from the default" checked={onlyChanged} onChange={(checked) => setQuery({ changed: checked ? 1 : null })} />}>
          <div class="tools"><Search label="Filter settings" value={filter} onText={(text) => setQuery({ filter: text || null })} /></div>
          <Rows label="Settings" columns={COLUMNS} rows={rows} keyOf={(one) => one.key} height="content" />
        </Panel>
      )}
      {snapshot && (
        <FormDialog title="Snapshot" action="Download snapshot" onClose={() => setSnapshot(false)}
          onSubmit={async () => {
            const response = await ask("POST", "/snapshot", { body: { compression: "Deflated", snapshot_types: ["All"] }, accept: "application/zip" });
            const name = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition") ?? "")?.[1] ?? "snapshot.zip";
            download(await response.blob(), name);
          }}>
          <p>An archive that describes the broker and its machine: files, processes, load, logs, configuration. Secrets are left out. It takes some seconds.</p>
        </FormDialog>
      )}
    </Page>
  );
}

const COLUMNS: readonly Column<Setting>[] = [
  { name: "Setting", width: "minmax(12rem, 2fr)", show: (one) => <span class={`mono ${one.is_changed ? "changed" : ""}`}>{one.key}</span> },
  { name: "Value", width: "minmax(7rem, 1.2fr)", show: (one) => <span class="mono">{said(one.value)}</span> },
  { name: "Default", width: "minmax(7rem, 1.2fr)", show: (one) => <span class="mono dim">{one.is_changed ? said(one.default) : "same"}</span>, wideOnly: true },
];

function said(value: SettingValue): string {
  if (Array.isArray(value)) return `[${value.join(", ")}]`;
  return value === "" ? '""' : String(value);
}
