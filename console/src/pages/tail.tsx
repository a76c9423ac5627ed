// Messages as they arrive, of one partition or all. The filter is in the address, so a link shows the same.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, getJson, isAbort } from "../api/client";
import { poll, type Message } from "../api/messages";
import type { TopicDetails } from "../api/types";
import { preview } from "../decode";
import { count, plural, short, size, time, word } from "../format";
import { Badge, Button, Empty, Field, Search } from "../parts/basics";
import { Inspector, Payload } from "../parts/message";
import { Rows, type Column } from "../parts/rows";
import { setQuery, useRoute } from "../state/route";
import type { TopicProps } from "./topic";

const KEPT_MAX = 10_000;
const PORTION = 500;
const LOOK_MS = 700;
const RETRY_MS = 1500;
const BEGIN_WITH = 20;

interface Held {
  messages: Message[];
  seen: number;
  error: string;
}

export function Tail(props: TopicProps) {
  const { query } = useRoute();
  const filter = query.get("filter") ?? "";
  const wanted = query.get("partition");
  const [paused, setPaused] = useState(false);
  const [follows, setFollows] = useState(true);
  const [held, setHeld] = useState<Held>({ messages: [], seen: 0, error: "" });
  const [chosen, setChosen] = useState<Message | null>(null);
  const rate = useRate(held.seen);
  const waiting = useRef<Message[]>([]);
  const pausing = useRef(paused);
  pausing.current = paused;
  const ids = props.topic.partitions.map((one) => one.id).join(",");

  useEffect(() => {
    setHeld({ messages: [], seen: 0, error: "" });
    waiting.current = [];
    const stop = new AbortController();
    const take = (messages: Message[]) => {
      if (messages.length) waiting.current = [...waiting.current, ...messages].slice(-KEPT_MAX);
    };
    const fail = (error: string) => setHeld((before) => (before.error === error ? before : { ...before, error }));
    const partition = wanted === null ? null : Number(wanted);
    void (partition === null ? tailAll(props, take, fail, stop.signal) : tailOne(props, partition, take, fail, stop.signal));
    // Drawn at most a few times a second, however many arrive.
    const timer = window.setInterval(() => {
      if (pausing.current || waiting.current.length === 0) return;
      const fresh = waiting.current;
      waiting.current = [];
      setHeld((before) => ({ messages: [...before.messages, ...fresh].slice(-KEPT_MAX), seen: before.seen + fresh.length, error: "" }));
    }, 200);
    return () => {
      stop.abort();
      window.clearInterval(timer);
    };
  }, [props.path, wanted, ids]);

  const matches = useMemo(() => matcher(filter), [filter]);
  const rows = useMemo(() => (matches ? held.messages.filter((one) => matches(one)) : held.messages), [held.messages, matches]);
  return (
    <div class={`messages ${chosen ? "with-inspector" : ""}`}>
      <div class="tools">
        <Field label="Partition">
          {(id) => (
            <select id={id} value={wanted ?? "all"} onChange={(event) => setQuery({ partition: event.currentTarget.value === "all" ? null : event.currentTarget.value })}>
              <option value="all">all</option>
              {props.topic.partitions.map((one) => <option key={one.id} value={String(one.id)}>{one.id}</option>)}
            </select>
          )}
        </Field>
        <Search label="Filter" placeholder="text, /pattern/ or key:value of a header" value={filter} onText={(text) => setQuery({ filter: text || null })} />
        {filter && matches === null && <Badge tone="warn">not a pattern yet</Badge>}
        <div class="tail-state" role="status">
          {held.error ? <Badge tone="bad">{held.error}</Badge> : <Badge tone={paused ? "warn" : "good"}>{paused ? "paused" : "live"}</Badge>}
          <span>{short(rate)}/s</span>
        </div>
        <Button icon={paused ? "play" : "pause"} onClick={() => setPaused(!paused)}>{paused ? "Go on" : "Pause"}</Button>
        <Button onClick={() => setHeld((before) => ({ ...before, messages: [] }))}>Clear</Button>
      </div>
      {held.messages.length === 0 ? (
        <Empty title="Waiting for messages." command={`./borzoi message send ${word(props.streamName)} ${word(props.topic.name)} hello`}>
          What arrives is shown at once. Send something on the tab Produce, or in a terminal:
        </Empty>
      ) : (
        <>
          <div class="split">
            <Rows label="Messages as they arrive" columns={COLUMNS} rows={rows} keyOf={(one) => `${one.partition}:${one.offset}`} onOpen={setChosen} selected={chosen ? `${chosen.partition}:${chosen.offset}` : undefined} follow={follows && !paused} onScrollBack={() => setFollows(false)} />
            {chosen && <Inspector message={chosen} name={`${props.streamName}-${props.topic.name}`} onClose={() => setChosen(null)} />}
          </div>
          <div class="pager">
            <span>{filter ? `${count(rows.length)} of ${plural(held.messages.length, "message")}` : plural(held.messages.length, "message")}{held.seen > held.messages.length && ` kept of ${count(held.seen)} seen`}</span>
            {!follows && <Button icon="last" onClick={() => setFollows(true)}>Follow</Button>}
          </div>
        </>
      )}
    </div>
  );
}

const COLUMNS: readonly Column<Message>[] = [
  { name: "Partition", width: "4.5rem", show: (one) => one.partition, number: true, wideOnly: true },
  { name: "Offset", width: "minmax(5rem, .3fr)", show: (one) => count(one.offset), number: true },
  { name: "Time", width: "minmax(7rem, .2fr)", show: (one) => time(one.timestamp, false), wideOnly: true },
  { name: "Payload", width: "minmax(8rem, 6fr)", show: (one) => <Payload message={one} /> },
  { name: "Size", width: "minmax(4.5rem, .1fr)", show: (one) => size(one.payload.length), number: true, wideOnly: true },
];

type Take = (messages: Message[]) => void;
type Fail = (error: string) => void;

/** One partition: a poll that waits, again and again. */
async function tailOne(props: TopicProps, partition: number, take: Take, fail: Fail, signal: AbortSignal): Promise<void> {
  const place = { stream: props.stream, topic: props.topic.id, partition };
  const end = props.topic.partitions.find((one) => one.id === partition);
  let next = Math.max(0, behind(end) - BEGIN_WITH);
  while (!signal.aborted) {
    try {
      const found = await poll(place, { kind: "offset", value: next, count: PORTION, wait: "20s" }, signal);
      take(found.messages);
      const last = found.messages.at(-1);
      if (last) next = last.offset + 1;
      else if (found.current + 1 < next) next = 0; // Purged: it begins again.
    } catch (error) {
      if (!(await waitAfter(error, fail, signal))) return;
    }
  }
}

/** All partitions: which of them have moved is one question, and those that have are polled. */
async function tailAll(props: TopicProps, take: Take, fail: Fail, signal: AbortSignal): Promise<void> {
  const next = new Map(props.topic.partitions.map((one) => [one.id, Math.max(0, behind(one) - BEGIN_WITH)]));
  while (!signal.aborted) {
    try {
      const topic = await getJson<TopicDetails>(props.path, { signal });
      let isMore = false;
      for (const one of topic.partitions) {
        const from = next.get(one.id) ?? 0;
        if (behind(one) < from) next.set(one.id, 0); // Purged: it begins again.
        if (behind(one) <= (next.get(one.id) ?? 0)) continue;
        const found = await poll({ stream: props.stream, topic: props.topic.id, partition: one.id }, { kind: "offset", value: next.get(one.id) ?? 0, count: PORTION }, signal);
        take(found.messages);
        const last = found.messages.at(-1);
        if (last) next.set(one.id, last.offset + 1);
        isMore ||= found.messages.length === PORTION;
      }
      fail("");
      if (!isMore) await pause(LOOK_MS, signal);
    } catch (error) {
      if (!(await waitAfter(error, fail, signal))) return;
    }
  }
}

const behind = (one: { messages_count: number; current_offset: number } | undefined): number => (one && one.messages_count > 0 ? one.current_offset + 1 : 0);

async function waitAfter(error: unknown, fail: Fail, signal: AbortSignal): Promise<boolean> {
  if (isAbort(error) || signal.aborted) return false;
  fail(error instanceof ApiError ? error.reason : "no answer, trying again");
  if (error instanceof ApiError && [401, 403, 404].includes(error.status)) return false;
  await pause(RETRY_MS, signal);
  return !signal.aborted;
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = window.setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      window.clearTimeout(timer);
      resolve();
    });
  });
}

/** What a filter lets through: text, /pattern/, or key:value of a header. Null: not a pattern. */
function matcher(filter: string): ((message: Message) => boolean) | null {
  if (!filter) return () => true;
  const pattern = /^\/(.+)\/(i?)$/.exec(filter);
  if (pattern) {
    try {
      const wanted = new RegExp(pattern[1] ?? "", pattern[2]);
      return (one) => wanted.test(textOf(one));
    } catch {
      return null;
    }
  }
  const text = filter.toLowerCase();
  return (one) => textOf(one).toLowerCase().includes(text) || one.headers.some((header) => `${header.key}:${header.value}`.toLowerCase().includes(text));
}

const texts = new WeakMap<Message, string>();

function textOf(message: Message): string {
  let text = texts.get(message);
  if (text === undefined) texts.set(message, (text = preview(message.payload, 65_536)));
  return text;
}

function useRate(seen: number): number {
  const [rate, setRate] = useState(0);
  const latest = useRef(seen);
  latest.current = seen;
  useEffect(() => {
    let before = latest.current;
    const timer = window.setInterval(() => {
      setRate(Math.max(0, latest.current - before) / 2);
      before = latest.current;
    }, 2000);
    return () => window.clearInterval(timer);
  }, []);
  return rate;
}
