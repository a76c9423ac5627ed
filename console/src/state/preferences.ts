// What a person has chosen for this browser: theme, payloads, how often figures are asked for.
import { Cell } from "./cell";

export type Theme = "system" | "light" | "dark";

export const INTERVALS_MS = [500, 1000, 2000, 5000, 15000, 60000, 300000, 3600000];

function kept(name: string): string | null {
  try {
    return localStorage.getItem(`borzoi.${name}`);
  } catch {
    return null; // Storage is switched off: the choice lasts as long as the page.
  }
}

function keep(name: string, text: string): void {
  try {
    localStorage.setItem(`borzoi.${name}`, text);
  } catch {
    return; // As above.
  }
}

function readTheme(): Theme {
  const text = kept("theme");
  return text === "light" || text === "dark" ? text : "system";
}

function readInterval(): number {
  const number = Number(kept("interval"));
  return INTERVALS_MS.includes(number) ? number : 2000;
}

export const theme = new Cell<Theme>(readTheme());
export const hidesPayloads = new Cell<boolean>(kept("payloads") === "hidden");
export const intervalMs = new Cell<number>(readInterval());

const darkOutside = window.matchMedia("(prefers-color-scheme: dark)");
export const isDark = new Cell<boolean>(false);

function applyTheme(): void {
  isDark.value = theme.value === "dark" || (theme.value === "system" && darkOutside.matches);
  document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
}

export function startPreferences(): void {
  applyTheme();
  darkOutside.addEventListener("change", applyTheme);
  theme.watch((chosen) => {
    keep("theme", chosen);
    applyTheme();
  });
  hidesPayloads.watch((hidden) => keep("payloads", hidden ? "hidden" : "shown"));
  intervalMs.watch((chosen) => keep("interval", String(chosen)));
}

export function nextTheme(): void {
  const order: Theme[] = ["system", "light", "dark"];
  theme.value = order[(order.indexOf(theme.value) + 1) % order.length] ?? "system";
}
