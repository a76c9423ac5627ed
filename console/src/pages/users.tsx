// All users, and a new one.
import { useState } from "preact/hooks";
import { getJson, sendJson } from "../api/client";
import type { User, UserDetails } from "../api/types";
import { day, plural } from "../format";
import { Badge, Button, Check, Loading, Problem, TextField } from "../parts/basics";
import { FormDialog } from "../parts/dialog";
import { Rows, type Column } from "../parts/rows";
import { usePolled } from "../state/polled";
import { go } from "../state/route";
import { Page } from "./shell";

const COLUMNS: readonly Column<User>[] = [
  { name: "Name", width: "minmax(9rem, 3fr)", show: (one) => one.username },
  { name: "Id", width: "minmax(3rem, .5fr)", show: (one) => one.id, number: true },
  { name: "Status", width: "minmax(5rem, 1fr)", show: (one) => <Badge tone={one.status === "active" ? "good" : "warn"}>{one.status}</Badge> },
  { name: "Created", width: "minmax(9rem, 1fr)", show: (one) => day(one.created_at), number: true, wideOnly: true },
];

export function Users() {
  const users = usePolled((signal) => getJson<User[]>("/users", { signal }), []);
  const [isNew, setIsNew] = useState(false);
  return (
    <Page title="Users" fill note={users.data && plural(users.data.length, "user")} actions={<Button kind="main" icon="plus" onClick={() => setIsNew(true)}>New user</Button>}>
      <Problem error={users.error} />
      {!users.data && !users.error && <Loading />}
      {users.data && <Rows label="Users" columns={COLUMNS} rows={users.data} keyOf={(one) => one.id} href={(one) => `#/users/${one.id}`} />}
      {isNew && <NewUser onClose={() => setIsNew(false)} />}
    </Page>
  );
}

function NewUser(props: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [active, setActive] = useState(true);
  return (
    <FormDialog
      title="New user"
      action="Create user"
      disabled={name.length < 3 || password.length < 3}
      onClose={props.onClose}
      onSubmit={async () => {
        const made = await sendJson<UserDetails>("POST", "/users", { username: name, password, status: active ? "active" : "inactive", permissions: null });
        go(`/users/${made.id}`);
      }}
    >
      <TextField label="Name" value={name} onText={setName} autofocus hint="3 to 50 bytes." />
      <TextField label="Password" type="password" autocomplete="new-password" value={password} onText={setPassword} hint="3 to 100 bytes." />
      <Check label="Active" checked={active} onChange={setActive} />
      <p class="hint">A new user may do nothing yet. The next page says what it may.</p>
    </FormDialog>
  );
}
