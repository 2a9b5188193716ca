// aimock (npm: @copilotkit/aimock) in a process of its own.
//
// `node aimock_server.mjs PACKAGE FIXTURES KEY` prints its address and serves until its standard
// input ends, so it dies with whoever started it; or after two minutes.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [entry, fixtures, key] = process.argv.slice(2);
const { LLMock } = await import(pathToFileURL(entry));

// Small pieces, so that every answer comes in several; strict, so that what no fixture is for fails.
const server = new LLMock({ port: 0, chunkSize: 4, strict: true, auth: { apiKeys: [key] } });
server.addFixturesFromJSON(readFileSync(fixtures, "utf8"));
console.log(await server.start());

process.stdin.resume().on("end", () => process.exit());
setTimeout(() => process.exit(1), 120_000);
