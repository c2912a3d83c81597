/** Jobs: commands that the broker runs for this page, one at a time. */

import { html } from "htm/preact";
import { useState } from "preact/hooks";
import { order, useAnswer } from "./asking.js";
import { Problem } from "./parts.js";

const REFRESH_MS = 1_000;

/** The job that runs or ran last, if it is of this kind; `busy`: one of another kind runs. */
export function useJob(kind) {
  const [problem, setProblem] = useState(null);
  const { answer, error, again } = useAnswer("/jobs", {}, REFRESH_MS);
  const isRunning = answer?.state === "running";
  const tell = async (path, body) => {
    setProblem(null);
    try {
      await order(path, body);
      await again();
      return true;
    } catch (caught) {
      setProblem(caught);
      return false;
    }
  };
  return {
    job: answer?.kind === kind ? answer : null,
    busy: isRunning && answer.kind !== kind ? answer : null,
    error: problem ?? error,
    start: (body) => tell(`/jobs/${kind}`, body),
    stop: () => tell("/jobs/stop"),
  };
}

/** How far a job is, or why it failed. */
export function Progress({ job, busy, error, stop }) {
  if (busy) return html`<p class="warning" role="status">The broker is busy with another job (${busy.kind}: ${busy.progress}). <button type="button" onClick=${stop}>Stop it</button></p>`;
  return html`
    <${Problem} error=${error} />
    ${job?.state === "running" && html`
      <div class="row" role="status">
        <progress value=${job.done} max="1" aria-label="Share that is done"></progress>
        <span>${job.progress} · ${Math.round(job.seconds)} s</span>
        <button type="button" onClick=${stop}>Stop</button>
      </div>`}
    ${(job?.state === "failed" || job?.state === "stopped") && html`<pre class="problem" role="alert">${job.error}</pre>`}`;
}

/** Where files can be dropped, or chosen. `take` gets the list of them. */
export function FileDrop({ label, accept, several = false, take, children }) {
  const [isOver, setOver] = useState(false);
  const over = (dragged) => {
    dragged.preventDefault();
    setOver(true);
  };
  const drop = (dropped) => {
    dropped.preventDefault();
    setOver(false);
    if (dropped.dataTransfer.files.length) take([...dropped.dataTransfer.files]);
  };
  const chosen = ({ target }) => {
    if (target.files.length) take([...target.files]);
    target.value = ""; // so that the same file can be chosen again
  };
  return html`
    <div class=${isOver ? "drop over" : "drop"} onDragOver=${over} onDragLeave=${() => setOver(false)} onDrop=${drop}>
      <label>${label} <input type="file" accept=${accept} multiple=${several} onChange=${chosen} /></label>
      ${children}
    </div>`;
}
