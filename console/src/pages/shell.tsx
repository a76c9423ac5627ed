// What surrounds every page: the way around, the state of the connection, the switches, the keys.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { isLost, session, signOut } from "../api/client";
import { Button } from "../parts/basics";
import { Dialog } from "../parts/dialog";
import { Icon, type IconName } from "../parts/icons";
import { Mark } from "../parts/mark";
import { useCell } from "../state/cell";
import { hidesPayloads, INTERVALS_MS, intervalMs, nextTheme, theme } from "../state/preferences";
import { go, useRoute } from "../state/route";

const PLACES: readonly (readonly [string, readonly (readonly [string, string, IconName, string])[]])[] = [
  ["", [["/", "Overview", "overview", "o"]]],
  [
    "Data",
    [
      ["/streams", "Streams", "streams", "s"],
      ["/lag", "Consumer lag", "lag", "g"],
    ],
  ],
  [
    "Broker",
    [
      ["/load", "Load", "load", "p"],
      ["/clients", "Clients", "clients", "c"],
      ["/logs", "Logs", "logs", "l"],
      ["/server", "Server", "server", "v"],
      ["/bench", "Bench reports", "bench", "b"],
    ],
  ],
  [
    "Access",
    [
      ["/users", "Users", "users", "u"],
      ["/tokens", "Tokens", "tokens", "t"],
    ],
  ],
];

const isHere = (path: string, place: string): boolean => (place === "/" ? path === "/" : path === place || path.startsWith(`${place}/`));

export function Shell(props: { children: ComponentChildren }) {
  const route = useRoute();
  const lost = useCell(isLost);
  const user = useCell(session);
  const [menu, setMenu] = useState(false);
  const [help, setHelp] = useState(false);
  useEffect(() => setMenu(false), [route.path]);
  useKeys(() => setHelp(true));
  return (
    <div class={`shell ${menu ? "with-menu" : ""}`}>
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.getElementById("content")?.focus(); }}>Skip to the page</a>
      <header class="bar">
        <Button kind="quiet" icon="menu" label={menu ? "Close the menu" : "Open the menu"} onClick={() => setMenu(!menu)} />
        <a class="name" href="#/"><Mark /><b>borzoi</b></a>
      </header>
      <nav aria-label="Pages" class="side">
        <a class="name" href="#/"><Mark /><span><b>borzoi</b><small>{location.host}</small></span></a>
        <div class="places">
          {PLACES.map(([title, places]) => (
            <div class="place-group" key={title}>
              {title && <p>{title}</p>}
              {places.map(([path, name, icon, key]) => (
                <a key={path} href={`#${path}`} aria-current={isHere(route.path, path) ? "page" : undefined}>
                  <Icon name={icon} />
                  <span>{name}</span>
                  <kbd aria-hidden="true">g {key}</kbd>
                </a>
              ))}
            </div>
          ))}
        </div>
        <Switches onHelp={() => setHelp(true)} />
        <div class="who">
          <span title={`user ${user?.userId}`}>{user?.username}</span>
          <Button kind="quiet" icon="out" label="Sign out" onClick={() => void signOut().catch(() => undefined)} />
        </div>
      </nav>
      {menu && <button type="button" class="veil" aria-label="Close the menu" onClick={() => setMenu(false)} />}
      <main id="content" tabIndex={0}>
        {lost && (
          <div class="notice bad" role="alert">
            <Icon name="warning" />
            <p>The broker does not answer. What you see is from before; the page goes on by itself when it is back.</p>
          </div>
        )}
        {props.children}
      </main>
      {help && <Keys onClose={() => setHelp(false)} />}
    </div>
  );
}

function Switches(props: { onHelp: () => void }) {
  const chosen = useCell(theme);
  const hidden = useCell(hidesPayloads);
  const interval = useCell(intervalMs);
  return (
    <div class="switches">
      <Button kind="quiet" icon={chosen === "dark" ? "moon" : chosen === "light" ? "sun" : "system"} label={`Theme: ${chosen}`} onClick={nextTheme} />
      <Button kind="quiet" icon={hidden ? "hidden" : "eye"} label={hidden ? "Show payloads" : "Hide payloads"} pressed={hidden} onClick={() => (hidesPayloads.value = !hidden)} />
      <Button kind="quiet" icon="keys" label="Keys" onClick={props.onHelp} />
      <select aria-label="Refresh every" title="Refresh every" value={String(interval)} onChange={(event) => (intervalMs.value = Number(event.currentTarget.value))}>
        {INTERVALS_MS.map((ms) => (
          <option key={ms} value={String(ms)}>{said(ms)}</option>
        ))}
      </select>
    </div>
  );
}

const said = (ms: number): string => (ms < 1000 ? `${ms} ms` : ms < 60_000 ? `${ms / 1000} s` : ms < 3_600_000 ? `${ms / 60_000} min` : "1 h");

function useKeys(onHelp: () => void): void {
  useEffect(() => {
    let went = -Infinity;
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (target.closest("input, textarea, select")) {
        if (event.key === "Escape" && !target.closest("dialog")) {
          event.preventDefault(); // The browser would empty a filter.
          target.blur();
        }
        return;
      }
      if (document.querySelector("dialog[open]")) return;
      const isSecond = performance.now() - went < 1200;
      went = -Infinity;
      if (isSecond) {
        const place = PLACES.flatMap(([, places]) => places).find(([, , , key]) => key === event.key);
        if (place) {
          event.preventDefault();
          go(place[0]);
        }
        return;
      }
      const actions: Record<string, () => void> = {
        g: () => (went = performance.now()),
        "/": () => document.querySelector<HTMLElement>("[data-search]")?.focus(),
        "?": onHelp,
        h: () => (hidesPayloads.value = !hidesPayloads.value),
        d: nextTheme,
        "[": () => document.querySelector<HTMLElement>("[data-before]:not(:disabled)")?.click(),
        "]": () => document.querySelector<HTMLElement>("[data-next]:not(:disabled)")?.click(),
        n: () => document.querySelector<HTMLElement>("[data-new] button")?.click(),
        j: () => enterRows(event),
        ArrowDown: () => enterRows(event),
      };
      const action = actions[event.key];
      if (!action) return;
      if (event.key === "/" || event.key === "n") event.preventDefault();
      action();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
}

function enterRows(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  if (target.closest("[data-rows]")) return; // The list moves by itself.
  const body = document.querySelector<HTMLElement>("[data-rows] .rows-body");
  if (!body) return;
  event.preventDefault();
  body.focus();
  body.dispatchEvent(new KeyboardEvent("keydown", { key: event.key, bubbles: true }));
}

const KEYS: readonly (readonly [string, string])[] = [
  ["/", "Go to the filter of the page"],
  ["j k ↑ ↓", "Walk through a list"],
  ["Enter", "Open the row"],
  ["[ ]", "Page back, page on"],
  ["n", "Create (where a page can)"],
  ["h", "Hide or show payloads"],
  ["d", "Change the theme"],
  ["Esc", "Close a dialog, leave a field"],
  ["?", "This list"],
];

function Keys(props: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={props.onClose}>
      <div class="dialog-body">
        <dl class="keys">
          {KEYS.map(([key, does]) => (
            <div key={key}><dt><kbd>{key}</kbd></dt><dd>{does}</dd></div>
          ))}
          {PLACES.flatMap(([, places]) => places).map(([, name, , key]) => (
            <div key={key}><dt><kbd>g {key}</kbd></dt><dd>{name}</dd></div>
          ))}
        </dl>
      </div>
    </Dialog>
  );
}

export function Page(props: { title: ComponentChildren; crumbs?: readonly (readonly [string, string])[]; actions?: ComponentChildren; note?: ComponentChildren; fill?: boolean; children: ComponentChildren }) {
  const title = typeof props.title === "string" ? props.title : "borzoi";
  useEffect(() => {
    document.title = `${title} · borzoi`;
  }, [title]);
  return (
    <div class={`page ${props.fill ? "fill" : ""}`}>
      <header class="page-head">
        <div class="page-title">
          {props.crumbs && (
            <nav aria-label="Where this is" class="crumbs">
              {props.crumbs.map(([name, href]) => (
                <a key={href} href={href}>{name}</a>
              ))}
            </nav>
          )}
          <h1>{props.title}</h1>
          {props.note && <p class="page-note">{props.note}</p>}
        </div>
        {props.actions && <div class="actions" data-new>{props.actions}</div>}
      </header>
      {props.children}
    </div>
  );
}
