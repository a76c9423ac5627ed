// A form that sends messages, with headers, to a partition of choice.
import { useState } from "preact/hooks";
import { sendJson } from "../api/client";
import { toBase64 } from "../api/messages";
import { plural } from "../format";
import { Button, Check, Choice, Field, Panel, Select, TextField } from "../parts/basics";
import type { TopicProps } from "./topic";

type Kind = "text" | "json" | "hex" | "base64";
type Target = "balanced" | "partition_id" | "messages_key";

interface Header {
  key: string;
  kind: string;
  value: string;
}

const HEADER_KINDS = ["string", "bool", "int64", "uint64", "float64", "raw"] as const;

export function Produce(props: TopicProps) {
  const [kind, setKind] = useState<Kind>("text");
  const [text, setText] = useState("");
  const [eachLine, setEachLine] = useState(false);
  const [target, setTarget] = useState<Target>("balanced");
  const [partition, setPartition] = useState(String(props.topic.partitions[0]?.id ?? 0));
  const [key, setKey] = useState("");
  const [id, setId] = useState("");
  const [headers, setHeaders] = useState<Header[]>([]);
  const [said, setSaid] = useState<{ isError: boolean; text: string } | null>(null);
  const [busy, setBusy] = useState(false);
  const bodies = read(text, kind, eachLine);
  const problem = text && typeof bodies === "string" ? bodies : "";

  const submit = async (event: Event) => {
    event.preventDefault();
    if (typeof bodies === "string" || busy) return;
    setBusy(true);
    try {
      const user_headers = headers.length ? headers.map(encoded) : undefined;
      await sendJson("POST", `${props.path}/messages`, {
        partitioning: { kind: target, value: targetValue(target, Number(partition), key) },
        messages: bodies.map((bytes) => ({ payload: toBase64(bytes), ...(id ? { id } : {}), ...(user_headers ? { user_headers } : {}) })),
      });
      setSaid({ isError: false, text: `${plural(bodies.length, "message")} appended.` });
      props.refresh();
    } catch (error) {
      setSaid({ isError: true, text: (error as Error).message });
    } finally {
      setBusy(false);
    }
  };
  const change = (index: number, changes: Partial<Header>) => setHeaders(headers.map((one, at) => (at === index ? { ...one, ...changes } : one)));

  return (
    <form class="produce" onSubmit={(event) => void submit(event)} noValidate onKeyDown={(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void submit(event); }}>
      <Panel title="Payload" actions={<Choice label="Kind of payload" value={kind} onChoose={setKind} options={[["text", "Text"], ["json", "JSON"], ["hex", "Hex"], ["base64", "Base64"]]} />}>
        <Field label="Payload" {...(problem ? { problem } : {})}>
          {(field) => <textarea id={field} class="mono" rows={10} spellcheck={false} value={text} placeholder={PLACEHOLDERS[kind]} onInput={(event) => setText(event.currentTarget.value)} />}
        </Field>
        <Check label="Each line is a message" checked={eachLine} onChange={setEachLine} />
      </Panel>
      <Panel title="Where to">
        <div class="pair">
          <Select label="Partition is chosen" value={target} onChoose={setTarget} options={[["balanced", "in turns"], ["partition_id", "by number"], ["messages_key", "by a key"]]} />
          {target === "partition_id" && <Select label="Partition" value={partition} onChoose={setPartition} options={props.topic.partitions.map((one) => [String(one.id), String(one.id)] as const)} />}
          {target === "messages_key" && <TextField label="Key" value={key} onText={setKey} hint="1 to 255 bytes. The same key is always in the same partition." />}
          <TextField label="Message id" value={id} onText={setId} placeholder="random" hint="A number or a UUID; counts where deduplication is on." />
        </div>
      </Panel>
      <Panel title="Headers" actions={<Button icon="plus" onClick={() => setHeaders([...headers, { key: "", kind: "string", value: "" }])}>Add a header</Button>}>
        {headers.length === 0 && <p class="hint">None. Headers travel beside the payload, with a kind each.</p>}
        {headers.map((one, index) => (
          <div class="header-row" key={index}>
            <input aria-label={`Key of header ${index + 1}`} placeholder="key" value={one.key} onInput={(event) => change(index, { key: event.currentTarget.value })} />
            <select aria-label={`Kind of header ${index + 1}`} value={one.kind} onChange={(event) => change(index, { kind: event.currentTarget.value })}>
              {HEADER_KINDS.map((each) => <option key={each} value={each}>{each === "raw" ? "raw (hex)" : each}</option>)}
            </select>
            <input aria-label={`Value of header ${index + 1}`} placeholder="value" value={one.value} onInput={(event) => change(index, { value: event.currentTarget.value })} />
            <Button kind="quiet" icon="close" label={`Remove header ${index + 1}`} onClick={() => setHeaders(headers.filter((_, at) => at !== index))} />
          </div>
        ))}
      </Panel>
      <div class="send">
        <Button type="submit" kind="main" icon="send" disabled={busy || typeof bodies === "string" || headers.some((one) => !one.key || !one.value)}>
          {typeof bodies === "string" || bodies.length === 1 ? "Send" : `Send ${plural(bodies.length, "message")}`}
        </Button>
        <span class="hint">Ctrl Enter</span>
        {said && <p class={said.isError ? "problem" : "done"} role={said.isError ? "alert" : "status"}>{said.text}</p>}
      </div>
    </form>
  );
}

const PLACEHOLDERS: Record<Kind, string> = { text: "hello world", json: '{"order": 17}', hex: "68 65 6c 6c 6f", base64: "aGVsbG8=" };

/** The payloads of the form, or what is wrong with them. */
function read(text: string, kind: Kind, eachLine: boolean): Uint8Array[] | string {
  const parts = eachLine ? text.split("\n").filter((line) => line !== "") : [text];
  if (parts.length === 0 || parts.some((part) => part === "")) return "A payload has at least one byte.";
  const found: Uint8Array[] = [];
  for (const part of parts) {
    const bytes = bytesOf(part, kind);
    if (typeof bytes === "string") return bytes;
    found.push(bytes);
  }
  return found;
}

function bytesOf(text: string, kind: Kind): Uint8Array | string {
  if (kind === "json") {
    try {
      JSON.parse(text);
    } catch (error) {
      return `No JSON: ${(error as Error).message}`;
    }
  }
  if (kind === "hex") {
    const digits = text.replace(/\s+/g, "");
    if (!/^([0-9a-f]{2})+$/i.test(digits)) return "Two hex digits for each byte.";
    return Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  }
  if (kind === "base64") {
    try {
      return Uint8Array.from(atob(text.trim()), (one) => one.charCodeAt(0));
    } catch {
      return "No base64.";
    }
  }
  return new TextEncoder().encode(text);
}

function targetValue(target: Target, partition: number, key: string): string {
  if (target === "balanced") return "";
  if (target === "messages_key") return toBase64(new TextEncoder().encode(key));
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, partition, true);
  return toBase64(bytes);
}

function encoded(header: Header): unknown {
  return {
    key: { kind: "string", value: toBase64(new TextEncoder().encode(header.key)) },
    value: { kind: header.kind, value: toBase64(headerBytes(header)) },
  };
}

function headerBytes(header: Header): Uint8Array {
  const bytes = new Uint8Array(8);
  const view = new DataView(bytes.buffer);
  switch (header.kind) {
    case "bool":
      return Uint8Array.of(/^(true|1|yes)$/i.test(header.value) ? 1 : 0);
    case "int64":
    case "uint64":
      view.setBigUint64(0, BigInt.asUintN(64, BigInt(header.value)), true);
      return bytes;
    case "float64":
      view.setFloat64(0, Number(header.value), true);
      return bytes;
    case "raw": {
      const found = bytesOf(header.value, "hex");
      if (typeof found === "string") throw new Error(`Header ${header.key}: ${found}`);
      return found;
    }
    default:
      return new TextEncoder().encode(header.value);
  }
}
