// Payloads made readable: text, JSON, XML, MessagePack, hex. What a payload is, is a guess until chosen.

export type Decoder = "auto" | "text" | "json" | "xml" | "msgpack" | "hex";
export const DECODERS: readonly Decoder[] = ["auto", "text", "json", "xml", "msgpack", "hex"];
export const DECODER_NAMES: Record<Decoder, string> = {
  auto: "Auto", text: "Text", json: "JSON", xml: "XML", msgpack: "MessagePack", hex: "Hex",
};

export interface Decoded {
  decoder: Exclude<Decoder, "auto">;
  text: string;
  problem?: string;
}

const SHOWN_MAX = 256 * 1024;
const strict = new TextDecoder("utf-8", { fatal: true });
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f]/;

function asText(bytes: Uint8Array): string | null {
  try {
    return strict.decode(bytes);
  } catch {
    return null;
  }
}

/** The whole payload, laid out over lines. */
export function decode(bytes: Uint8Array, wanted: Decoder): Decoded {
  const cut = bytes.length > SHOWN_MAX && (wanted === "text" || wanted === "hex") ? bytes.subarray(0, SHOWN_MAX) : bytes;
  switch (wanted) {
    case "text":
      return { decoder: "text", text: new TextDecoder().decode(cut) };
    case "hex":
      return { decoder: "hex", text: hexDump(cut) };
    case "json":
      return tryJson(bytes) ?? { decoder: "json", text: "", problem: "This payload is no JSON." };
    case "xml":
      return tryXml(bytes) ?? { decoder: "xml", text: "", problem: "This payload is no XML." };
    case "msgpack":
      return tryMessagePack(bytes, false) ?? { decoder: "msgpack", text: "", problem: "This payload is no MessagePack." };
    case "auto":
      return guess(bytes);
  }
}

function guess(bytes: Uint8Array): Decoded {
  const text = asText(bytes.length > SHOWN_MAX ? bytes.subarray(0, SHOWN_MAX) : bytes);
  if (text !== null && !CONTROL.test(text)) {
    return tryJson(bytes) ?? tryXml(bytes) ?? { decoder: "text", text };
  }
  return tryMessagePack(bytes, true) ?? { decoder: "hex", text: hexDump(bytes.subarray(0, SHOWN_MAX)) };
}

/** One line of a payload for lists. */
export function preview(bytes: Uint8Array, length = 240): string {
  const text = asText(cutAtCharacter(bytes, length));
  if (text !== null && !CONTROL.test(text)) return text.replace(/\s+/g, " ");
  const packed = bytes.length <= 4096 ? tryMessagePack(bytes, true, 0) : null;
  if (packed) return packed.text.slice(0, length);
  let hex = "";
  for (const byte of bytes.subarray(0, 48)) hex += `${byte.toString(16).padStart(2, "0")} `;
  return hex + (bytes.length > 48 ? "…" : "");
}

function cutAtCharacter(bytes: Uint8Array, length: number): Uint8Array {
  let end = Math.min(bytes.length, length);
  while (end > 0 && end < bytes.length && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.subarray(0, end);
}

function tryJson(bytes: Uint8Array): Decoded | null {
  const text = asText(bytes);
  if (text === null || !/^\s*[[{"\-\dtfn]/.test(text)) return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  return { decoder: "json", text: laidOut(text) };
}

/** JSON over lines as it stands: numbers keep all their digits, members their order. */
function laidOut(text: string): string {
  let out = "";
  let depth = 0;
  let inText = false;
  for (let at = 0; at < text.length; at += 1) {
    const one = text.charAt(at);
    if (inText) {
      out += one;
      if (one === "\\") out += text.charAt((at += 1));
      else if (one === '"') inText = false;
    } else if (one === '"') {
      inText = true;
      out += one;
    } else if (one === "{" || one === "[") {
      const close = one === "{" ? "}" : "]";
      const rest = /^\s*/.exec(text.slice(at + 1, at + 200))?.[0].length ?? 0;
      if (text.charAt(at + 1 + rest) === close) {
        out += one + close;
        at += 1 + rest;
      } else {
        depth += 1;
        out += `${one}\n${"  ".repeat(depth)}`;
      }
    } else if (one === "}" || one === "]") {
      depth -= 1;
      out += `\n${"  ".repeat(Math.max(0, depth))}${one}`;
    } else if (one === ",") out += `,\n${"  ".repeat(depth)}`;
    else if (one === ":") out += ": ";
    else if (!/\s/.test(one)) out += one;
  }
  return out;
}

function tryXml(bytes: Uint8Array): Decoded | null {
  const text = asText(bytes);
  if (text === null || !/^\s*<[?!a-zA-Z]/.test(text) || !/>\s*$/.test(text)) return null;
  let depth = 0;
  const lines = text.trim().replace(/>\s*</g, ">\n<").split("\n").map((line) => {
    if (/^<\//.test(line)) depth = Math.max(0, depth - 1);
    const shown = "  ".repeat(depth) + line;
    if (/^<[^?!/]/.test(line) && !/\/>$/.test(line) && !/<\//.test(line)) depth += 1;
    return shown;
  });
  return { decoder: "xml", text: lines.join("\n") };
}

export function hexDump(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += 16) {
    let hex = "";
    let text = "";
    for (let index = 0; index < 16; index += 1) {
      const byte = bytes[at + index];
      hex += byte === undefined ? "   " : `${byte.toString(16).padStart(2, "0")} `;
      if (index === 7) hex += " ";
      if (byte !== undefined) text += byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·";
    }
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex} ${text}`);
  }
  return lines.join("\n");
}

const DEPTH_MAX = 64;

class Packed {
  at = 0;
  private readonly view: DataView;

  constructor(private readonly bytes: Uint8Array) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  value(depth: number): unknown {
    if (depth > DEPTH_MAX) throw new RangeError("too deep");
    const kind = this.view.getUint8(this.at++);
    if (kind < 0x80) return kind;
    if (kind < 0x90) return this.map(kind & 15, depth);
    if (kind < 0xa0) return this.list(kind & 15, depth);
    if (kind < 0xc0) return this.text(kind & 31);
    if (kind >= 0xe0) return kind - 256;
    switch (kind) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: case 0xc5: case 0xc6: return this.binary(this.unsigned(1 << (kind - 0xc4)));
      case 0xc7: case 0xc8: case 0xc9: return this.extension(this.unsigned(1 << (kind - 0xc7)));
      case 0xca: return this.step(4, (at) => this.view.getFloat32(at));
      case 0xcb: return this.step(8, (at) => this.view.getFloat64(at));
      case 0xcc: case 0xcd: case 0xce: return this.unsigned(1 << (kind - 0xcc));
      case 0xcf: return this.step(8, (at) => this.view.getBigUint64(at));
      case 0xd0: return this.step(1, (at) => this.view.getInt8(at));
      case 0xd1: return this.step(2, (at) => this.view.getInt16(at));
      case 0xd2: return this.step(4, (at) => this.view.getInt32(at));
      case 0xd3: return this.step(8, (at) => this.view.getBigInt64(at));
      case 0xd4: case 0xd5: case 0xd6: case 0xd7: case 0xd8: return this.extension(1 << (kind - 0xd4));
      case 0xd9: case 0xda: case 0xdb: return this.text(this.unsigned(1 << (kind - 0xd9)));
      case 0xdc: case 0xdd: return this.list(this.unsigned(kind === 0xdc ? 2 : 4), depth);
      case 0xde: case 0xdf: return this.map(this.unsigned(kind === 0xde ? 2 : 4), depth);
      default: throw new RangeError("no such kind");
    }
  }

  private step<T>(size: number, read: (at: number) => T): T {
    const found = read(this.at);
    this.at += size;
    return found;
  }

  private unsigned(size: number): number {
    return this.step(size, (at) => (size === 1 ? this.view.getUint8(at) : size === 2 ? this.view.getUint16(at) : this.view.getUint32(at)));
  }

  private take(size: number): Uint8Array {
    if (this.at + size > this.bytes.length) throw new RangeError("cut short");
    return this.step(size, (at) => this.bytes.subarray(at, at + size));
  }

  private text(size: number): string {
    return strict.decode(this.take(size));
  }

  private binary(size: number): string {
    return `0x${[...this.take(size)].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
  }

  private extension(size: number): unknown {
    const kind = this.step(1, (at) => this.view.getInt8(at));
    return { extension: kind, data: this.binary(size) };
  }

  private list(size: number, depth: number): unknown[] {
    if (size > this.bytes.length - this.at) throw new RangeError("cut short");
    return Array.from({ length: size }, () => this.value(depth + 1));
  }

  private map(size: number, depth: number): Map<string, unknown> {
    if (size * 2 > this.bytes.length - this.at) throw new RangeError("cut short");
    const found = new Map<string, unknown>();
    for (let index = 0; index < size; index += 1) {
      const key = this.value(depth + 1);
      found.set(typeof key === "string" ? key : written(key, 0, ""), this.value(depth + 1));
    }
    return found;
  }
}

function tryMessagePack(bytes: Uint8Array, onlyWhole: boolean, indent = 2): Decoded | null {
  if (bytes.length === 0) return null;
  try {
    const packed = new Packed(bytes);
    const value = packed.value(0);
    if (packed.at !== bytes.length) return null;
    // Of a guess: a single number or text may be anything.
    if (onlyWhole && !(value instanceof Map) && !Array.isArray(value)) return null;
    return { decoder: "msgpack", text: written(value, indent, "") };
  } catch {
    return null; // Not this format, which is what was to be found out.
  }
}

function written(value: unknown, indent: number, before: string): string {
  if (typeof value === "bigint") return String(value);
  const isMap = value instanceof Map;
  if (!isMap && !Array.isArray(value)) return JSON.stringify(value) ?? "null";
  const inner = before + " ".repeat(indent);
  const parts = isMap
    ? [...value].map(([key, one]) => `${JSON.stringify(key)}: ${written(one, indent, inner)}`)
    : value.map((one: unknown) => written(one, indent, inner));
  const [open, close] = isMap ? ["{", "}"] : ["[", "]"];
  if (parts.length === 0) return `${open}${close}`;
  if (indent === 0) return `${open}${parts.join(", ")}${close}`;
  return `${open}\n${parts.map((part) => inner + part).join(",\n")}\n${before}${close}`;
}
