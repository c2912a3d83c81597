// A station in Node: reads calls as lines of JSON, answers each by its number. `node node_station.mjs CLIENT_FILE`

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { makeStation } from "./station.mjs";

const godwit = await import(pathToFileURL(process.argv[2]).href);
const station = makeStation(godwit);

for await (const line of createInterface({ input: process.stdin })) {
  const { number, method, args } = JSON.parse(line);
  const answer = (said) => process.stdout.write(`${JSON.stringify({ number, ...said })}\n`);
  Promise.resolve()
    .then(() => station[method](...args))
    .then((result) => answer({ result }))
    .catch((error) => answer({ error: { name: error.name, message: error.message } }));
}
process.exit(0);
