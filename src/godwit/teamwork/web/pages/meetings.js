/** Meetings: times are proposed, members answer, one time is chosen. */

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { go, Link } from "/dashboard/address.js";
import { call, ofScope, useTold } from "../api.js";
import { Act, counted, Empty, Form, moment, Person, Problem, ScopeChoice } from "../team_parts.js";

const KINDS = ["meeting", "answer", "member"];
const ANSWERS = ["yes", "maybe", "no"];

export function Meetings({ parameters, session }) {
  const { answer: meetings, error, again } = useTold("/api/meetings", {}, KINDS);
  const communities = useTold("/api/communities", {}, ["scope", "member"]).answer?.mine ?? [];
  const people = useTold("/api/people", { limit: 500 }, ["user", "member"]).answer?.items;
  const { scope = "", id = "" } = parameters;
  const chosen = meetings?.find((each) => each.id === id && each.scope === scope);
  const nameOf = (each) => communities.find(({ id: known }) => known === each)?.name ?? each;
  if (chosen) return html`<${One} meeting=${chosen} where=${nameOf(scope)} session=${session} people=${people} onDone=${again} />`;
  const now = Date.now() / 1000;
  const shown = (meetings ?? []).filter((each) => !scope || each.scope === scope);
  const isPast = (each) => (each.chosen ?? Math.max(...each.times)) + each.duration_s < now;
  const coming = shown.filter((each) => !isPast(each));
  const past = shown.filter(isPast).reverse();
  return html`
    <h1>Meetings</h1>
    <${Problem} error=${error} />
    ${communities.length > 1 && html`<div class="question"><${ScopeChoice} label="Community" value=${scope} scopes=${[{ id: "", name: "all" }, ...communities]} onChoose=${(each) => go("meetings", { scope: each })} /></div>`}
    ${meetings && (coming.length > 0
      ? html`<ul class="list">${coming.map((each) => html`<${Row} key=${each.id} meeting=${each} where=${nameOf(each.scope)} session=${session} />`)}</ul>`
      : html`<${Empty} title="No meetings are planned">${communities.length > 0 ? "Propose one below." : "A meeting is one of a community: join or make one first."}<//>`)}
    ${past.length > 0 && html`<details><summary>Past meetings</summary><ul class="list">${past.map((each) => html`<${Row} key=${each.id} meeting=${each} where=${nameOf(each.scope)} session=${session} />`)}</ul></details>`}
    ${session.may_write && communities.length > 0 && html`<${Propose} communities=${communities} scope=${scope || communities[0].id} />`}`;
}

function stateOf(meeting, user) {
  if (meeting.is_cancelled) return "cancelled";
  if (meeting.chosen) return moment(meeting.chosen);
  return meeting.answers.some((each) => each.user === user) ? "you have answered" : "please answer";
}

function Row({ meeting, where, session }) {
  return html`
    <li><${Link} class="item" page="meetings" parameters=${{ scope: meeting.scope, id: meeting.id }}>
      <span class="grow"><strong>${meeting.title}</strong><small>${where} · ${meeting.chosen ? `${Math.round(meeting.duration_s / 60)} minutes` : counted(meeting.times.length, "proposed time")} · by ${meeting.author}</small></span>
      <span class="tag">${stateOf(meeting, session.user)}</span>
    <//></li>`;
}

function One({ meeting, where, session, people, onDone }) {
  const path = ofScope(meeting.scope, "meetings", meeting.id);
  const mine = Object.fromEntries(meeting.answers.filter(({ user }) => user === session.user).map(({ time, answer }) => [time, answer]));
  const isOpen = session.may_write && !meeting.is_cancelled && !meeting.chosen;
  const users = [...new Set(meeting.answers.map(({ user }) => user))].filter((user) => !isOpen || user !== session.user);
  const said = (user, time) => meeting.answers.find((each) => each.user === user && each.time === time)?.answer ?? "";
  const answer = async (data) => {
    const given = meeting.times.map((time) => ({ time, answer: data.get(String(time)) })).filter((each) => each.answer);
    await call("PUT", `${path}/answers`, given);
    onDone();
  };
  const choose = (time) => () => call("POST", `${path}/choose`, { time }).then(onDone);
  return html`
    <p><${Link} page="meetings">All meetings<//></p>
    <div class="head"><h1>${meeting.title}</h1><div class="actions">
      <a class="button" href=${`${path}/calendar.ics`} download="meeting.ics">Calendar file</a>
      ${session.may_write && !meeting.is_cancelled && html`<${Act} act=${() => call("POST", `${path}/cancel`).then(onDone)} sure="Cancel this meeting?">Cancel the meeting<//>`}</div></div>
    <p class="lead">${where} · by ${meeting.author} · ${Math.round(meeting.duration_s / 60)} minutes</p>
    ${meeting.is_cancelled && html`<p class="warning" role="status">This meeting was cancelled.</p>`}
    ${meeting.chosen && html`<p class="verdict yes" role="status"><strong>${moment(meeting.chosen)}</strong></p>`}
    ${meeting.agenda && html`<section class="card"><h2>Agenda</h2><p class="agenda">${meeting.agenda}</p></section>`}
    ${meeting.documents.length > 0 && html`<p>Documents: ${meeting.documents.map((id) => html`<${Link} page="documents" parameters=${{ scope: meeting.scope, id }}>${id}<//> `)}</p>`}
    <h2>Times</h2>
    <${Form} act=${answer} label=${isOpen ? "Save my answers" : ""} className=${isOpen ? "fields" : "fields unasked"}>
      <div class="scroll" tabindex="0" role="region" aria-label="Answers">
        <table class="answers">
          <thead><tr><th scope="col">Time</th>${isOpen && html`<th scope="col">You</th>`}${users.map((user) => html`<th scope="col"><${Person} name=${user} people=${people} /></th>`)}<th scope="col"><span class="unseen">Choose</span></th></tr></thead>
          <tbody>${meeting.times.map((time) => html`
            <tr class=${time === meeting.chosen ? "chosen" : ""}><th scope="row">${moment(time)}${!meeting.chosen && time === meeting.best && meeting.answers.length > 0 && html` <span class="tag">suits most</span>`}</th>
              ${isOpen && html`<td data-label="You"><select name=${String(time)} aria-label=${`Your answer for ${moment(time)}`}><option value="">?</option>${ANSWERS.map((each) => html`<option value=${each} selected=${mine[time] === each}>${each}</option>`)}</select></td>`}
              ${users.map((user) => html`<td class=${said(user, time)} data-label=${user}>${said(user, time) || "?"}</td>`)}
              <td>${isOpen && html`<${Act} act=${choose(time)}>Choose<span class="unseen"> ${moment(time)}</span><//>`}</td></tr>`)}
          </tbody>
        </table>
      </div>
    <//>`;
}

function Propose({ communities, scope }) {
  const [times, setTimes] = useState([""]);
  const [chosen, setChosen] = useState(scope);
  const propose = async (data) => {
    const wanted = times.map((each) => Date.parse(each) / 1000).filter(Number.isFinite);
    const made = await call("POST", ofScope(chosen, "meetings"), { title: data.get("title"), agenda: data.get("agenda"), duration_s: Number(data.get("minutes")) * 60, times: wanted });
    go("meetings", { scope: made.scope, id: made.id });
  };
  const set = (at) => (event) => setTimes(times.map((each, index) => (index === at ? event.target.value : each)));
  return html`
    <details>
      <summary>Propose a meeting</summary>
      <${Form} act=${propose} label="Propose">
        <div class="pairs">
          <label>Title <input name="title" required maxlength="200" /></label>
          <${ScopeChoice} label="Community" value=${chosen} scopes=${communities} onChoose=${setChosen} />
          <label>Minutes <input name="minutes" type="number" min="5" max="10080" value="60" required /></label>
        </div>
        <label>Agenda <textarea name="agenda" rows="3"></textarea></label>
        <fieldset><legend>Times to choose from</legend>
          ${times.map((each, at) => html`<label>Time ${at + 1} <input type="datetime-local" required value=${each} onInput=${set(at)} /></label>`)}
          <button type="button" class="quiet" onClick=${() => setTimes([...times, ""])}>Another time</button>
        </fieldset>
      <//>
    </details>`;
}
