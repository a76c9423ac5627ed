// All streams, and a new one.
import { useMemo, useState } from "preact/hooks";
import { getJson, sendJson } from "../api/client";
import type { Stream } from "../api/types";
import { count, day, parseSize, plural, size } from "../format";
import { Button, Empty, Loading, Problem, Search, TextField } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { Rows, sortRows, type Column, type Sorted } from "../parts/rows";
import { usePolled } from "../state/polled";
import { go, setQuery, useRoute } from "../state/route";
import { Page } from "./shell";

const COLUMNS: readonly Column<Stream>[] = [
  { name: "Name", width: "minmax(7rem, 3fr)", show: (one) => one.name, sort: (one) => one.name },
  { name: "Id", width: "minmax(3rem, .5fr)", show: (one) => one.id, number: true, sort: (one) => one.id, wideOnly: true },
  { name: "Topics", width: "minmax(3.2rem, 1fr)", show: (one) => count(one.topics_count), number: true, sort: (one) => one.topics_count },
  { name: "Messages", width: "minmax(4.6rem, 1.3fr)", show: (one) => count(one.messages_count), number: true, sort: (one) => one.messages_count },
  { name: "Size", width: "minmax(4.7rem, 1fr)", show: (one) => size(parseSize(one.size)), number: true, sort: (one) => parseSize(one.size) },
  { name: "Created", width: "minmax(9rem, 1fr)", show: (one) => day(one.created_at), number: true, sort: (one) => one.created_at, wideOnly: true },
];

export function Streams() {
  const streams = usePolled((signal) => getJson<Stream[]>("/streams", { signal }), []);
  const filter = useRoute().query.get("filter") ?? "";
  const [sorted, setSorted] = useState<Sorted | undefined>();
  const [isNew, setIsNew] = useState(false);
  const rows = useMemo(() => {
    const text = filter.toLowerCase();
    const found = (streams.data ?? []).filter((one) => one.name.toLowerCase().includes(text));
    return sortRows(found, COLUMNS, sorted);
  }, [streams.data, filter, sorted]);
  return (
    <Page
      title="Streams"
      fill
      note={streams.data && plural(streams.data.length, "stream")}
      actions={<Button kind="main" icon="plus" onClick={() => setIsNew(true)}>New stream</Button>}
    >
      <Problem error={streams.error} />
      {!streams.data && !streams.error && <Loading />}
      {streams.data?.length === 0 && (
        <Empty title="There is no stream yet." command="./borzoi stream create orders">
          A stream holds topics. Create one with the button above, or in a terminal:
        </Empty>
      )}
      {streams.data && streams.data.length > 0 && (
        <>
          <div class="tools"><Search label="Filter by name" value={filter} onText={(text) => setQuery({ filter: text || null })} /></div>
          <Rows label="Streams" columns={COLUMNS} rows={rows} keyOf={(one) => one.id} href={(one) => `#/streams/${one.id}`} sorted={sorted} onSort={setSorted} />
        </>
      )}
      {isNew && <NewStream onClose={() => setIsNew(false)} />}
    </Page>
  );
}

function NewStream(props: { onClose: () => void }) {
  const [name, setName] = useState("");
  return (
    <FormDialog
      title="New stream"
      action="Create stream"
      disabled={!name}
      onClose={props.onClose}
      onSubmit={async () => {
        const made = await sendJson<Stream>("POST", "/streams", { name });
        go(`/streams/${made.id}`);
      }}
    >
      <TextField label="Name" value={name} onText={setName} autofocus hint="1 to 255 bytes." />
    </FormDialog>
  );
}
