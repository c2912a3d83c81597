// Chromium for all tests of one process: says where it can be asked for pages, and ends when its standard input does.
// Arguments: the folder of Playwright's package, the browser.

import { createRequire } from "node:module";

const [playwright, browser] = process.argv.slice(2);
const { chromium } = createRequire(import.meta.url)(playwright);
const server = await chromium.launchServer({ executablePath: browser, args: ["--no-sandbox"] });
process.stdin.on("end", async () => {
  await server.close();
  process.exit();
});
process.stdin.resume();
console.log(server.wsEndpoint());
