// The way in: name and password, or a personal access token.
import { useState } from "preact/hooks";
import { ApiError, farewell, signIn, signInWithToken } from "../api/client";
import { Button, Choice, TextField } from "../parts/basics";
import { Mark } from "../parts/mark";
import { useCell } from "../state/cell";

export function SignIn() {
  const [way, setWay] = useState<"password" | "token">("password");
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [token, setToken] = useState("");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const left = useCell(farewell);

  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      await (way === "password" ? signIn(name, password) : signInWithToken(token.trim()));
    } catch (failure) {
      setError(explained(failure as Error, way));
    } finally {
      setBusy(false);
    }
  };

  return (
    <main class="sign-in">
      <form onSubmit={(event) => void submit(event)} noValidate>
        <div class="sign-in-head">
          <Mark />
          <div>
            <h1>borzoi</h1>
            <p>{location.host}</p>
          </div>
        </div>
        {left && !error && <p class="hint" role="status">{left}</p>}
        <Choice label="How to sign in" value={way} onChoose={setWay} options={[["password", "Password"], ["token", "Access token"]]} />
        {way === "password" ? (
          <>
            <TextField label="User" name="username" autocomplete="username" autofocus value={name} onText={setName} required />
            <TextField label="Password" name="password" type="password" autocomplete="current-password" value={password} onText={setPassword} required />
          </>
        ) : (
          <TextField label="Personal access token" name="token" type="password" value={token} onText={setToken} required hint="Made on the page Tokens, or with: ./borzoi pat create console" />
        )}
        {error && <p class="problem" role="alert">{error}</p>}
        <Button type="submit" kind="main" disabled={busy || (way === "password" ? !name || !password : !token)}>
          {busy ? "Signing in" : "Sign in"}
        </Button>
      </form>
    </main>
  );
}

function explained(failure: Error, way: string): string {
  if (!(failure instanceof ApiError)) return "The broker does not answer. Is it running? ./borzoi serve starts it.";
  if (way === "password" && failure.code === "invalid_credentials") {
    return failure.reason && /second|wait/i.test(failure.reason)
      ? failure.reason
      : "The user or the password is wrong. After five failures each further one has to wait.";
  }
  return way === "token" && failure.status !== 503 ? `The token is not accepted: ${failure.reason}` : failure.reason;
}
