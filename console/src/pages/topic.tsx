// One topic, with its tabs: partitions, messages, live tail, produce, consumer groups.
import { useState } from "preact/hooks";
import { getJson, sendJson } from "../api/client";
import type { TopicDetails } from "../api/types";
import { expiry, limit, parseSize, plural, size, word } from "../format";
import { Badge, Button, Empty, Loading, Problem } from "../parts/basics";
import { ConfirmDialog } from "../parts/dialog";
import { usePolled } from "../state/polled";
import { go } from "../state/route";
import { Groups } from "./groups";
import { Messages } from "./messages";
import { Partitions } from "./partitions";
import { Produce } from "./produce";
import { Page } from "./shell";
import { TopicDialog } from "./stream";
import { Tail } from "./tail";

const TABS = [
  ["partitions", "Partitions"],
  ["messages", "Messages"],
  ["tail", "Live tail"],
  ["produce", "Produce"],
  ["groups", "Consumer groups"],
] as const;

export interface TopicProps {
  stream: string;
  streamName: string;
  topic: TopicDetails;
  path: string; // of the API
  refresh: () => void;
}

export function TopicPage(props: { stream: string; topic: string; tab: string }) {
  const path = `/streams/${encodeURIComponent(props.stream)}/topics/${encodeURIComponent(props.topic)}`;
  const topic = usePolled((signal) => getJson<TopicDetails>(path, { signal }), [path]);
  // One row of many would be enough, but the API has no other way to a name.
  const names = usePolled((signal) => getJson<{ id: number; name: string }[]>("/streams", { signal }), [props.stream], { once: true });
  const streamName = names.data?.find((one) => String(one.id) === props.stream || one.name === props.stream)?.name ?? `stream ${props.stream}`;
  const [dialog, setDialog] = useState<"" | "settings" | "purge" | "delete">("");
  const close = () => setDialog("");
  const found = topic.data;
  const here = `#/streams/${encodeURIComponent(props.stream)}/topics/${encodeURIComponent(props.topic)}`;
  const inner = found && { stream: props.stream, streamName, topic: found, path, refresh: topic.refresh };
  return (
    <Page
      title={found?.name ?? `Topic ${props.topic}`}
      crumbs={[["Streams", "#/streams"], [streamName, `#/streams/${encodeURIComponent(props.stream)}`]]}
      fill
      note={
        found && (
          <>
            {plural(found.partitions_count, "partition")} · {plural(found.messages_count, "message")} · {size(parseSize(found.size))} · expiry {expiry(found.message_expiry)} · size {limit(found.max_topic_size)} · id {found.id}{" "}
            {found.compression_algorithm !== "none" && <Badge>{found.compression_algorithm}</Badge>}
          </>
        )
      }
      actions={
        found && (
          <>
            <Button icon="edit" onClick={() => setDialog("settings")}>Settings</Button>
            <Button onClick={() => setDialog("purge")}>Purge</Button>
            <Button kind="danger" icon="bin" label="Delete the topic" onClick={() => setDialog("delete")} />
          </>
        )
      }
    >
      <Problem error={topic.error} />
      {!found && !topic.error && <Loading />}
      {found && (
        <nav class="tabs" aria-label="Parts of the topic">
          {TABS.map(([tab, name]) => (
            <a key={tab} href={`${here}${tab === "partitions" ? "" : `/${tab}`}`} aria-current={tab === props.tab ? "page" : undefined}>{name}</a>
          ))}
        </nav>
      )}
      {inner && <Tab tab={props.tab} {...inner} />}
      {found && dialog === "settings" && (
        <TopicDialog title="Settings of the topic" action="Save" topic={found} onClose={close} onSubmit={async (values) => { await sendJson("PUT", path, values); topic.refresh(); }} />
      )}
      {found && dialog === "purge" && (
        <ConfirmDialog title={`Purge ${found.name}`} name={found.name} action="Purge topic" onClose={close} onConfirm={async () => { await sendJson("DELETE", `${path}/purge`); topic.refresh(); }}>
          All {plural(found.messages_count, "message")} go, and all committed offsets. Offsets begin again at 0.
        </ConfirmDialog>
      )}
      {found && dialog === "delete" && (
        <ConfirmDialog title={`Delete ${found.name}`} name={found.name} action="Delete topic" onClose={close} onConfirm={async () => { await sendJson("DELETE", path); go(`/streams/${props.stream}`); }}>
          The topic goes with {plural(found.messages_count, "message")}. This cannot be undone.
        </ConfirmDialog>
      )}
    </Page>
  );
}

function Tab(props: TopicProps & { tab: string }) {
  const { tab, ...inner } = props;
  if (tab === "partitions") return <Partitions {...inner} />;
  if (props.topic.partitions_count === 0 && tab !== "groups") {
    return (
      <Empty title="This topic has no partition." command={`./borzoi partition create ${word(props.streamName)} ${word(props.topic.name)} 1`}>
        Messages lie in partitions. Add some on the first tab, or in a terminal:
      </Empty>
    );
  }
  switch (tab) {
    case "messages":
      return <Messages {...inner} />;
    case "tail":
      return <Tail {...inner} />;
    case "produce":
      return <Produce {...inner} />;
    case "groups":
      return <Groups {...inner} />;
    default:
      return <Empty title="There is no such part of a topic." />;
  }
}
