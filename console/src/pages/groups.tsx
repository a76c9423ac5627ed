// Consumer groups of a topic: members, who has which partition, and lag over time.
import { useMemo, useState } from "preact/hooks";
import { ApiError, getJson, sendJson } from "../api/client";
import { shots } from "../api/metrics";
import type { CommittedOffset, Group, GroupDetails } from "../api/types";
import { count, plural, short, word } from "../format";
import { Badge, Button, Empty, Loading, Panel, Problem, TextField } from "../parts/basics";
import { Chart } from "../parts/chart";
import { ConfirmDialog, FormDialog } from "../parts/dialog";
import { Rows, type Column } from "../parts/rows";
import { useCell } from "../state/cell";
import { usePolled } from "../state/polled";
import { setQuery, useRoute } from "../state/route";
import type { TopicProps } from "./topic";

export function Groups(props: TopicProps) {
  const groups = usePolled((signal) => getJson<Group[]>(`${props.path}/consumer-groups`, { signal }), [props.path]);
  const chosen = useRoute().query.get("group");
  const [isNew, setIsNew] = useState(false);
  const [gone, setGone] = useState<Group | null>(null);
  const group = groups.data?.find((one) => String(one.id) === chosen) ?? groups.data?.[0];
  return (
    <>
      <div class="tools end"><Button icon="plus" onClick={() => setIsNew(true)}>New group</Button></div>
      <Problem error={groups.error} />
      {!groups.data && !groups.error && <Loading />}
      {groups.data?.length === 0 && (
        <Empty title="No consumer group reads this topic yet." command={`./borzoi consumer-group create ${word(props.streamName)} ${word(props.topic.name)} billing`}>
          Members of a group share its partitions, and go on where it has committed. Clients create theirs when they join; or:
        </Empty>
      )}
      {groups.data && group && (
        <div class="columns side-list">
          <nav class="pick" aria-label="Consumer groups">
            {groups.data.map((one) => (
              <button key={one.id} type="button" aria-current={one.id === group.id ? "true" : undefined} onClick={() => setQuery({ group: one.id })}>
                <b>{one.name}</b>
                <span>{plural(one.members_count, "member")}</span>
              </button>
            ))}
          </nav>
          <GroupPanel key={group.id} {...props} group={group} onDelete={() => setGone(group)} />
        </div>
      )}
      {isNew && <NewGroup path={props.path} onClose={() => setIsNew(false)} onDone={groups.refresh} />}
      {gone && (
        <ConfirmDialog title={`Delete ${gone.name}`} name={gone.name} action="Delete group" onClose={() => setGone(null)} onConfirm={async () => { await sendJson("DELETE", `${props.path}/consumer-groups/${gone.id}`); groups.refresh(); }}>
          Its {plural(gone.members_count, "member")} get errors from then on, and its committed offsets go.
        </ConfirmDialog>
      )}
    </>
  );
}

function NewGroup(props: { path: string; onClose: () => void; onDone: () => void }) {
  const [name, setName] = useState("");
  return (
    <FormDialog title="New consumer group" action="Create group" disabled={!name} onClose={props.onClose} onSubmit={async () => { await sendJson("POST", `${props.path}/consumer-groups`, { name }); props.onDone(); }}>
      <TextField label="Name" value={name} onText={setName} autofocus hint="1 to 255 bytes." />
    </FormDialog>
  );
}

interface Place {
  partition: number;
  member: number | null;
  committed: number | null;
  end: number; // the offset of the next message
  lag: number;
}

const ASKED_MAX = 256;
const AT_ONCE = 4;

function GroupPanel(props: TopicProps & { group: Group; onDelete: () => void }) {
  const { group, topic } = props;
  const details = usePolled((signal) => getJson<GroupDetails>(`${props.path}/consumer-groups/${group.id}`, { signal }), [props.path, group.id]);
  const offsets = usePolled((signal) => committed(props, group.id, signal), [props.path, group.id, topic.partitions_count]);
  const rows = useMemo(() => placesOf(topic.partitions, details.data, offsets.data), [topic.partitions, details.data, offsets.data]);
  const total = rows.reduce((sum, one) => sum + one.lag, 0);
  const idle = rows.filter((one) => one.member === null).length;
  return (
    <div class="stack">
      <Panel
        title={<>{group.name} <Badge tone={group.members_count ? "good" : "warn"}>{plural(group.members_count, "member")}</Badge></>}
        actions={<><span class="lag-total" role="status">lag {count(total)}</span><Button kind="danger" icon="bin" label="Delete the group" onClick={props.onDelete} /></>}
      >
        <Problem error={details.error ?? offsets.error} />
        <LagChart stream={props.stream} topic={topic.id} group={group.id} now={total} known={offsets.data !== undefined} />
        {idle > 0 && group.members_count > 0 && <p class="hint">{plural(idle, "partition has", "partitions have")} no member at the moment.</p>}
        {group.members_count === 0 && <p class="hint">No member reads at the moment. A member over HTTP: POST {props.path}/consumer-groups/{group.name}/members</p>}
        {topic.partitions_count > ASKED_MAX && <p class="hint">Committed offsets of the first {ASKED_MAX} partitions.</p>}
      </Panel>
      {details.data && details.data.members.length > 0 && (
        <Panel title="Members" flush>
          <table class="plain">
            <thead><tr><th>Member</th><th class="number">Partitions</th><th>Assigned</th><th class="number">Lag</th></tr></thead>
            <tbody>
              {details.data.members.map((one) => (
                <tr key={one.id}>
                  <td class="mono">{one.id}</td>
                  <td class="number">{one.partitions_count}</td>
                  <td class="assigned">{one.partitions.slice(0, 32).map((id) => <span key={id} class="chip">{id}</span>)}{one.partitions.length > 32 && " …"}</td>
                  <td class="number">{count(rows.filter((row) => row.member === one.id).reduce((sum, row) => sum + row.lag, 0))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Panel>
      )}
      <Panel title="Partitions" flush>
        <Rows label="Partitions of the group" columns={COLUMNS} rows={rows} keyOf={(one) => one.partition} href={(one) => `#/streams/${props.stream}/topics/${topic.id}/messages?partition=${one.partition}${one.committed === null ? "" : `&offset=${one.committed}&order=up`}`} height="content" />
      </Panel>
    </div>
  );
}

const COLUMNS: readonly Column<Place>[] = [
  { name: "Partition", width: "minmax(5rem, .6fr)", show: (one) => one.partition },
  { name: "Member", width: "minmax(6rem, 1fr)", show: (one) => one.member ?? "–", wideOnly: true },
  { name: "Committed", width: "minmax(5.5rem, 1fr)", show: (one) => (one.committed === null ? "nothing" : count(one.committed)), number: true },
  { name: "Last offset", width: "minmax(5.5rem, 1fr)", show: (one) => (one.end ? count(one.end - 1) : "–"), number: true, wideOnly: true },
  { name: "Lag", width: "minmax(4.5rem, 1fr)", show: (one) => <span class={one.lag ? "lagging" : ""}>{count(one.lag)}</span>, number: true },
];

async function committed(props: TopicProps, group: number, signal: AbortSignal): Promise<Map<number, number>> {
  const found = new Map<number, number>();
  const waiting = props.topic.partitions.slice(0, ASKED_MAX).filter((one) => one.messages_count > 0 || one.current_offset > 0);
  const worker = async (): Promise<void> => {
    for (let one = waiting.shift(); one; one = waiting.shift()) {
      try {
        const query = { consumer_id: group, kind: "group", partition_id: one.id };
        found.set(one.id, (await getJson<CommittedOffset>(`${props.path}/consumer-offsets`, { query, signal })).stored_offset);
      } catch (error) {
        // Nothing is committed there yet.
        if (!(error instanceof ApiError && error.status === 404)) throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return found;
}

function placesOf(partitions: TopicProps["topic"]["partitions"], details: GroupDetails | undefined, offsets: Map<number, number> | undefined): Place[] {
  const members = new Map<number, number>();
  for (const member of details?.members ?? []) for (const id of member.partitions) members.set(id, member.id);
  return partitions.map((one) => {
    const end = one.messages_count > 0 || one.current_offset > 0 ? one.current_offset + 1 : 0;
    const stored = offsets?.get(one.id) ?? null;
    const behind = stored === null ? one.messages_count : Math.max(0, end - stored - 1);
    return { partition: one.id, member: members.get(one.id) ?? null, committed: stored, end, lag: Math.min(behind, Math.max(behind, 0)) };
  });
}

function LagChart(props: { stream: string; topic: number; group: number; now: number; known: boolean }) {
  const found = useCell(shots);
  const sums = found.map((shot) => lagOf(shot.families, props));
  if (sums.every((value) => value === null)) {
    return <p class="hint">{props.known ? "Lag over time begins with the first commit of the group." : "Asking for offsets."}</p>;
  }
  return <Chart label="Lag over time, messages" times={found.map((shot) => shot.at)} lines={[{ name: "lag", values: sums }]} format={short} height={150} least={10} />;
}

function lagOf(families: Map<string, { labels: Record<string, string>; value: number }[]>, place: { stream: string; topic: number; group: number }): number | null {
  let sum: number | null = null;
  for (const { labels, value } of families.get("borzoi_consumer_lag_messages") ?? []) {
    if (labels.kind === "group" && labels.consumer === String(place.group) && labels.topic === String(place.topic) && labels.stream === place.stream) sum = (sum ?? 0) + value;
  }
  return sum;
}
