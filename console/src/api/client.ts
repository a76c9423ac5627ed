// The way to the broker: one token, one function that asks, and what went wrong as values.
import { Cell } from "../state/cell";

export interface Session {
  token: string;
  expiresAt: number; // seconds since 1970
  begunAt: number;
  userId: number;
  username: string;
}

/** The broker has answered, and it was a refusal. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly reason: string,
    readonly field: string | null,
  ) {
    super(reason);
  }
}

/** There was no answer. */
export class Unreachable extends Error {
  constructor() {
    super("The broker does not answer.");
  }
}

export const isAbort = (error: unknown): boolean =>
  error instanceof DOMException && error.name === "AbortError";

const KEPT = "borzoi.session";

function readSession(): Session | null {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEPT) ?? "null") as Session | null;
    return found && found.expiresAt * 1000 > Date.now() ? found : null;
  } catch {
    return null;
  }
}

export const session = new Cell<Session | null>(readSession());
export const farewell = new Cell<string>(""); // why the last session has ended
export const isLost = new Cell<boolean>(false); // the broker does not answer at the moment

session.watch((now) => {
  try {
    if (now) sessionStorage.setItem(KEPT, JSON.stringify(now));
    else sessionStorage.removeItem(KEPT);
  } catch {
    return; // Storage is switched off: the session lasts as long as the page.
  }
});

export interface Ask {
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
  accept?: string;
  signal?: AbortSignal | undefined;
  isPublic?: boolean;
}

export async function ask(method: string, path: string, options: Ask = {}): Promise<Response> {
  const used = session.value;
  const headers: Record<string, string> = { Accept: options.accept ?? "application/json" };
  if (used && !options.isPublic) headers.Authorization = `Bearer ${used.token}`;
  let body: string | null = null;
  if (options.body !== undefined) {
    headers["Content-Type"] = "application/json";
    body = toJson(options.body);
  }
  const response = await reach(path + queryText(options.query), {
    method,
    headers,
    body,
    cache: "no-store",
    signal: options.signal ?? null,
  });
  if (response.ok) return response;
  if (response.status === 401 && !options.isPublic && used === session.value) {
    farewell.value = "Your session has ended. Sign in to go on where you were.";
    session.value = null;
  }
  throw await refusal(response);
}

async function reach(path: string, request: RequestInit): Promise<Response> {
  try {
    const response = await fetch(path, request);
    isLost.value = false;
    return response;
  } catch (error) {
    if (isAbort(error)) throw error;
    isLost.value = true;
    throw new Unreachable();
  }
}

async function refusal(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => "");
  try {
    const body = JSON.parse(text) as { code: string; reason: string; field: string | null };
    return new ApiError(response.status, body.code, body.reason, body.field);
  } catch {
    const reason = text || REASONS[response.status] || `HTTP status ${response.status}`;
    return new ApiError(response.status, "", reason, null);
  }
}

const REASONS: Record<number, string> = {
  401: "The broker does not accept the token.",
  403: "You lack the permission for this.",
  503: "The broker is busy; it is asked again.",
};

export async function getJson<T>(path: string, options: Ask = {}): Promise<T> {
  return (await (await ask("GET", path, options)).json()) as T;
}

export async function sendJson<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await ask(method, path, body === undefined ? {} : { body });
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

function queryText(query: Ask["query"]): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) found.set(name, String(value));
  }
  const text = found.toString();
  return text ? `?${text}` : "";
}

const BIG = "@borzoi-big@";

/** JSON in which a bigint is written as the number that it is. */
export function toJson(value: unknown): string {
  const text = JSON.stringify(value, (_key, one: unknown) =>
    typeof one === "bigint" ? `${BIG}${one}` : one,
  );
  return text.replace(new RegExp(`"${BIG}(\\d+)"`, "g"), "$1");
}

interface Identity {
  user_id: number;
  access_token: { token: string; expiry: number };
}

function begin(identity: Identity, username: string): void {
  farewell.value = "";
  session.value = {
    token: identity.access_token.token,
    expiresAt: identity.access_token.expiry,
    begunAt: Date.now() / 1000,
    userId: identity.user_id,
    username,
  };
}

export async function signIn(username: string, password: string): Promise<void> {
  const body = { username, password };
  const response = await ask("POST", "/users/login", { body, isPublic: true });
  begin((await response.json()) as Identity, username);
}

export async function signInWithToken(token: string): Promise<void> {
  const response = await ask("POST", "/personal-access-tokens/login", { body: { token }, isPublic: true });
  const identity = (await response.json()) as Identity;
  begin(identity, `user ${identity.user_id}`);
  const own = await getJson<{ username: string }>(`/users/${identity.user_id}`).catch(() => null);
  if (own && session.value) session.value = { ...session.value, username: own.username };
}

export async function signOut(): Promise<void> {
  try {
    await ask("DELETE", "/users/logout");
  } finally {
    farewell.value = "You have signed out.";
    session.value = null;
  }
}

const LOOK_MS = 1000;
const REFRESH_AT = 0.7; // of the life of a token

/** Exchanges the token for a later one while the page is used; ends the session with the token. */
export function watchExpiry(): void {
  let isAsking = false;
  const look = async (): Promise<void> => {
    const now = session.value;
    if (!now || isAsking) return;
    const seconds = Date.now() / 1000;
    if (seconds >= now.expiresAt) {
      farewell.value = "Your session has ended. Sign in to go on where you were.";
      session.value = null;
      return;
    }
    const age = (seconds - now.begunAt) / (now.expiresAt - now.begunAt);
    if (document.hidden || age < REFRESH_AT) return;
    isAsking = true;
    try {
      const response = await ask("POST", "/users/refresh-token", { body: { token: now.token }, isPublic: true });
      if (session.value === now) begin((await response.json()) as Identity, now.username);
    } catch (error) {
      if (error instanceof ApiError && session.value === now) {
        farewell.value = "Your session has ended. Sign in to go on where you were.";
        session.value = null;
      }
    } finally {
      isAsking = false;
    }
  };
  window.setInterval(() => void look(), LOOK_MS);
  document.addEventListener("visibilitychange", () => void look());
}
