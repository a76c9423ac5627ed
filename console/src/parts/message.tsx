// One message: a line of its payload for lists, and everything of it for the inspector.
import { useMemo, useState } from "preact/hooks";
import type { Message } from "../api/messages";
import { decode, DECODER_NAMES, DECODERS, preview, type Decoder } from "../decode";
import { count, size, time } from "../format";
import { useCell } from "../state/cell";
import { hidesPayloads } from "../state/preferences";
import { Button, CopyButton, Facts } from "./basics";

export function Payload(props: { message: Message }) {
  const hidden = useCell(hidesPayloads);
  const text = useMemo(() => (hidden ? "" : preview(props.message.payload)), [hidden, props.message]);
  return hidden ? <span class="masked">payload hidden</span> : <span class="mono payload">{text}</span>;
}

export function Inspector(props: { message: Message; name: string; onClose: () => void }) {
  const { message } = props;
  const hidden = useCell(hidesPayloads);
  const [decoder, setDecoder] = useState<Decoder>("auto");
  const decoded = useMemo(() => (hidden ? null : decode(message.payload, decoder)), [message, decoder, hidden]);
  return (
    <aside class="inspector" aria-label={`Message ${message.offset}`}>
      <header>
        <h2>Message {count(message.offset)}</h2>
        <Button kind="quiet" icon="close" label="Close the message" onClick={props.onClose} />
      </header>
      <Facts
        rows={[
          ["Partition", message.partition],
          ["Time", time(message.timestamp)],
          ["Sender's time", message.origin ? time(message.origin) : "–"],
          ["Id", <span class="mono">{String(message.id)}</span>],
          ["Checksum", <span class="mono">{message.checksum.toString(16).padStart(16, "0")}</span>],
          ["Payload", `${size(message.payload.length)} (${count(message.payload.length)} bytes)`],
        ]}
      />
      <h3>Headers</h3>
      {message.headersAreBroken ? (
        <p class="hint">The header bytes of this message cannot be read.</p>
      ) : message.headers.length === 0 ? (
        <p class="hint">None.</p>
      ) : (
        <table class="plain headers">
          <thead><tr><th>Key</th><th>Kind</th><th>Value</th></tr></thead>
          <tbody>
            {message.headers.map((one, index) => (
              <tr key={index}><td class="mono">{one.key}</td><td>{one.kind}</td><td class="mono">{hidden ? "hidden" : one.value}</td></tr>
            ))}
          </tbody>
        </table>
      )}
      <div class="payload-head">
        <h3>Payload</h3>
        <select aria-label="Show the payload as" value={decoder} onChange={(event) => setDecoder(event.currentTarget.value as Decoder)}>
          {DECODERS.map((one) => (
            <option key={one} value={one}>{one === "auto" && decoded && decoder === "auto" ? `Auto: ${DECODER_NAMES[decoded.decoder]}` : DECODER_NAMES[one]}</option>
          ))}
        </select>
        <CopyButton label="Copy the payload" text={() => decoded?.text ?? ""} />
        <Button kind="quiet" icon="download" label="Download the payload" disabled={hidden} onClick={() => download(message.payload, `${props.name}-${message.partition}-${message.offset}.bin`)} />
      </div>
      {decoded ? (
        decoded.problem ? <p class="hint">{decoded.problem}</p> : <pre class="payload-text" tabIndex={0} aria-label="Payload">{decoded.text}</pre>
      ) : (
        <p class="hint">Payloads are hidden. The key h shows them.</p>
      )}
    </aside>
  );
}

export function download(bytes: Uint8Array | Blob, name: string): void {
  const blob = bytes instanceof Blob ? bytes : new Blob([bytes.slice()], { type: "application/octet-stream" });
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
