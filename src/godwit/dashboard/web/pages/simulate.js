import { html } from "htm/preact";
export function Simulate() {
  return html`<h1>Simulate</h1>`;
}
