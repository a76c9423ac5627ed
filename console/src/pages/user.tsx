// One user: name, status, password, and what it may do: everywhere, in a stream, in a topic.
import { useEffect, useMemo, useState } from "preact/hooks";
import { getJson, sendJson, session } from "../api/client";
import { GLOBAL_RIGHTS, STREAM_RIGHTS, TOPIC_RIGHTS, type Permissions, type Rights, type Stream, type StreamRights, type Topic, type UserDetails } from "../api/types";
import { day } from "../format";
import { Badge, Button, Check, Loading, Panel, Problem, Select, TextField } from "../parts/basics";
import { ConfirmDialog, FormDialog } from "../parts/dialog";
import { useCell } from "../state/cell";
import { usePolled } from "../state/polled";
import { go } from "../state/route";
import { Page } from "./shell";

const ROOT = 0;

export function UserPage(props: { user: string }) {
  const path = `/users/${encodeURIComponent(props.user)}`;
  const user = usePolled((signal) => getJson<UserDetails>(path, { signal }), [path], { everyMs: 15_000 });
  const own = useCell(session);
  const [dialog, setDialog] = useState<"" | "edit" | "password" | "delete">("");
  const close = () => setDialog("");
  const found = user.data;
  const isRoot = found?.id === ROOT;
  return (
    <Page
      title={found?.username ?? `User ${props.user}`}
      crumbs={[["Users", "#/users"]]}
      note={found && <>id {found.id} · since {day(found.created_at)} · <Badge tone={found.status === "active" ? "good" : "warn"}>{found.status}</Badge></>}
      actions={
        found && (
          <>
            <Button icon="edit" onClick={() => setDialog("edit")}>Edit</Button>
            <Button onClick={() => setDialog("password")}>Change password</Button>
            <Button kind="danger" icon="bin" label="Delete the user" disabled={isRoot} onClick={() => setDialog("delete")} />
          </>
        )
      }
    >
      <Problem error={user.error} />
      {!found && !user.error && <Loading />}
      {found && isRoot && <p class="hint">This is the root user: it may do everything, and its permissions cannot be changed.</p>}
      {found && !isRoot && <PermissionEditor key={found.id} path={path} permissions={found.permissions} onSaved={user.refresh} />}
      {found && dialog === "edit" && <EditUser path={path} user={found} onClose={close} onDone={user.refresh} />}
      {found && dialog === "password" && <Password path={path} isOwn={own?.userId === found.id} onClose={close} />}
      {found && dialog === "delete" && (
        <ConfirmDialog title={`Delete ${found.username}`} name={found.username} action="Delete user" onClose={close} onConfirm={async () => { await sendJson("DELETE", path); go("/users"); }}>
          Its sessions end with their next request, and its access tokens go.
        </ConfirmDialog>
      )}
    </Page>
  );
}

function EditUser(props: { path: string; user: UserDetails; onClose: () => void; onDone: () => void }) {
  const [name, setName] = useState(props.user.username);
  const [active, setActive] = useState(props.user.status === "active");
  return (
    <FormDialog title="Edit the user" action="Save" disabled={!name} onClose={props.onClose}
      onSubmit={async () => {
        await sendJson("PUT", props.path, { username: name === props.user.username ? null : name, status: active ? "active" : "inactive" });
        props.onDone();
      }}>
      <TextField label="Name" value={name} onText={setName} autofocus />
      <Check label="Active" checked={active} onChange={setActive} disabled={props.user.id === ROOT} />
    </FormDialog>
  );
}

function Password(props: { path: string; isOwn: boolean; onClose: () => void }) {
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [again, setAgain] = useState("");
  const differs = again !== "" && next !== again;
  return (
    <FormDialog title="Change the password" action="Change password" disabled={!current || next.length < 3 || next !== again} onClose={props.onClose}
      onSubmit={() => sendJson("PUT", `${props.path}/password`, { current_password: current, new_password: next })}>
      <TextField label={props.isOwn ? "Your password" : "Its present password"} type="password" autocomplete="current-password" value={current} onText={setCurrent} autofocus />
      <TextField label="New password" type="password" autocomplete="new-password" value={next} onText={setNext} hint="3 to 100 bytes." />
      <TextField label="New password again" type="password" autocomplete="new-password" value={again} onText={setAgain} {...(differs ? { problem: "The two differ." } : {})} />
    </FormDialog>
  );
}

const none = (names: readonly string[]): Rights => Object.fromEntries(names.map((name) => [name, false]));
const said = (name: string) => name.replace("_", " ");

const EXPLAINED: Record<string, string> = {
  manage_servers: "figures, clients, logs, settings",
  read_servers: "figures, clients, logs, settings",
  manage_users: "create, change and remove users",
  read_users: "see users",
  manage_streams: "everything with streams and topics, send and poll",
  read_streams: "see streams and topics, poll",
  manage_topics: "create, change and remove topics, send and poll",
  read_topics: "see topics, poll",
  poll_messages: "read messages",
  send_messages: "append messages",
};

function PermissionEditor(props: { path: string; permissions: Permissions | null; onSaved: () => void }) {
  const [edited, setEdited] = useState<Permissions>(() => props.permissions ?? { global: none(GLOBAL_RIGHTS), streams: null });
  const [base, setBase] = useState(() => JSON.stringify(edited));
  const [error, setError] = useState("");
  const [said_, setSaid] = useState("");
  const streams = usePolled((signal) => getJson<Stream[]>("/streams", { signal }).catch(() => [] as Stream[]), [], { once: true });
  const names = useMemo(() => new Map((streams.data ?? []).map((one) => [String(one.id), one.name])), [streams.data]);
  const isChanged = JSON.stringify(edited) !== base;
  const chosen = Object.entries(edited.streams ?? {});
  const setStream = (id: string, rights: StreamRights | null) => {
    const next = { ...(edited.streams ?? {}) };
    if (rights) next[id] = rights;
    else delete next[id];
    setEdited({ ...edited, streams: Object.keys(next).length ? next : null });
  };
  useEffect(() => {
    const now = JSON.stringify(props.permissions ?? { global: none(GLOBAL_RIGHTS), streams: null });
    if (!isChanged && now !== base) {
      setEdited(JSON.parse(now) as Permissions);
      setBase(now);
    }
  }, [props.permissions]);
  const save = async () => {
    setError("");
    try {
      await sendJson("PUT", `${props.path}/permissions`, { permissions: edited });
      setBase(JSON.stringify(edited));
      setSaid("Saved.");
      props.onSaved();
    } catch (failure) {
      setError((failure as Error).message);
    }
  };
  const left = (streams.data ?? []).filter((one) => !edited.streams?.[String(one.id)]);
  return (
    <div class="stack permissions">
      <Panel title="Everywhere">
        <p class="hint">What is granted at any level counts; nothing below takes it away.</p>
        <RightsGrid names={GLOBAL_RIGHTS} rights={edited.global} explain onChange={(global) => setEdited({ ...edited, global })} />
      </Panel>
      {chosen.map(([id, rights]) => (
        <Panel key={id} title={<>Stream {names.get(id) ?? id}</>} actions={<Button kind="quiet" icon="close" label={`Take away the rights on stream ${names.get(id) ?? id}`} onClick={() => setStream(id, null)} />}>
          <RightsGrid names={STREAM_RIGHTS} rights={rights} onChange={(next) => setStream(id, { ...rights, ...next } as StreamRights)} />
          <TopicRightsList stream={id} rights={rights} onChange={(topics) => setStream(id, { ...rights, topics })} />
        </Panel>
      ))}
      {left.length > 0 && (
        <Select label="Rights on one more stream" value="" onChoose={(id) => id && setStream(id, { ...none(STREAM_RIGHTS), topics: null } as StreamRights)} options={[["", "choose a stream"], ...left.map((one) => [String(one.id), one.name] as const)]} />
      )}
      <div class="send">
        <Button kind="main" disabled={!isChanged} onClick={() => void save()}>Save permissions</Button>
        {isChanged && <Button onClick={() => setEdited(JSON.parse(base) as Permissions)}>Undo</Button>}
        {error && <p class="problem" role="alert">{error}</p>}
        {said_ && !isChanged && !error && <p class="done" role="status">{said_}</p>}
      </div>
    </div>
  );
}

function TopicRightsList(props: { stream: string; rights: StreamRights; onChange: (topics: Record<string, Rights> | null) => void }) {
  const topics = usePolled((signal) => getJson<Topic[]>(`/streams/${props.stream}/topics`, { signal }).catch(() => [] as Topic[]), [props.stream], { once: true });
  const held = props.rights.topics ?? {};
  const change = (id: string, rights: Rights | null) => {
    const next = { ...held };
    if (rights) next[id] = rights;
    else delete next[id];
    props.onChange(Object.keys(next).length ? next : null);
  };
  const name = (id: string) => topics.data?.find((one) => String(one.id) === id)?.name ?? id;
  const left = (topics.data ?? []).filter((one) => !held[String(one.id)]).slice(0, 1000);
  return (
    <>
      {Object.entries(held).map(([id, rights]) => (
        <div class="topic-rights" key={id}>
          <h3>Topic {name(id)} <Button kind="quiet" icon="close" label={`Take away the rights on topic ${name(id)}`} onClick={() => change(id, null)} /></h3>
          <RightsGrid names={TOPIC_RIGHTS} rights={rights} onChange={(next) => change(id, next)} />
        </div>
      ))}
      {left.length > 0 && <Select label="Rights on one more topic" value="" onChoose={(id) => id && change(id, none(TOPIC_RIGHTS))} options={[["", "choose a topic"], ...left.map((one) => [String(one.id), one.name] as const)]} />}
    </>
  );
}

function RightsGrid(props: { names: readonly string[]; rights: Record<string, unknown>; explain?: boolean; onChange: (rights: Rights) => void }) {
  const now: Rights = Object.fromEntries(props.names.map((name) => [name, Boolean(props.rights[name])]));
  return (
    <div class="rights">
      {props.names.map((name) => (
        <Check key={name} label={<>{said(name)}{props.explain && <small>{EXPLAINED[name]}</small>}</>} checked={now[name] ?? false} onChange={(checked) => props.onChange({ ...now, [name]: checked })} />
      ))}
    </div>
  );
}
