// One step of a watched kernel in a sentence.

import { capital, grouped, plural, traffic } from "../canvas/format.js";

const DOES = { load: "reads", store: "writes", atomic: "adds to" };
const blockOf = (name, run, n) => {
  const [i, j] = run.tile(n);
  if (name === "Q" || name === "O") return i < 0 ? "" : ` (query block ${i})`;
  return (name === "K" || name === "V") && j >= 0 ? ` (key block ${j})` : "";
};
const MARKS = {
  extra: " The mask hides all of this tile: it is extra.",
  repeated: " This tile is visited more than once.",
  wrong: " After this tile the numbers of a row are wrong.",
};

/** "Program (1, 0, 0)", with its kernel where several were launched. */
export function programWords(run, number) {
  const [launch, ...index] = run.programs[number];
  const several = new Set(run.programs.map(([each]) => each)).size > 1;
  return `program (${index.join(", ")})${several ? ` of launch ${launch}` : ""}`;
}

/** What a step does. */
function doing(model, n) {
  const run = model.own,
    kind = run.does(n),
    name = run.tensors[run.tensor[n]],
    [i, j] = run.tile(n);
  if (kind === "visit") return `multiplies block ${i} of Q by block ${j} of Kᵀ: tile (${i}, ${j})`;
  if (kind === "meet") return `multiplies P by block ${j} of V and adds it to O`;
  return `${DOES[kind]} ${traffic(run.bytes[n])} of ${name}${blockOf(name, run, n)}`;
}

export function sentence(model, position) {
  const { own } = model;
  if (position > own.steps) return closing(model);
  if (position === 0)
    return model.tiled
      ? `Head ${model.head} of ${plural(model.heads, "head")}, before its first step. Press play, or step with the arrow keys.`
      : "Before the first step. Press play, or step with the arrow keys.";
  const n = position - 1,
    line = own.line[n] > 0 ? `Line ${own.line[n]}, ` : "",
    who = programWords(own, own.program[n]),
    mark = model.tiled && own.does(n) === "visit" ? (MARKS[model.markOf(...own.tile(n))] ?? "") : "";
  return `${line}${line ? who : capital(who)} ${doing(model, n)}.${mark}`;
}

/** What the run came to. */
function closing({ own, flash2, tiled, marks, whole }) {
  const cut = whole ? "" : " Only its first steps are shown.";
  if (!tiled) return `Done, after ${plural(own.steps, "step")}.${cut}`;
  const wrong = [
    [marks.extra, "extra"],
    [marks.missing, "missing"],
    [marks.repeated, "visited more than once"],
  ].filter(([tiles]) => tiles.length);
  const said = wrong.map(
    ([tiles, words], n) => `${n ? grouped(tiles.length) : plural(tiles.length, "tile")} ${words}`,
  );
  const visits = `${grouped(own.visitSteps.length)} visits where FlashAttention-2 makes ${grouped(flash2.visitSteps.length)}`;
  return `Done, with ${visits}: ${said.length ? said.join(", ") : "the tiles that the mask leaves, once each"}.${cut}`;
}
