// A value that many parts of the page show. Its users are drawn again when it changes.
import { useEffect, useState } from "preact/hooks";

export class Cell<T> {
  private readonly watchers = new Set<(value: T) => void>();

  constructor(private held: T) {}

  get value(): T {
    return this.held;
  }

  set value(next: T) {
    if (Object.is(next, this.held)) return;
    this.held = next;
    for (const watcher of [...this.watchers]) watcher(next);
  }

  watch(watcher: (value: T) => void): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }
}

export function useCell<T>(cell: Cell<T>): T {
  const [value, setValue] = useState(cell.value);
  useEffect(() => {
    setValue(() => cell.value);
    return cell.watch((next) => setValue(() => next));
  }, [cell]);
  return value;
}
