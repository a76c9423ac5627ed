// The console: a session or the way in, and the page that the address names.
import "./style/ground.css";
import "./style/shell.css";
import "./style/parts.css";
import "./style/pages.css";
import { render } from "preact";
import { session, watchExpiry } from "./api/client";
import { startMetrics } from "./api/metrics";
import { Bench } from "./pages/bench";
import { Clients } from "./pages/clients";
import { Lag } from "./pages/lag";
import { Load } from "./pages/load";
import { Logs } from "./pages/logs";
import { Overview } from "./pages/overview";
import { Server } from "./pages/server";
import { Page, Shell } from "./pages/shell";
import { SignIn } from "./pages/sign-in";
import { StreamPage } from "./pages/stream";
import { Streams } from "./pages/streams";
import { Tokens } from "./pages/tokens";
import { TopicPage } from "./pages/topic";
import { UserPage } from "./pages/user";
import { Users } from "./pages/users";
import { Empty } from "./parts/basics";
import { useCell } from "./state/cell";
import { startPreferences } from "./state/preferences";
import { useRoute } from "./state/route";

function Console() {
  const user = useCell(session);
  if (!user) return <SignIn />;
  return (
    <Shell>
      <Here />
    </Shell>
  );
}

function Here() {
  const { parts } = useRoute();
  const [first, second, third, fourth, fifth] = parts;
  switch (first) {
    case undefined:
      return <Overview />;
    case "streams":
      if (second === undefined) return <Streams />;
      if (third === "topics" && fourth !== undefined) {
        return <TopicPage key={`${second}/${fourth}`} stream={second} topic={fourth} tab={fifth ?? "partitions"} />;
      }
      return <StreamPage key={second} stream={second} />;
    case "lag":
      return <Lag />;
    case "load":
      return <Load />;
    case "clients":
      return <Clients />;
    case "logs":
      return <Logs />;
    case "server":
      return <Server />;
    case "bench":
      return <Bench />;
    case "users":
      return second === undefined ? <Users /> : <UserPage key={second} user={second} />;
    case "tokens":
      return <Tokens />;
    default:
      return (
        <Page title="Not here">
          <Empty title="There is no page at this address.">
            <a href="#/">To the overview</a>
          </Empty>
        </Page>
      );
  }
}

startPreferences();
watchExpiry();
startMetrics();
const place = document.getElementById("console");
if (place) render(<Console />, place);
