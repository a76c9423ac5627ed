// Messages as bytes: read from what a poll returns, without base64 and without losing digits.
//
//    checksum u64 | id u128 | offset u64 | timestamp u64 | origin u64 | headers u32 | payload u32 |
//    reserved u64 | payload | user headers
import { ask } from "./client";

export interface UserHeader {
  key: string;
  kind: string;
  value: string;
}

export interface Message {
  partition: number;
  offset: number;
  id: bigint;
  checksum: bigint;
  timestamp: number; // microseconds since 1970
  origin: number;
  payload: Uint8Array;
  headers: UserHeader[];
  headersAreBroken: boolean;
  size: number;
}

export interface PolledMessages {
  partition: number;
  current: number; // the last offset of the partition
  messages: Message[];
}

export interface Place {
  stream: string | number;
  topic: string | number;
  partition: number;
}

const HEAD = 64;

export const messagesPath = (stream: string | number, topic: string | number): string =>
  `/streams/${encodeURIComponent(stream)}/topics/${encodeURIComponent(topic)}/messages`;

export async function poll(
  place: Place,
  query: { kind: string; value?: number | bigint; count: number; wait?: string },
  signal?: AbortSignal,
): Promise<PolledMessages> {
  const response = await ask("GET", messagesPath(place.stream, place.topic), {
    accept: "application/octet-stream",
    signal,
    query: {
      partition_id: place.partition,
      kind: query.kind,
      value: String(query.value ?? 0),
      count: query.count,
      wait: query.wait,
    },
  });
  const partition = Number(response.headers.get("Partition-Id") ?? place.partition);
  return {
    partition,
    current: Number(response.headers.get("Current-Offset") ?? 0),
    messages: decodeMessages(new Uint8Array(await response.arrayBuffer()), partition),
  };
}

export function decodeMessages(bytes: Uint8Array, partition: number): Message[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const found: Message[] = [];
  let at = 0;
  while (at + HEAD <= bytes.length) {
    const headersSize = view.getUint32(at + 48, true);
    const payloadSize = view.getUint32(at + 52, true);
    const payloadAt = at + HEAD;
    const headersAt = payloadAt + payloadSize;
    const end = headersAt + headersSize;
    if (end > bytes.length) break;
    const headers = decodeHeaders(bytes.subarray(headersAt, end));
    found.push({
      partition,
      checksum: view.getBigUint64(at, true),
      id: view.getBigUint64(at + 8, true) | (view.getBigUint64(at + 16, true) << 64n),
      offset: Number(view.getBigUint64(at + 24, true)),
      timestamp: Number(view.getBigUint64(at + 32, true)),
      origin: Number(view.getBigUint64(at + 40, true)),
      payload: bytes.subarray(payloadAt, headersAt),
      headers: headers ?? [],
      headersAreBroken: headers === null,
      size: end - at,
    });
    at = end;
  }
  return found;
}

const KINDS = [
  "", "raw", "string", "bool", "int8", "int16", "int32", "int64", "int128",
  "uint8", "uint16", "uint32", "uint64", "uint128", "float32", "float64",
];

function decodeHeaders(bytes: Uint8Array): UserHeader[] | null {
  const found: UserHeader[] = [];
  let at = 0;
  const field = (): { kind: string; bytes: Uint8Array } | null => {
    if (at + 5 > bytes.length) return null;
    const view = new DataView(bytes.buffer, bytes.byteOffset + at, 5);
    const kind = KINDS[view.getUint8(0)];
    const size = view.getUint32(1, true);
    if (!kind || at + 5 + size > bytes.length) return null;
    const held = bytes.subarray(at + 5, at + 5 + size);
    at += 5 + size;
    return { kind, bytes: held };
  };
  while (at < bytes.length) {
    const key = field();
    const value = key && field();
    if (!key || !value) return null;
    found.push({ key: shown(key.kind, key.bytes), kind: value.kind, value: shown(value.kind, value.bytes) });
  }
  return found;
}

function shown(kind: string, bytes: Uint8Array): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  switch (kind) {
    case "string":
      return new TextDecoder().decode(bytes);
    case "bool":
      return bytes[0] ? "true" : "false";
    case "float32":
      return bytes.length === 4 ? String(view.getFloat32(0, true)) : toHex(bytes);
    case "float64":
      return bytes.length === 8 ? String(view.getFloat64(0, true)) : toHex(bytes);
    case "raw":
      return toHex(bytes);
    default:
      return String(integer(bytes, kind.startsWith("int")));
  }
}

function integer(bytes: Uint8Array, isSigned: boolean): bigint {
  let value = 0n;
  for (let at = bytes.length - 1; at >= 0; at -= 1) value = (value << 8n) | BigInt(bytes[at] ?? 0);
  return isSigned ? BigInt.asIntN(bytes.length * 8, value) : value;
}

export function toHex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
  return text;
}

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  }
  return btoa(text);
}
