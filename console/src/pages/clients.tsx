// Who is connected, over which door, in which groups.
import { useMemo, useState } from "preact/hooks";
import { getJson } from "../api/client";
import type { Client, ClientDetails, User } from "../api/types";
import { count, plural } from "../format";
import { Badge, Empty, Facts, Loading, Problem, Search } from "../parts/basics";
import { Dialog } from "../parts/dialog";
import { Rows, sortRows, type Column, type Sorted } from "../parts/rows";
import { usePolled } from "../state/polled";
import { setQuery, useRoute } from "../state/route";
import { Page } from "./shell";

export function Clients() {
  const clients = usePolled((signal) => getJson<Client[]>("/clients", { signal }), []);
  const users = usePolled((signal) => getJson<User[]>("/users", { signal }).catch(() => [] as User[]), [], { everyMs: 30_000 });
  const names = useMemo(() => new Map((users.data ?? []).map((one) => [one.id, one.username])), [users.data]);
  const filter = useRoute().query.get("filter") ?? "";
  const [sorted, setSorted] = useState<Sorted | undefined>();
  const [opened, setOpened] = useState<Client | null>(null);
  const user = (one: Client) => (one.user_id === null ? "not signed in" : (names.get(one.user_id) ?? `user ${one.user_id}`));
  const columns: readonly Column<Client>[] = [
    { name: "Client", width: "minmax(6rem, 1fr)", show: (one) => <span class="mono">{one.client_id}</span>, sort: (one) => one.client_id },
    { name: "User", width: "minmax(6rem, 1.5fr)", show: user, sort: user },
    { name: "Address", width: "minmax(9rem, 2fr)", show: (one) => <span class="mono">{one.address}</span>, sort: (one) => one.address },
    { name: "Door", width: "minmax(4rem, .6fr)", show: (one) => <Badge>{one.transport}</Badge>, sort: (one) => one.transport },
    { name: "Groups", width: "minmax(4rem, .6fr)", show: (one) => count(one.consumer_groups_count), number: true, sort: (one) => one.consumer_groups_count, wideOnly: true },
  ];
  const text = filter.toLowerCase();
  const rows = sortRows((clients.data ?? []).filter((one) => `${one.client_id} ${user(one)} ${one.address} ${one.transport}`.toLowerCase().includes(text)), columns, sorted);
  return (
    <Page title="Clients" fill note={clients.data && `${plural(clients.data.length, "client")} on all doors with connections. Requests over HTTP have none, as this page.`}>
      <Problem error={clients.error} />
      {!clients.data && !clients.error && <Loading />}
      {clients.data?.length === 0 && (
        <Empty title="No client is connected." command="./borzoi tail -f STREAM/TOPIC">Clients over TCP, WebSocket and QUIC are listed here while they are connected. For example:</Empty>
      )}
      {clients.data && clients.data.length > 0 && (
        <>
          <div class="tools"><Search label="Filter" value={filter} onText={(typed) => setQuery({ filter: typed || null })} /></div>
          <Rows label="Clients" columns={columns} rows={rows} keyOf={(one) => one.client_id} onOpen={setOpened} sorted={sorted} onSort={setSorted} />
        </>
      )}
      {opened && <ClientDialog client={opened} user={user(opened)} onClose={() => setOpened(null)} />}
    </Page>
  );
}

function ClientDialog(props: { client: Client; user: string; onClose: () => void }) {
  const details = usePolled((signal) => getJson<ClientDetails>(`/clients/${props.client.client_id}`, { signal }), [props.client.client_id]);
  const groups = details.data?.consumer_groups;
  return (
    <Dialog title={`Client ${props.client.client_id}`} onClose={props.onClose}>
      <div class="dialog-body">
        <Problem error={details.error} />
        <Facts rows={[["User", props.user], ["Address", <span class="mono">{props.client.address}</span>], ["Door", props.client.transport]]} />
        <h3>Consumer groups</h3>
        {groups?.length === 0 && <p class="hint">It is a member of none.</p>}
        {groups && groups.length > 0 && (
          <ul class="plain-list">
            {groups.map((one) => (
              <li key={`${one.stream_id}/${one.topic_id}/${one.group_id}`}>
                <a href={`#/streams/${one.stream_id}/topics/${one.topic_id}/groups?group=${one.group_id}`}>stream {one.stream_id}, topic {one.topic_id}, group {one.group_id}</a>
              </li>
            ))}
          </ul>
        )}
      </div>
    </Dialog>
  );
}
