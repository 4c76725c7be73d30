// Prints what the player says at every step of a payload, as JSON: of a row in view and of none.

import { readFileSync } from "node:fs";
import { Model } from "../../app/player/model.js";
import { sentence } from "../../app/player/story.js";

const said = process.argv.slice(2).map((file) => {
  const model = new Model(new Uint8Array(readFileSync(file)).slice()),
    { run } = model;
  return Array.from({ length: run.steps + 2 }, (_, n) => {
    const i = run.query[n - 1];
    return [i < model.queryBlocks ? model.rowOf(i, 0.5) : 0, -1].map((row) =>
      sentence(model, run, n - 1, row),
    );
  }).flat();
});
process.stdout.write(JSON.stringify(said));
