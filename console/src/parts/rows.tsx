// Lists of any length: only the rows in sight are in the page. Arrow keys, j and k walk through them.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Column<T> {
  name: string;
  width: string; // of a CSS grid
  show: (row: T) => ComponentChildren;
  number?: boolean;
  sort?: (row: T) => number | string;
  wideOnly?: boolean; // not at phone width
}

const ROW = 34;
const MARGIN_ROWS = 12;
const HEIGHT_MAX = 8_000_000; // browsers hold no higher boxes; longer lists scroll in larger steps

export interface Sorted {
  column: string;
  down: boolean;
}

export function Rows<T>(props: {
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  keyOf: (row: T) => string | number;
  href?: (row: T) => string;
  onOpen?: (row: T) => void;
  selected?: string | number | undefined;
  follow?: boolean; // stay at the end while rows come
  onScrollBack?: () => void;
  sorted?: Sorted | undefined;
  onSort?: (sorted: Sorted) => void;
  height?: "page" | "content";
}) {
  const { rows, columns } = props;
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState({ top: 0, height: 600 });
  const [active, setActive] = useState(-1);
  const whole = rows.length * ROW;
  const height = Math.min(whole, HEIGHT_MAX);
  const scale = height > seen.height ? (whole - seen.height) / Math.max(1, height - seen.height) : 1;
  const top = whole > HEIGHT_MAX ? seen.top * scale : seen.top;
  const first = Math.max(0, Math.floor(top / ROW) - MARGIN_ROWS);
  const last = Math.min(rows.length, Math.ceil((top + seen.height) / ROW) + MARGIN_ROWS);
  const shift = whole > HEIGHT_MAX ? seen.top - top : 0;

  const look = () => {
    const here = box.current;
    if (here) setSeen({ top: here.scrollTop, height: Math.max(ROW, here.clientHeight - ROW) });
  };
  useLayoutEffect(() => {
    look();
    const here = box.current;
    if (!here) return;
    const watcher = new ResizeObserver(look);
    watcher.observe(here);
    return () => watcher.disconnect();
  }, []);
  useLayoutEffect(() => {
    const here = box.current;
    if (props.follow && here) {
      here.scrollTop = here.scrollHeight;
      look();
    }
  }, [props.follow, rows]);
  useEffect(() => {
    if (active >= rows.length) setActive(rows.length - 1);
  }, [rows.length]);

  const show = (index: number) => {
    const here = box.current;
    if (!here) return;
    setActive(index);
    const at = whole > HEIGHT_MAX ? (index * ROW) / scale : index * ROW;
    if (at < here.scrollTop) here.scrollTop = at;
    else if (at + 2 * ROW > here.scrollTop + here.clientHeight) here.scrollTop = at + 2 * ROW - here.clientHeight;
    look();
    requestAnimationFrame(() => here.querySelector<HTMLElement>(`[data-index="${index}"]`)?.focus({ preventScroll: true }));
  };
  const open = (row: T) => {
    if (props.href) location.hash = props.href(row);
    else props.onOpen?.(row);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target as HTMLElement;
    if (target.closest("input, textarea, select, button")) return;
    const page = Math.max(1, Math.floor(seen.height / ROW) - 1);
    const steps: Record<string, number> = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length };
    const step = steps[event.key];
    if (step !== undefined && rows.length) {
      event.preventDefault();
      show(Math.min(rows.length - 1, Math.max(0, (active < 0 ? (step > 0 ? -1 : 0) : active) + step)));
    } else if (event.key === "Enter" && rows[active] !== undefined && !target.closest("a")) {
      event.preventDefault();
      open(rows[active] as T);
    }
  };
  const grid = { gridTemplateColumns: columns.map((one) => one.width).join(" ") };
  const narrow = { "--narrow": columns.filter((one) => !one.wideOnly).map((one) => one.width).join(" "), "--wide": grid.gridTemplateColumns };
  const opens = Boolean(props.href || props.onOpen);

  return (
    <div class={`rows ${props.height === "content" ? "content" : ""}`} style={narrow} onKeyDown={onKey} data-rows>
      <div
        class="rows-body"
        role="table"
        aria-label={props.label}
        aria-rowcount={rows.length + 1}
        ref={box}
        tabIndex={0}
        style={{ "--height": `${height}px` }}
        onScroll={() => {
          const here = box.current;
          if (here && props.follow && here.scrollTop + here.clientHeight < here.scrollHeight - ROW) props.onScrollBack?.();
          look();
        }}
      >
        <div class="rows-head" role="rowgroup">
          <div class="row head" role="row" aria-rowindex={1}>
            {columns.map((one) => (
              <div key={one.name} role="columnheader" class={`${one.number ? "number" : ""} ${one.wideOnly ? "wide-only" : ""}`} aria-sort={props.sorted?.column === one.name ? (props.sorted.down ? "descending" : "ascending") : undefined}>
                {one.sort && props.onSort ? (
                  <button type="button" class="sorter" onClick={() => props.onSort?.({ column: one.name, down: props.sorted?.column === one.name ? !props.sorted.down : Boolean(one.number) })}>
                    {one.name}
                    <span aria-hidden="true">{props.sorted?.column === one.name ? (props.sorted.down ? " ↓" : " ↑") : ""}</span>
                  </button>
                ) : (
                  one.name
                )}
              </div>
            ))}
          </div>
        </div>
        <div class="rows-space" role="rowgroup">
          {rows.slice(first, last).map((row, number) => {
            const index = first + number;
            const key = props.keyOf(row);
            return (
              <div
                key={key}
                role="row"
                aria-rowindex={index + 2}
                data-index={index}
                tabIndex={index === active ? 0 : -1}
                class={`row ${opens ? "opens" : ""} ${key === props.selected ? "selected" : ""}`}
                style={{ transform: `translateY(${index * ROW + shift}px)` }}
                onFocus={() => setActive(index)}
                onClick={(event) => {
                  if (!opens || (event.target as HTMLElement).closest("a, button")) return;
                  setActive(index);
                  open(row);
                }}
              >
                {columns.map((one, place) => (
                  <div key={one.name} role="cell" class={`${one.number ? "number" : ""} ${one.wideOnly ? "wide-only" : ""}`}>
                    {place === 0 && props.href ? <a href={props.href(row)} tabIndex={-1}>{one.show(row)}</a> : one.show(row)}
                  </div>
                ))}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

export function sortRows<T>(rows: readonly T[], columns: readonly Column<T>[], sorted: Sorted | undefined): readonly T[] {
  const by = columns.find((one) => one.name === sorted?.column)?.sort;
  if (!by || !sorted) return rows;
  const sign = sorted.down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [by(a), by(b)];
    return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
  });
}
