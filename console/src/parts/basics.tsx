// The small parts of which pages are made.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ApiError, Unreachable } from "../api/client";
import { Icon, type IconName } from "./icons";

export function Button(props: {
  onClick?: () => void;
  kind?: "plain" | "main" | "danger" | "quiet";
  icon?: IconName;
  label?: string; // for a button that shows an icon alone
  disabled?: boolean;
  type?: "button" | "submit";
  pressed?: boolean;
  children?: ComponentChildren;
}) {
  const { kind = "plain", icon, label, children } = props;
  return (
    <button
      type={props.type ?? "button"}
      class={`button ${kind}${children ? "" : " only-icon"}`}
      onClick={props.onClick}
      disabled={props.disabled}
      aria-label={label}
      title={label}
      aria-pressed={props.pressed}
    >
      {icon && <Icon name={icon} />}
      {children && <span>{children}</span>}
    </button>
  );
}

export function Field(props: { label: string; hint?: ComponentChildren; problem?: string; children: (id: string) => ComponentChildren }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      {props.children(id)}
      {props.problem ? (
        <p class="problem" role="alert">{props.problem}</p>
      ) : (
        props.hint && <p class="hint">{props.hint}</p>
      )}
    </div>
  );
}

interface TextFieldProps {
  label: string;
  value: string;
  onText: (text: string) => void;
  hint?: ComponentChildren;
  problem?: string;
  type?: "text" | "password";
  name?: string;
  placeholder?: string;
  autocomplete?: "off" | "username" | "current-password" | "new-password";
  autofocus?: boolean;
  required?: boolean;
  inputMode?: "numeric";
}

export function TextField(props: TextFieldProps) {
  const { label, hint, problem, onText, type, autocomplete, ...rest } = props;
  return (
    <Field label={label} hint={hint} {...(problem === undefined ? {} : { problem })}>
      {(id) => {
        const given = { ...rest, id, spellcheck: false, autocomplete: autocomplete ?? "off", onInput: (event: { currentTarget: HTMLInputElement }) => onText(event.currentTarget.value) };
        return type === "password" ? <input type="password" {...given} /> : <input type="text" {...given} />;
      }}
    </Field>
  );
}

export function Select<T extends string>(props: { label: string; value: T; options: readonly (readonly [T, string])[]; onChoose: (value: T) => void; hint?: ComponentChildren }) {
  return (
    <Field label={props.label} hint={props.hint}>
      {(id) => (
        <select id={id} value={props.value} onChange={(event) => props.onChoose(event.currentTarget.value as T)}>
          {props.options.map(([value, name]) => (
            <option key={value} value={value}>{name}</option>
          ))}
        </select>
      )}
    </Field>
  );
}

export function Check(props: { label: ComponentChildren; checked: boolean; onChange: (checked: boolean) => void; disabled?: boolean }) {
  return (
    <label class="check">
      <input type="checkbox" checked={props.checked} disabled={props.disabled} onChange={(event) => props.onChange(event.currentTarget.checked)} />
      <span>{props.label}</span>
    </label>
  );
}

/** A filter over a list. The key "/" goes there. */
export function Search(props: { label: string; value: string; onText: (text: string) => void; placeholder?: string }) {
  return (
    <div class="search">
      <Icon name="search" />
      <input
        type="search"
        data-search
        aria-label={props.label}
        placeholder={props.placeholder ?? props.label}
        value={props.value}
        spellcheck={false}
        onInput={(event) => props.onText(event.currentTarget.value)}
      />
      <kbd aria-hidden="true">/</kbd>
    </div>
  );
}

export function Choice<T extends string>(props: { label: string; value: T; options: readonly (readonly [T, string])[]; onChoose: (value: T) => void }) {
  return (
    <div class="choice" role="group" aria-label={props.label}>
      {props.options.map(([value, name]) => (
        <button key={value} type="button" aria-pressed={value === props.value} onClick={() => props.onChoose(value)}>{name}</button>
      ))}
    </div>
  );
}

export function Badge(props: { tone?: "calm" | "good" | "warn" | "bad"; children: ComponentChildren }) {
  return <span class={`badge ${props.tone ?? "calm"}`}>{props.children}</span>;
}

export function Panel(props: { title?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren; flush?: boolean; class?: string }) {
  return (
    <section class={`panel ${props.flush ? "flush" : ""} ${props.class ?? ""}`}>
      {props.title && (
        <header class="panel-head">
          <h2>{props.title}</h2>
          {props.actions && <div class="actions">{props.actions}</div>}
        </header>
      )}
      {props.children}
    </section>
  );
}

/** Nothing is there yet: what to do, as a command that works as it stands. */
export function Empty(props: { title: string; command?: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{props.title}</p>
      {props.children && <p>{props.children}</p>}
      {props.command && <Command text={props.command} />}
    </div>
  );
}

export function Command(props: { text: string }) {
  return (
    <div class="command">
      <code>{props.text}</code>
      <CopyButton text={() => props.text} label="Copy the command" />
    </div>
  );
}

export function CopyButton(props: { text: () => string; label: string; children?: ComponentChildren }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await copyText(props.text());
    setDone(true);
    window.setTimeout(() => setDone(false), 1200);
  };
  return (
    <Button kind="quiet" icon={done ? "check" : "copy"} label={done ? "Copied" : props.label} onClick={() => void copy()}>
      {props.children}
    </Button>
  );
}

/** Pages over plain HTTP on other hosts than this one have no clipboard; a selection does it there. */
async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

export function Problem(props: { error: Error | undefined; stale?: boolean }) {
  const { error } = props;
  if (!error || error instanceof Unreachable) return null; // The bar above the page says that.
  const permission = error instanceof ApiError && error.status === 403;
  return (
    <div class="notice bad" role="alert">
      <Icon name="warning" />
      <p>
        {permission ? <>You lack the permission for this. </> : null}
        {error.message}
      </p>
    </div>
  );
}

export function Loading() {
  return (
    <div class="loading" role="status">
      <span class="visually-hidden">Loading</span>
      <i /><i /><i />
    </div>
  );
}

export function Figure(props: { label: string; value: ComponentChildren; note?: ComponentChildren; href?: string }) {
  return (
    <div class="figure">
      <dt>{props.href ? <a href={props.href}>{props.label}</a> : props.label}</dt>
      <dd>{props.value}</dd>
      {props.note && <dd class="note">{props.note}</dd>}
    </div>
  );
}

export function Facts(props: { rows: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {props.rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Meter(props: { share: number; label: string; tone?: "calm" | "warn" | "bad" }) {
  return (
    <meter class={`meter ${props.tone ?? "calm"}`} min={0} max={1} value={Math.min(1, Math.max(0, props.share))} aria-label={props.label} />
  );
}

/** Calls what is given once the text has rested. */
export function useRested<T>(value: T, ms: number): T {
  const [rested, setRested] = useState(value);
  const first = useRef(true);
  useEffect(() => {
    if (first.current) {
      first.current = false;
      return;
    }
    const timer = window.setTimeout(() => setRested(value), ms);
    return () => window.clearTimeout(timer);
  }, [value, ms]);
  return rested;
}
