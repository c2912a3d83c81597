/** Login: by user and password, or by the code of a login link, which is behind the # of the address. */

import { html } from "htm/preact";
import { useEffect, useState } from "preact/hooks";
import { go } from "/dashboard/address.js";
import { call } from "../api.js";
import { Form, Problem } from "../team_parts.js";

export function Login({ onDone }) {
  const [error, setError] = useState(null);
  useEffect(() => {
    document.title = "Log in · Godwit team";
    const code = location.hash.slice(1);
    if (!code.startsWith("gw_")) return;
    history.replaceState(null, "", location.pathname); // the code is good for one login, and is not for the history
    call("POST", "/api/login", { code }).then(() => {
      go("people", {}, { replace: true });
      onDone();
    }, setError);
  }, []);
  const submit = async (data) => {
    await call("POST", "/api/login", { user: data.get("user"), password: data.get("password") });
    if (location.pathname.endsWith("/login")) go("people", {}, { replace: true });
    onDone();
  };
  return html`
    <section class="card login">
      <h1>Log in</h1>
      <${Problem} error=${error} />
      <${Form} act=${submit} label="Log in">
        <label>User <input name="user" required autocomplete="username" /></label>
        <label>Password <input name="password" type="password" required autocomplete="current-password" /></label>
      <//>
      <p class="dim">No password yet? Open the login link that <code>godwit team serve</code> prints, or ask the administrator of this peer for one.</p>
    </section>`;
}
