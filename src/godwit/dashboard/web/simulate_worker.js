/** Reads a trace beside the page, so that a large one does not stop it. What goes wrong is told as a text. */

import { TraceIndex } from "./simulate_index.js";

let index = null;

onmessage = async ({ data: { open, rows } }) => {
  try {
    if (open) {
      index = new TraceIndex(open);
      await index.open();
      await index.scan((share) => postMessage({ progress: share }));
      postMessage({ ready: index.summary() });
    } else if (rows) {
      postMessage({ rows: await index.rows(rows.from, rows.limit), from: rows.from });
    }
  } catch (error) {
    postMessage({ failed: error.message });
  }
};
