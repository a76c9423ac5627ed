// Where the page is: #/path?query. Filters and offsets are in the query, so a link shows the same.
import { Cell, useCell } from "./cell";

export interface Route {
  path: string;
  parts: string[];
  query: URLSearchParams;
}

function read(): Route {
  const text = location.hash.replace(/^#/, "") || "/";
  const cut = text.indexOf("?");
  const path = cut < 0 ? text : text.slice(0, cut);
  return {
    path,
    parts: path.split("/").filter(Boolean).map(decoded),
    query: new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1)),
  };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const route = new Cell<Route>(read());
window.addEventListener("hashchange", () => (route.value = read()));

export const useRoute = (): Route => useCell(route);

export function currentRoute(): Route {
  return route.value;
}

export type Query = Record<string, string | number | null | undefined>;

export function link(path: string, query: Query = {}): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") found.set(name, String(value));
  }
  const text = found.toString();
  return `#${path}${text ? `?${text}` : ""}`;
}

export function go(path: string, query: Query = {}): void {
  location.hash = link(path, query);
}

/** Changes the query in place; `null` takes a name out. The way back does not grow. */
export function setQuery(changes: Query): void {
  const query: Query = Object.fromEntries(route.value.query);
  history.replaceState(null, "", link(route.value.path, { ...query, ...changes }));
  route.value = read();
}
