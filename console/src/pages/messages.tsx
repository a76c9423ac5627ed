// Messages of a partition, a page at a time: by offset, by time, from either end. The place is in the address.
import { useEffect, useMemo, useState } from "preact/hooks";
import { poll, type Message } from "../api/messages";
import { count, plural, size, time, word } from "../format";
import { Button, Choice, Empty, Field, Loading, Problem, Search } from "../parts/basics";
import { Inspector, Payload } from "../parts/message";
import { Rows, type Column } from "../parts/rows";
import { usePolled } from "../state/polled";
import { setQuery, useRoute } from "../state/route";
import type { TopicProps } from "./topic";
import { preview } from "../decode";

const COUNTS = ["20", "50", "100", "500"];

export function Messages(props: TopicProps) {
  const { query } = useRoute();
  const partition = whole(query.get("partition")) ?? props.topic.partitions[0]?.id ?? 0;
  const facts = props.topic.partitions.find((one) => one.id === partition);
  const amount = COUNTS.includes(query.get("count") ?? "") ? Number(query.get("count")) : 50;
  const isDown = query.get("order") !== "up"; // newest first
  const offset = whole(query.get("offset"));
  const at = query.get("at");
  const filter = query.get("filter") ?? "";
  const last = facts?.current_offset ?? 0;
  const isAtEnd = offset === null && !at && isDown;
  const first = offset ?? (isDown ? Math.max(0, last - amount + 1) : 0);
  const atUs = at ? Date.parse(at) * 1000 : NaN;
  const place = { stream: props.stream, topic: props.topic.id, partition };
  const [chosen, setChosen] = useState<number | null>(null);
  const polled = usePolled(
    (signal) =>
      Number.isFinite(atUs)
        ? poll(place, { kind: "timestamp", value: Math.round(atUs), count: amount }, signal)
        : offset === null && !isDown
          ? poll(place, { kind: "first", count: amount }, signal)
          : poll(place, { kind: "offset", value: first, count: amount }, signal),
    [props.path, partition, isAtEnd ? (chosen === null ? "end" : "end, held") : first, atUs, amount, isDown],
    isAtEnd && chosen === null ? {} : { everyMs: 60_000 },
  );
  const found = polled.data?.messages;
  useEffect(() => setChosen(null), [props.path, partition]);
  const rows = useMemo(() => {
    const text = filter.toLowerCase();
    const kept = (found ?? []).filter((one) => !text || preview(one.payload, 100_000).toLowerCase().includes(text));
    return isDown ? [...kept].reverse() : kept;
  }, [found, isDown, filter]);
  const message = found?.find((one) => one.offset === chosen);
  const lowest = found?.[0]?.offset ?? first;
  const highest = found?.at(-1)?.offset ?? first;
  const goTo = (value: number | null) => setQuery({ offset: value === null ? null : Math.max(0, value), at: null });
  const isEmpty = facts !== undefined && facts.messages_count === 0 && found !== undefined && found.length === 0;
  const earlier = () => goTo(lowest - amount);
  const later = () => (highest + amount >= last && isDown ? goTo(null) : goTo(highest + 1));

  return (
    <div class={`messages ${message ? "with-inspector" : ""}`}>
      <div class="tools">
        <Field label="Partition">
          {(id) => (
            <select id={id} value={String(partition)} onChange={(event) => setQuery({ partition: event.currentTarget.value, offset: null, at: null })}>
              {props.topic.partitions.map((one) => <option key={one.id} value={String(one.id)}>{one.id}</option>)}
            </select>
          )}
        </Field>
        <Jump label="From offset" kind="number" value={offset === null ? "" : String(offset)} placeholder={isDown ? "newest" : "oldest"} onJump={(text) => goTo(whole(text))} />
        <Jump label="From time" kind="datetime-local" value={at ?? ""} onJump={(text) => setQuery({ at: text || null, offset: null, order: text ? "up" : query.get("order") })} />
        <Field label="A page has">
          {(id) => (
            <select id={id} value={String(amount)} onChange={(event) => setQuery({ count: event.currentTarget.value })}>
              {COUNTS.map((one) => <option key={one} value={one}>{one}</option>)}
            </select>
          )}
        </Field>
        <Choice label="Order" value={isDown ? "down" : "up"} onChoose={(order) => setQuery({ order: order === "up" ? "up" : null })} options={[["down", "Newest first"], ["up", "Oldest first"]]} />
        <Search label="Filter this page" value={filter} onText={(text) => setQuery({ filter: text || null })} />
      </div>
      <Problem error={polled.error} />
      {!found && !polled.error && <Loading />}
      {isEmpty && (
        <Empty title={`Partition ${partition} is empty.`} command={`./borzoi message send ${word(props.streamName)} ${word(props.topic.name)} --partition-id ${partition} hello`}>
          Messages appear here as they arrive. Send one on the tab Produce, or in a terminal:
        </Empty>
      )}
      {found && !isEmpty && (
        <>
          <div class="split">
            <Rows label="Messages" columns={message ? BESIDE : COLUMNS} rows={rows} keyOf={(one) => one.offset} onOpen={(one) => setChosen(one.offset)} selected={message?.offset} />
            {message && <Inspector message={message} name={`${props.streamName}-${props.topic.name}`} onClose={() => setChosen(null)} />}
          </div>
          <div class="pager">
            <span>
              {found.length === 0 ? "No messages from here on" : <>Offsets {count(lowest)} to {count(highest)} of {count(last)}</>}
              {filter && ` · ${plural(rows.length, "message")} with “${filter}”`}
              {found.length > 0 && ` · ${size(found.reduce((sum, one) => sum + one.size, 0))}`}
            </span>
            <div class="actions">
              <button type="button" class="button quiet only-icon" aria-label="Oldest" title="Oldest" onClick={() => setQuery({ offset: 0, at: null })}>⇤</button>
              <button type="button" class="button" data-before disabled={lowest === 0} onClick={earlier}>Earlier</button>
              <button type="button" class="button" data-next disabled={highest >= last} onClick={later}>Later</button>
              <button type="button" class="button quiet only-icon" aria-label="Newest" title="Newest" onClick={() => setQuery({ offset: null, at: null, order: null })}>⇥</button>
            </div>
          </div>
        </>
      )}
    </div>
  );
}

const COLUMNS: readonly Column<Message>[] = [
  { name: "Offset", width: "minmax(5rem, .3fr)", show: (one) => count(one.offset), number: true },
  { name: "Time", width: "minmax(12.2rem, .1fr)", show: (one) => time(one.timestamp), wideOnly: true },
  { name: "Payload", width: "minmax(8rem, 5fr)", show: (one) => <Payload message={one} /> },
  { name: "Headers", width: "minmax(4rem, .1fr)", show: (one) => (one.headers.length ? count(one.headers.length) : "–"), number: true, wideOnly: true },
  { name: "Size", width: "minmax(4.5rem, .1fr)", show: (one) => size(one.payload.length), number: true },
];

const BESIDE = COLUMNS.filter((one) => one.name !== "Headers"); // the inspector has them

function whole(text: string | null): number | null {
  return text !== null && /^\d{1,16}$/.test(text) ? Number(text) : null;
}

function Jump(props: { label: string; kind: "number" | "datetime-local"; value: string; placeholder?: string; onJump: (text: string) => void }) {
  const [text, setText] = useState(props.value);
  useEffect(() => setText(props.value), [props.value]);
  return (
    <form class="jump" onSubmit={(event) => { event.preventDefault(); props.onJump(text); }}>
      <Field label={props.label}>
        {(id) => {
          const given = {
            id,
            value: text,
            onInput: (event: { currentTarget: HTMLInputElement }) => setText(event.currentTarget.value),
            onChange: (event: { currentTarget: HTMLInputElement }) => props.onJump(event.currentTarget.value),
          };
          return props.kind === "number" ? (
            <input type="text" inputMode="numeric" placeholder={props.placeholder ?? ""} {...given} />
          ) : (
            <input type="datetime-local" step="1" {...given} />
          );
        }}
      </Field>
      <Button type="submit" kind="quiet" icon="right" label={`Go: ${props.label.toLowerCase()}`} />
    </form>
  );
}
