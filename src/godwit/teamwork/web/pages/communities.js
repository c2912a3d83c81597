/** Communities: people who share documents, messages and meetings. */

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { go, Link } from "/dashboard/address.js";
import { call, ofCommunity, useTold } from "../api.js";
import { History } from "../history.js";
import { Act, counted, Empty, Form, Person, Problem, QueryFields } from "../team_parts.js";

const KINDS = ["scope", "member", "listing"];
const JOIN = { open: "open to everybody", approval: "owners let people in", rule: "by a rule over profiles" };

export function Communities({ parameters, session }) {
  if (parameters.id) return html`<${One} id=${parameters.id} session=${session} />`;
  return html`<${All} session=${session} />`;
}

function All({ session }) {
  const { answer, error, again } = useTold("/api/communities", {}, KINDS);
  return html`
    <h1>Communities</h1>
    <${Problem} error=${error} />
    ${answer && (answer.mine.length > 0
      ? html`<ul class="cards">${answer.mine.map((each) => html`<${Mine} key=${each.id} community=${each} />`)}</ul>`
      : html`<${Empty} title="You belong to no community yet">Make one below, or join one that is listed.<//>`)}
    ${answer?.others.length > 0 && html`
      <h2>Others in the team</h2>
      <ul class="cards">${answer.others.map((each) => html`<${Other} key=${each.id} listing=${each} mayWrite=${session.may_write} onDone=${again} />`)}</ul>`}
    ${session.may_write && html`<${NewCommunity} languages=${session.languages} />`}`;
}

function Mine({ community }) {
  return html`
    <li class="card">
      <h2><${Link} page="communities" parameters=${{ id: community.id }}>${community.name}<//></h2>
      ${community.description && html`<p>${community.description}</p>`}
      <p class="dim">${counted(Object.keys(community.members).length, "member")} · ${JOIN[community.join] ?? community.join}${community.is_archived ? " · archived" : ""}${community.is_sealed ? " · encrypted" : ""}</p>
      <p class="actions"><${Link} page="documents" parameters=${{ scope: community.id }}>Documents<//> <${Link} page="messages" parameters=${{ scope: community.id }}>Messages<//> <${Link} page="meetings" parameters=${{ scope: community.id }}>Meetings<//></p>
    </li>`;
}

function Other({ listing, mayWrite, onDone }) {
  const join = (how) => call("POST", ofCommunity(listing.id, how)).then(onDone);
  return html`
    <li class="card">
      <h3>${listing.name}</h3>
      ${listing.description && html`<p>${listing.description}</p>`}
      <p class="dim">by ${listing.author} · ${JOIN[listing.join] ?? listing.join}</p>
      ${mayWrite && html`<p class="actions">${listing.join === "open"
        ? html`<${Act} act=${() => join("join")}>Join<//>`
        : html`<${Act} act=${() => join("ask")}>Ask to join<//><${Act} act=${() => join("join")}>I was invited<//>`}</p>`}
    </li>`;
}

function NewCommunity({ languages }) {
  const [join, setJoin] = useState("approval");
  const create = async (data) => {
    const wanted = { name: data.get("name").trim(), description: data.get("description").trim(), join, sealed: data.has("sealed"), listed: data.has("listed") };
    if (join === "rule") Object.assign(wanted, { rule: data.get("rule"), language: data.get("language") });
    const { id } = await call("POST", "/api/communities", wanted);
    go("communities", { id });
  };
  return html`
    <details>
      <summary>New community</summary>
      <${Form} act=${create} label="Make the community">
        <label>Name <input name="name" required maxlength="200" /></label>
        <label>What it is about <input name="description" /></label>
        <label>Who can join <select value=${join} onChange=${(event) => setJoin(event.target.value)}>
          ${Object.entries(JOIN).map(([value, label]) => html`<option value=${value} selected=${value === join}>${label}</option>`)}
        </select></label>
        ${join === "rule" && html`<${QueryFields} languages=${languages} label="Rule: a query over profiles of people" name="rule" required />`}
        <label class="check"><input type="checkbox" name="sealed" checked /> encrypted from device to device</label>
        <label class="check"><input type="checkbox" name="listed" checked /> listed for the whole team</label>
      <//>
    </details>`;
}

function One({ id, session }) {
  const { answer: community, error, again } = useTold(ofCommunity(id), {}, KINDS);
  const people = useTold("/api/people", { limit: 500 }, ["user", "member"]).answer?.items;
  if (!community) return html`<p><${Link} page="communities">All communities<//></p><h1>Community</h1><${Problem} error=${error} />`;
  const role = community.members[session.user] ?? "";
  const isOwner = role === "owner" && session.may_write;
  const leave = () => call("POST", ofCommunity(id, "leave")).then(() => go("communities"));
  const archive = () => call("PATCH", ofCommunity(id), { archived: !community.is_archived }).then(again);
  return html`
    <p><${Link} page="communities">All communities<//></p>
    <div class="head"><h1>${community.name}</h1>
      <div class="actions"><${Link} class="button" page="documents" parameters=${{ scope: id }}>Documents<//><${Link} class="button" page="messages" parameters=${{ scope: id }}>Messages<//><${Link} class="button" page="meetings" parameters=${{ scope: id }}>Meetings<//></div></div>
    <p>${community.description}</p>
    <p class="dim">${JOIN[community.join] ?? community.join}${community.rule ? ": " : ""}${community.rule && html`<code>${community.rule}</code>`}${community.is_sealed ? " · encrypted from device to device" : ""}${community.is_archived ? " · archived: nothing can be changed" : ""}</p>
    <div class="columns">
      <section><h2>${counted(Object.keys(community.members).length, "member")}</h2>
        <ul class="list">${Object.entries(community.members).sort().map(([user, held]) => html`
          <li key=${user}><div class="item"><span class="grow"><${Person} name=${user} people=${people} /></span><span class="tag">${held}</span>
            ${isOwner && user !== session.user && html`<${Act} act=${() => call("DELETE", ofCommunity(id, "members", user)).then(again)} sure=${`Remove ${user}?`}>Remove<//>`}</div></li>`)}
        </ul></section>
      ${isOwner && html`<${Owner} id=${id} community=${community} people=${people ?? []} onDone=${again} />`}
    </div>
    ${role && session.may_write && html`<p class="actions">
      <${Act} act=${leave} sure="Leave this community?">Leave<//>
      ${isOwner && html`<${Act} act=${archive} sure=${community.is_archived ? "Open it again?" : "Let nobody change anything any more?"}>${community.is_archived ? "Open again" : "Archive"}<//>`}
    </p>`}
    ${role && html`<${History} path=${ofCommunity(id)} kinds=${KINDS} />`}`;
}

/** What owners of a community can do. */
function Owner({ id, community, people, onDone }) {
  const others = people.filter(({ name }) => !(name in community.members));
  const invite = async (data) => {
    await call("POST", ofCommunity(id, "members"), { user: data.get("user"), role: data.get("role"), invite: data.get("how") === "invite" });
    onDone();
  };
  const change = async (data) => {
    await call("PATCH", ofCommunity(id), { name: data.get("name").trim(), description: data.get("description").trim() });
    onDone();
  };
  const letIn = (user) => call("POST", ofCommunity(id, "members"), { user, role: "reader", invite: false }).then(onDone);
  const refuse = (user) => call("DELETE", ofCommunity(id, "members", user)).then(onDone);
  return html`
    <div>
      ${community.asking.length > 0 && html`<section class="card"><h2>Want to join</h2>
        <ul class="list">${community.asking.map((user) => html`
          <li key=${user}><div class="item"><span class="grow"><${Person} name=${user} people=${people} /></span>
            <${Act} act=${() => letIn(user)} quiet=${false}>Let in<span class="unseen"> ${user}</span><//>
            <${Act} act=${() => refuse(user)}>Refuse<span class="unseen"> ${user}</span><//></div></li>`)}</ul>
      </section>`}
      <section class="card"><h2>Add somebody</h2>
        ${others.length === 0 ? html`<p class="dim">Everybody in the team is a member.</p>` : html`
        <${Form} act=${invite} label="Add">
          <div class="pairs">
            <label>User <select name="user">${others.map(({ name, profile }) => html`<option value=${name}>${profile.name || name}</option>`)}</select></label>
            <label>Role <select name="role"><option value="reader">reader</option><option value="editor">editor</option><option value="owner">owner</option></select></label>
            <label>How <select name="how"><option value="invite">invite</option><option value="add">add at once</option></select></label>
          </div>
        <//>`}
      </section>
      <section class="card"><h2>Settings</h2>
        <${Form} act=${change} label="Save">
          <label>Name <input name="name" required maxlength="200" defaultValue=${community.name} /></label>
          <label>What it is about <input name="description" defaultValue=${community.description} /></label>
        <//>
      </section>
    </div>`;
}
