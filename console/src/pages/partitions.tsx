// The partitions of a topic: how far each is, what it holds; more of them, fewer, fewer segments.
import { useMemo, useState } from "preact/hooks";
import { ask, sendJson } from "../api/client";
import type { Partition } from "../api/types";
import { count, day, parseSize, plural, size, word } from "../format";
import { Button, Empty, TextField } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { Rows, sortRows, type Column, type Sorted } from "../parts/rows";
import type { TopicProps } from "./topic";

export function Partitions(props: TopicProps) {
  const [dialog, setDialog] = useState<"" | "add" | "remove">("");
  const [segmentsOf, setSegmentsOf] = useState<Partition | null>(null);
  const [sorted, setSorted] = useState<Sorted | undefined>();
  const { topic } = props;
  const columns: readonly Column<Partition>[] = [
    { name: "Partition", width: "minmax(5rem, 1fr)", show: (one) => one.id, sort: (one) => one.id },
    { name: "Last offset", width: "minmax(6rem, 1.3fr)", show: (one) => (one.messages_count || one.current_offset ? count(one.current_offset) : "–"), number: true, sort: (one) => one.current_offset },
    { name: "Messages", width: "minmax(5.5rem, 1.3fr)", show: (one) => count(one.messages_count), number: true, sort: (one) => one.messages_count },
    { name: "Size", width: "minmax(5rem, 1fr)", show: (one) => size(parseSize(one.size)), number: true, sort: (one) => parseSize(one.size) },
    { name: "Segments", width: "minmax(5rem, 1fr)", show: (one) => <button type="button" class="inline" aria-label={`Segments of partition ${one.id}`} onClick={() => setSegmentsOf(one)}>{count(one.segments_count)}</button>, number: true, sort: (one) => one.segments_count, wideOnly: true },
    { name: "Created", width: "minmax(9rem, 1fr)", show: (one) => day(one.created_at), number: true, wideOnly: true },
  ];
  const rows = useMemo(() => sortRows(topic.partitions, columns, sorted), [topic.partitions, sorted]);
  return (
    <>
      <div class="tools end">
        <Button icon="plus" onClick={() => setDialog("add")}>Add partitions</Button>
        <Button onClick={() => setDialog("remove")} disabled={topic.partitions_count === 0}>Remove partitions</Button>
      </div>
      {topic.partitions.length === 0 ? (
        <Empty title="This topic has no partition." command={`./borzoi partition create ${word(props.streamName)} ${word(topic.name)} 1`} />
      ) : (
        <Rows label="Partitions" columns={columns} rows={rows} keyOf={(one) => one.id} href={(one) => `#/streams/${props.stream}/topics/${topic.id}/messages?partition=${one.id}`} sorted={sorted} onSort={setSorted} />
      )}
      {dialog === "add" && (
        <CountDialog title="Add partitions" action="Add" label="How many" hint="Keys may map to other partitions afterwards." onClose={() => setDialog("")}
          onSubmit={async (number) => { await sendJson("POST", `${props.path}/partitions`, { partitions_count: number }); props.refresh(); }} />
      )}
      {dialog === "remove" && (
        <CountDialog title="Remove partitions" action="Remove" danger label="How many of the last" hint={`The topic has ${plural(topic.partitions_count, "partition")}. The last ones go, with all their messages.`} onClose={() => setDialog("")}
          onSubmit={async (number) => { await ask("DELETE", `${props.path}/partitions`, { query: { partitions_count: number } }); props.refresh(); }} />
      )}
      {segmentsOf && (
        <CountDialog title={`Delete segments of partition ${segmentsOf.id}`} action="Delete segments" danger label="How many of the oldest" hint={`It has ${plural(segmentsOf.segments_count, "segment")}; the newest stays. What a consumer with a committed offset has not read stays, too.`} onClose={() => setSegmentsOf(null)}
          onSubmit={async (number) => { await ask("DELETE", `${props.path}/partitions/${segmentsOf.id}`, { query: { segments_count: number } }); props.refresh(); }} />
      )}
    </>
  );
}

function CountDialog(props: { title: string; action: string; label: string; hint: string; danger?: boolean; onClose: () => void; onSubmit: (number: number) => Promise<void> }) {
  const [text, setText] = useState("1");
  const number = Number(text);
  const isGood = Number.isInteger(number) && number >= 1 && number <= 1000;
  return (
    <FormDialog title={props.title} action={props.action} {...(props.danger ? { danger: true } : {})} disabled={!isGood} onClose={props.onClose} onSubmit={() => props.onSubmit(number)}>
      <TextField label={props.label} value={text} onText={setText} inputMode="numeric" autofocus hint={props.hint} {...(isGood ? {} : { problem: "A number from 1 to 1,000." })} />
    </FormDialog>
  );
}
