/** Who changed what, with changes that lost against others and changes that were refused. */

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { shown } from "/dashboard/parts.js";
import { useTold } from "./api.js";
import { moment, Problem } from "./team_parts.js";

const INTERNAL = ["content", "root", "given"];

/** All changes of what has this address, asked for when it is opened. `kinds`: news after which to ask again. */
export function History({ path, kinds }) {
  const [isOpen, setOpen] = useState(false);
  const { answer, error } = useTold(isOpen ? `${path}/history` : null, {}, kinds);
  return html`
    <details onToggle=${(event) => setOpen(event.target.open)}>
      <summary>All changes</summary>
      <${Problem} error=${error} />
      <ul class="list">${[...(answer ?? [])].reverse().map((each) => html`
        <li><div class="item"><span class="grow">${each.user}, ${moment(each.time)}<small>${told(each)}</small>
          ${each.refused && html`<small class="problem">refused: ${each.refused}</small>`}
          ${each.lost.length > 0 && html`<small class="warning">lost against another change: ${each.lost.join(", ")}</small>`}</span></div></li>`)}</ul>
    </details>`;
}

function told({ record, fields }) {
  const [kind, id] = record.split("/");
  const said = Object.entries(fields).filter(([name]) => !INTERNAL.includes(name)).map(([name, value]) => `${name}: ${value === null ? "removed" : [value].flat().map(shown).join(", ")}`);
  return [kind === "member" && `member ${id}`, ...said].filter(Boolean).join(" · ");
}
