// Personal access tokens of the user who is signed in.
import { useState } from "preact/hooks";
import { getJson, sendJson } from "../api/client";
import type { AccessToken } from "../api/types";
import { day, plural } from "../format";
import { Button, CopyButton, Empty, Loading, Problem, Select, TextField } from "../parts/basics";
import { ConfirmDialog, Dialog, FormDialog } from "../parts/dialog";
import { Rows, type Column } from "../parts/rows";
import { usePolled } from "../state/polled";
import { Page } from "./shell";

export function Tokens() {
  const tokens = usePolled((signal) => getJson<AccessToken[]>("/personal-access-tokens", { signal }), []);
  const [isNew, setIsNew] = useState(false);
  const [made, setMade] = useState<{ name: string; token: string } | null>(null);
  const [gone, setGone] = useState<string | null>(null);
  const columns: readonly Column<AccessToken>[] = [
    { name: "Name", width: "minmax(9rem, 3fr)", show: (one) => one.name },
    { name: "Expires", width: "minmax(9rem, 1fr)", show: (one) => (one.expiry_at === null ? "never" : day(one.expiry_at)), number: true },
    { name: "Action", width: "6rem", show: (one) => <Button kind="quiet" icon="bin" label={`Withdraw the token ${one.name}`} onClick={() => setGone(one.name)} />, number: true },
  ];
  return (
    <Page title="Access tokens" fill note={tokens.data && `${plural(tokens.data.length, "token")} of yours. A program signs in with one instead of a password.`} actions={<Button kind="main" icon="plus" onClick={() => setIsNew(true)}>New token</Button>}>
      <Problem error={tokens.error} />
      {!tokens.data && !tokens.error && <Loading />}
      {tokens.data?.length === 0 && <Empty title="You have no access token." command="./borzoi pat create reports">Create one with the button above, or in a terminal:</Empty>}
      {tokens.data && tokens.data.length > 0 && <Rows label="Access tokens" columns={columns} rows={tokens.data} keyOf={(one) => one.name} />}
      {isNew && <NewToken onClose={() => setIsNew(false)} onMade={(name, token) => { setMade({ name, token }); tokens.refresh(); }} />}
      {made && (
        <Dialog title={`Token ${made.name}`} onClose={() => setMade(null)}>
          <div class="dialog-body">
            <p>This is the token. It is shown now and never again: the broker keeps only its hash.</p>
            <div class="command"><code>{made.token}</code><CopyButton label="Copy the token" text={() => made.token} /></div>
          </div>
        </Dialog>
      )}
      {gone !== null && (
        <ConfirmDialog title={`Withdraw ${gone}`} action="Withdraw token" onClose={() => setGone(null)} onConfirm={async () => { await sendJson("DELETE", `/personal-access-tokens/${encodeURIComponent(gone)}`); tokens.refresh(); }}>
          Programs that use it cannot sign in with it any more.
        </ConfirmDialog>
      )}
    </Page>
  );
}

const LIVES = [
  ["0", "never"],
  ["3600000000", "in 1 hour"],
  ["86400000000", "in 1 day"],
  ["604800000000", "in 7 days"],
  ["2592000000000", "in 30 days"],
  ["31536000000000", "in a year"],
] as const;

function NewToken(props: { onClose: () => void; onMade: (name: string, token: string) => void }) {
  const [name, setName] = useState("");
  const [life, setLife] = useState<(typeof LIVES)[number][0]>("2592000000000");
  return (
    <FormDialog title="New access token" action="Create token" disabled={name.length < 3 || name.length > 30} onClose={props.onClose}
      onSubmit={async () => {
        const made = await sendJson<{ token: string }>("POST", "/personal-access-tokens", { name, expiry: Number(life) });
        props.onMade(name, made.token);
      }}>
      <TextField label="Name" value={name} onText={setName} autofocus hint="3 to 30 bytes." />
      <Select label="Expires" value={life} onChoose={setLife} options={LIVES} />
    </FormDialog>
  );
}
