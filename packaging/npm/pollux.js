#!/usr/bin/env node
// Starts the program of this platform's package. Nothing is downloaded.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const name = `pollux-cli-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/pollux`);
} catch {
  console.error(`pollux: the package ${name} is not installed.`);
  console.error("It is an optional dependency: install again without --omit=optional, or use another package of Pollux.");
  process.exit(1);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// The terminal sends these to the program, too; it decides when to end.
for (const signal of ["SIGINT", "SIGQUIT"]) process.on(signal, () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`pollux: could not start ${program}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
