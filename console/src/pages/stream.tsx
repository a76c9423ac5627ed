// One stream: its topics, its name, its end.
import { useMemo, useState } from "preact/hooks";
import { getJson, sendJson } from "../api/client";
import type { StreamDetails, Topic } from "../api/types";
import { count, expiry, parseDuration, parseSize, plural, readSize, size, word } from "../format";
import { Button, Empty, Loading, Problem, Search, Select, TextField } from "../parts/basics";
import { ConfirmDialog, FormDialog } from "../parts/dialog";
import { Rows, sortRows, type Column, type Sorted } from "../parts/rows";
import { usePolled } from "../state/polled";
import { go, setQuery, useRoute } from "../state/route";
import { Page } from "./shell";

const COLUMNS: readonly Column<Topic>[] = [
  { name: "Name", width: "minmax(7rem, 3fr)", show: (one) => one.name, sort: (one) => one.name },
  { name: "Id", width: "minmax(3.5rem, .5fr)", show: (one) => one.id, number: true, sort: (one) => one.id, wideOnly: true },
  { name: "Partitions", width: "minmax(4.6rem, 1fr)", show: (one) => count(one.partitions_count), number: true, sort: (one) => one.partitions_count },
  { name: "Messages", width: "minmax(4.6rem, 1.3fr)", show: (one) => count(one.messages_count), number: true, sort: (one) => one.messages_count },
  { name: "Size", width: "minmax(4.7rem, 1fr)", show: (one) => size(parseSize(one.size)), number: true, sort: (one) => parseSize(one.size) },
  { name: "Expiry", width: "minmax(6rem, 1fr)", show: (one) => expiry(one.message_expiry), number: true, sort: (one) => one.message_expiry, wideOnly: true },
  { name: "Compression", width: "minmax(6rem, .8fr)", show: (one) => one.compression_algorithm, sort: (one) => one.compression_algorithm, wideOnly: true },
];

export function StreamPage(props: { stream: string }) {
  const path = `/streams/${encodeURIComponent(props.stream)}`;
  const stream = usePolled((signal) => getJson<StreamDetails>(path, { signal }), [path]);
  const filter = useRoute().query.get("filter") ?? "";
  const [sorted, setSorted] = useState<Sorted | undefined>();
  const [dialog, setDialog] = useState<"" | "topic" | "rename" | "purge" | "delete">("");
  const close = () => setDialog("");
  const found = stream.data;
  const rows = useMemo(() => {
    const text = filter.toLowerCase();
    return sortRows((found?.topics ?? []).filter((one) => one.name.toLowerCase().includes(text)), COLUMNS, sorted);
  }, [found, filter, sorted]);
  return (
    <Page
      title={found?.name ?? `Stream ${props.stream}`}
      crumbs={[["Streams", "#/streams"]]}
      fill
      note={found && <>{plural(found.topics_count, "topic")} · {plural(found.messages_count, "message")} · {size(parseSize(found.size))} · id {found.id}</>}
      actions={
        found && (
          <>
            <Button kind="main" icon="plus" onClick={() => setDialog("topic")}>New topic</Button>
            <Button icon="edit" onClick={() => setDialog("rename")}>Rename</Button>
            <Button onClick={() => setDialog("purge")}>Purge</Button>
            <Button kind="danger" icon="bin" label="Delete the stream" onClick={() => setDialog("delete")} />
          </>
        )
      }
    >
      <Problem error={stream.error} />
      {!found && !stream.error && <Loading />}
      {found?.topics.length === 0 && (
        <Empty title="This stream has no topic yet." command={`./borzoi topic create ${word(found.name)} events 4`}>
          A topic has partitions, which hold the messages. Create one with the button above, or in a terminal:
        </Empty>
      )}
      {found && found.topics.length > 0 && (
        <>
          <div class="tools"><Search label="Filter by name" value={filter} onText={(text) => setQuery({ filter: text || null })} /></div>
          <Rows label="Topics" columns={COLUMNS} rows={rows} keyOf={(one) => one.id} href={(one) => `#/streams/${found.id}/topics/${one.id}`} sorted={sorted} onSort={setSorted} />
        </>
      )}
      {found && dialog === "topic" && (
        <TopicDialog
          title="New topic"
          action="Create topic"
          onClose={close}
          onSubmit={async (values) => {
            const made = await sendJson<Topic>("POST", `${path}/topics`, values);
            go(`/streams/${found.id}/topics/${made.id}`);
          }}
        />
      )}
      {found && dialog === "rename" && <Rename path={path} name={found.name} onClose={close} onDone={stream.refresh} />}
      {found && dialog === "purge" && (
        <ConfirmDialog title={`Purge ${found.name}`} name={found.name} action="Purge stream" onClose={close} onConfirm={async () => { await sendJson("DELETE", `${path}/purge`); stream.refresh(); }}>
          All {plural(found.messages_count, "message")} of {plural(found.topics_count, "topic")} go, and all committed offsets. The topics stay.
        </ConfirmDialog>
      )}
      {found && dialog === "delete" && (
        <ConfirmDialog title={`Delete ${found.name}`} name={found.name} action="Delete stream" onClose={close} onConfirm={async () => { await sendJson("DELETE", path); go("/streams"); }}>
          The stream goes with {plural(found.topics_count, "topic")} and {plural(found.messages_count, "message")}. This cannot be undone.
        </ConfirmDialog>
      )}
    </Page>
  );
}

function Rename(props: { path: string; name: string; onClose: () => void; onDone: () => void }) {
  const [name, setName] = useState(props.name);
  return (
    <FormDialog title="Rename the stream" action="Rename" disabled={!name || name === props.name} onClose={props.onClose} onSubmit={async () => { await sendJson("PUT", props.path, { name }); props.onDone(); }}>
      <TextField label="Name" value={name} onText={setName} autofocus hint="Clients that use the old name get an error until they use the new one." />
    </FormDialog>
  );
}

const NEVER = 18446744073709551615n;

export interface TopicValues {
  name: string;
  partitions_count?: number;
  compression_algorithm: string;
  message_expiry: number | bigint;
  max_topic_size: number | bigint;
  replication_factor: number;
}

/** Create or change a topic. */
export function TopicDialog(props: { title: string; action: string; topic?: Topic; onClose: () => void; onSubmit: (values: TopicValues) => Promise<void> }) {
  const { topic } = props;
  const [name, setName] = useState(topic?.name ?? "");
  const [partitions, setPartitions] = useState("1");
  const [codec, setCodec] = useState(topic?.compression_algorithm ?? "none");
  const [life, setLife] = useState(topic ? bound(topic.message_expiry, (us) => `${us / 1e6} s`) : "default");
  const [room, setRoom] = useState(topic ? bound(topic.max_topic_size, (bytes) => `${bytes} B`) : "default");
  const lifeUs = readBound(life, parseDuration);
  const roomBytes = readBound(room, readSize);
  const number = Number(partitions);
  const isNumber = Number.isInteger(number) && number >= 0 && number <= 1000 && partitions !== "";
  return (
    <FormDialog
      title={props.title}
      action={props.action}
      disabled={!name || lifeUs === null || roomBytes === null || (!topic && !isNumber)}
      onClose={props.onClose}
      onSubmit={() =>
        props.onSubmit({
          name,
          ...(topic ? {} : { partitions_count: number }),
          compression_algorithm: codec,
          message_expiry: lifeUs ?? 0,
          max_topic_size: roomBytes ?? 0,
          replication_factor: 1,
        })
      }
    >
      <TextField label="Name" value={name} onText={setName} autofocus hint="1 to 255 bytes." />
      {!topic && (
        <TextField label="Partitions" value={partitions} onText={setPartitions} inputMode="numeric" hint="Consumers of one group share them. Up to 1,000 at a time." {...(isNumber ? {} : { problem: "A number from 0 to 1,000." })} />
      )}
      <div class="pair">
        <TextField label="Messages expire after" value={life} onText={setLife} hint="7 days, 12 h, never, or default" {...(lifeUs === null ? { problem: "For example: 7 days, 12 h, never, default." } : {})} />
        <TextField label="Size at most" value={room} onText={setRoom} hint="10 GiB, unlimited, or default" {...(roomBytes === null ? { problem: "For example: 10 GiB, unlimited, default." } : {})} />
      </div>
      <Select label="Compression of sealed segments" value={codec} onChoose={setCodec} options={(["none", "gzip", "lz4", "zstd"] as const).map((one) => [one, one] as const)} hint={codec === "lz4" || codec === "zstd" ? "Official clients cannot read the settings of a topic with this codec." : "The server's setting may rule this out."} />
    </FormDialog>
  );
}

function bound(value: number, shown: (value: number) => string): string {
  if (value >= 2 ** 63) return "never";
  return value === 0 ? "default" : shown(value);
}

function readBound(text: string, read: (text: string) => number | null): number | bigint | null {
  const word = text.trim().toLowerCase();
  if (word === "never" || word === "unlimited") return NEVER;
  if (word === "default" || word === "") return 0;
  return read(text);
}
