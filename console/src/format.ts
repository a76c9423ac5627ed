// Numbers, sizes, times and durations as people read them.

const UNITS: Record<string, number> = {
  B: 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12,
  KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
};

/** Bytes of a size as the API writes it, "147412 KiB". */
export function parseSize(text: string): number {
  const [number, unit] = text.split(" ");
  return Number(number) * (UNITS[unit ?? "B"] ?? 1);
}

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function size(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < SIZES.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${SIZES[unit]}`;
}

export const sizeOf = (text: string): string => size(parseSize(text));

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (value: number): string => grouped.format(value);

const SHORT = ["", "k", "M", "G", "T"];

export function short(value: number): string {
  let unit = 0;
  let left = Math.abs(value);
  while (left >= 1000 && unit < SHORT.length - 1) {
    left /= 1000;
    unit += 1;
  }
  const text = unit === 0 ? left.toFixed(left < 10 && left % 1 ? 1 : 0) : left.toFixed(left < 100 ? 1 : 0);
  return `${value < 0 ? "−" : ""}${text}${SHORT[unit] ? ` ${SHORT[unit]}` : ""}`;
}

export const plural = (number: number, one: string, many = `${one}s`): string =>
  `${count(number)} ${number === 1 ? one : many}`;

/** Date and time of microseconds since 1970, of this place. */
export function time(us: number, withDay = true): string {
  if (!us) return "–";
  const date = new Date(us / 1000);
  const pad = (value: number, width = 2) => String(value).padStart(width, "0");
  const clock = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}.${pad(date.getMilliseconds(), 3)}`;
  if (!withDay) return clock;
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${clock}`;
}

export function day(us: number): string {
  return time(us).slice(0, 16);
}

export function duration(us: number): string {
  const seconds = us / 1e6;
  if (us === 0) return "0";
  if (seconds < 1e-3) return `${us.toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(seconds < 0.01 ? 2 : 0)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} days ${hours % 24} h`;
}

const NEVER = 2 ** 63;

export const expiry = (us: number): string =>
  us >= NEVER ? "never" : us === 0 ? "server default" : duration(us);

export const limit = (bytes: number): string =>
  bytes >= NEVER ? "unlimited" : bytes === 0 ? "server default" : size(bytes);

export const percent = (share: number): string => `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;

const DURATION = /^(\d+(?:\.\d+)?)\s*(us|ms|s|sec|m|min|h|hours?|d|days?)$/i;
const IN_US: Record<string, number> = { us: 1, ms: 1e3, s: 1e6, m: 6e7, h: 3.6e9, d: 8.64e10 };

/** Microseconds of "90 s", "15 min", "7 days"; null if it is none. */
export function parseDuration(text: string): number | null {
  const match = DURATION.exec(text.trim());
  if (!match) return null;
  const unit = (match[2] ?? "").toLowerCase();
  const key = unit === "us" || unit === "ms" ? unit : unit.charAt(0);
  return Math.round(Number(match[1]) * (IN_US[key] ?? 1));
}

const SIZE = /^(\d+(?:\.\d+)?)\s*([KMGT]?i?B)?$/i;

/** Bytes of "512 MiB", "1 GB"; null if it is none. */
export function readSize(text: string): number | null {
  const match = SIZE.exec(text.trim());
  if (!match) return null;
  const named = Object.keys(UNITS).find((unit) => unit.toLowerCase() === (match[2] ?? "B").toLowerCase());
  return Math.round(Number(match[1]) * (UNITS[named ?? "B"] ?? 1));
}

/** A name as one word of a shell. */
export const word = (name: string): string =>
  /^[\w.:@%+=,-]+$/.test(name) ? name : `'${name.replaceAll("'", `'\\''`)}'`;
