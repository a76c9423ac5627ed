// The log of the broker as it is written. Level and filter are in the address.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, getJson, isAbort } from "../api/client";
import type { LogPortion } from "../api/types";
import { count, plural } from "../format";
import { Badge, Button, Choice, Empty, Loading, Problem, Search } from "../parts/basics";
import { Dialog } from "../parts/dialog";
import { download } from "../parts/message";
import { Rows, type Column } from "../parts/rows";
import { setQuery, useRoute } from "../state/route";
import { Page } from "./shell";

interface Line {
  number: number;
  text: string;
  at: string;
  level: string;
  speaker: string;
  module: string;
  message: string;
}

const LEVELS = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"] as const;
type Level = (typeof LEVELS)[number];
const KEPT_MAX = 50_000;
const FIRST = 2000;
const LOOK_MS = 1000;
const LINE = /^(\S+Z)\s+([A-Z]+)\s+(\S+)\s+(\S+): (.*)$/;

export function Logs() {
  const { query } = useRoute();
  const level = (LEVELS as readonly string[]).includes(query.get("level") ?? "") ? (query.get("level") as Level) : "TRACE";
  const filter = query.get("filter") ?? "";
  const [lines, setLines] = useState<Line[] | null>(null);
  const [error, setError] = useState<Error | undefined>();
  const [paused, setPaused] = useState(false);
  const [follows, setFollows] = useState(true);
  const [opened, setOpened] = useState<Line | null>(null);
  const pausing = useRef(paused);
  pausing.current = paused;

  useEffect(() => {
    const stop = new AbortController();
    let mark = "";
    let number = 0;
    let timer = 0;
    const turn = async (): Promise<void> => {
      try {
        if (!pausing.current && !document.hidden) {
          const found = await getJson<LogPortion>("/logs", { query: mark ? { after: mark } : { lines: FIRST }, signal: stop.signal });
          mark = found.mark;
          const fresh = found.lines.map((text) => parsed(text, number++));
          setError(undefined);
          setLines((before) => (before && fresh.length === 0 ? before : [...(before ?? []), ...fresh].slice(-KEPT_MAX)));
        }
      } catch (failure) {
        if (isAbort(failure)) return;
        setError(failure as Error);
        if (failure instanceof ApiError && failure.status === 403) return;
      }
      if (!stop.signal.aborted) timer = window.setTimeout(() => void turn(), LOOK_MS);
    };
    void turn();
    return () => {
      stop.abort();
      window.clearTimeout(timer);
    };
  }, []);

  const rows = useMemo(() => {
    const least = LEVELS.indexOf(level);
    const text = filter.toLowerCase();
    return (lines ?? []).filter((one) => (least <= 0 || LEVELS.indexOf(one.level as Level) >= least) && (!text || one.text.toLowerCase().includes(text)));
  }, [lines, level, filter]);
  return (
    <Page
      title="Logs"
      fill
      note={lines && <>{rows.length === lines.length ? plural(lines.length, "line") : `${count(rows.length)} of ${plural(lines.length, "line")}`}</>}
      actions={
        <>
          <Button icon={paused ? "play" : "pause"} onClick={() => setPaused(!paused)}>{paused ? "Go on" : "Pause"}</Button>
          <Button icon="download" label="Download these lines" onClick={() => download(new Blob([rows.map((one) => `${one.text}\n`).join("")], { type: "text/plain" }), "borzoi.log")} />
        </>
      }
    >
      <Problem error={error} />
      {!lines && !error && <Loading />}
      {lines && (
        <div class="tools">
          <Choice label="Level at least" value={level} onChoose={(chosen) => setQuery({ level: chosen === "TRACE" ? null : chosen })} options={LEVELS.map((one) => [one, one === "TRACE" ? "All" : one] as const)} />
          <Search label="Filter" value={filter} onText={(text) => setQuery({ filter: text || null })} />
          {!follows && <Button icon="last" onClick={() => setFollows(true)}>Follow</Button>}
        </div>
      )}
      {lines && rows.length === 0 && (
        <Empty title={lines.length === 0 ? "The log is empty." : "No line fits."} {...(lines.length === 0 ? { command: "IGGY_SYSTEM_LOGGING_LEVEL=debug ./borzoi serve" } : {})}>
          {lines.length === 0 ? "More is logged with:" : "Take the filter away, or choose a lower level."}
        </Empty>
      )}
      {rows.length > 0 && <Rows label="Log lines" columns={COLUMNS} rows={rows} keyOf={(one) => one.number} onOpen={setOpened} follow={follows && !paused} onScrollBack={() => setFollows(false)} />}
      {opened && (
        <Dialog title="Log line" wide onClose={() => setOpened(null)}>
          <div class="dialog-body"><pre class="payload-text" tabIndex={0}>{opened.text}</pre></div>
        </Dialog>
      )}
    </Page>
  );
}

const TONES: Record<string, "calm" | "warn" | "bad"> = { WARN: "warn", ERROR: "bad" };

const COLUMNS: readonly Column<Line>[] = [
  { name: "Time", width: "minmax(7.5rem, .6fr)", show: (one) => <span class="mono dim">{one.at}</span> },
  { name: "Level", width: "4.5rem", show: (one) => (TONES[one.level] ? <Badge tone={TONES[one.level] ?? "calm"}>{one.level}</Badge> : <span class="dim">{one.level}</span>) },
  { name: "Speaker", width: "minmax(6rem, .5fr)", show: (one) => one.speaker, wideOnly: true },
  { name: "Message", width: "minmax(10rem, 6fr)", show: (one) => <span title={one.module}>{one.message}</span> },
];

function parsed(text: string, number: number): Line {
  const plain = LINE.exec(text);
  if (plain) {
    const [, at = "", level = "", speaker = "", module = "", message = ""] = plain;
    return { number, text, at: at.slice(11, 23), level, speaker, module, message };
  }
  const json = text.startsWith("{") ? fromJson(text) : null;
  return { number, text, at: "", level: "", speaker: "", module: "", message: text, ...json };
}

function fromJson(text: string): Partial<Line> | null {
  try {
    const found = JSON.parse(text) as Record<string, unknown>;
    const of = (...names: string[]) => String(names.map((name) => found[name]).find((value) => value !== undefined) ?? "");
    return { at: of("time", "timestamp").slice(11, 23), level: of("level"), speaker: of("speaker", "thread"), module: of("module", "target"), message: of("message") };
  } catch {
    return null;
  }
}
