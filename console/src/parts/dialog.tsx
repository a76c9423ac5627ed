// Dialogs: the browser's own, so that focus, Escape and the rest of the page behave.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { isAbort } from "../api/client";
import { Button } from "./basics";

export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }) {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = box.current;
    const before = document.activeElement;
    if (dialog && !dialog.open) dialog.showModal();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={box}
      class={props.wide ? "wide" : ""}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      onMouseDown={(event) => event.target === box.current && props.onClose()}
    >
      <div class="dialog">
        <header>
          <h2 id={id}>{props.title}</h2>
          <Button kind="quiet" icon="close" label="Close" onClick={props.onClose} />
        </header>
        {props.children}
      </div>
    </dialog>
  );
}

/** A form in a dialog: one main action, what went wrong above it. */
export function FormDialog(props: {
  title: string;
  action: string;
  danger?: boolean;
  disabled?: boolean;
  wide?: boolean;
  onClose: () => void;
  onSubmit: () => Promise<void>;
  children: ComponentChildren;
}) {
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (busy || props.disabled) return;
    setBusy(true);
    setError("");
    try {
      await props.onSubmit();
      props.onClose();
    } catch (failure) {
      if (!isAbort(failure)) setError((failure as Error).message);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog title={props.title} onClose={props.onClose} {...(props.wide ? { wide: true } : {})}>
      <form onSubmit={(event) => void submit(event)} noValidate>
        <div class="dialog-body">{props.children}</div>
        {error && <p class="problem" role="alert">{error}</p>}
        <footer>
          <Button onClick={props.onClose}>Cancel</Button>
          <Button type="submit" kind={props.danger ? "danger" : "main"} disabled={busy || Boolean(props.disabled)}>
            {props.action}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

/** For what cannot be undone: the name has to be typed. */
export function ConfirmDialog(props: { title: string; name?: string; action: string; onClose: () => void; onConfirm: () => Promise<void>; children: ComponentChildren }) {
  const [typed, setTyped] = useState("");
  const id = useId();
  return (
    <FormDialog title={props.title} action={props.action} danger onClose={props.onClose} onSubmit={props.onConfirm} disabled={props.name !== undefined && typed !== props.name}>
      <p>{props.children}</p>
      {props.name !== undefined && (
        <div class="field">
          <label for={id}>
            Type <b class="mono">{props.name}</b> to confirm
          </label>
          <input id={id} value={typed} autocomplete="off" spellcheck={false} onInput={(event) => setTyped(event.currentTarget.value)} />
        </div>
      )}
    </FormDialog>
  );
}
