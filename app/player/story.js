// What happens now, in one sentence, and which line of the algorithm it is.

const CODE = {
  standard: [
    "kernel 1, for each tile (i, j):",
    "  load Q[i], K[j]",
    "  S = Q Kᵀ · scale",
    "  store S[i, j]",
    "kernel 2, for each query tile i:",
    "  load S[i, :]",
    "  P = exp(S − m) / l   over whole rows",
    "  store P[i, :]",
    "kernel 3, for each query tile i, each j:",
    "  load P[i, j], V[j]",
    "  O = O + P V",
    "  store O[i]   after the last j",
  ],
  flash1: [
    "for each key tile j:",
    "  load K[j], V[j]",
    "  for each query tile i that sees j:",
    "    load Q[i]",
    "    load O[i], m[i], l[i]",
    "    S = Q Kᵀ · scale",
    "    m′ = max(m, rowmax S)",
    "    α = exp(m − m′);  P = exp(S − m′)",
    "    l′ = α l + ΣP;  O = (α l O + P V)/l′",
    "    store O[i], m[i], l[i]",
  ],
  flash2: [
    "for each query tile i:",
    "  load Q[i];  m = −∞;  l = 0;  O = 0",
    "  for each key tile j that i sees:",
    "    load K[j]",
    "    load V[j]",
    "    S = Q Kᵀ · scale",
    "    m′ = max(m, rowmax S)",
    "    α = exp(m − m′);  P = exp(S − m′)",
    "    l = α l + rowsum P;  O = α O + P V",
    "  store O = O / l",
    "  store lse = m + log l",
  ],
  flash3: [
    "for each query tile i:",
    "  load Q[i];  m = −∞;  l = 0;  O = 0",
    "  for key tiles j, from the last:",
    "    load K[j]   by TMA, ahead",
    "    load V[j]   by TMA, ahead",
    "    S = Q Kᵀ · scale   beside P V",
    "    m′ = max(m, rowmax S)",
    "    α = exp(m − m′);  P = exp(S − m′)",
    "    l = α l + rowsum P;  O = α O + P V",
    "  store O = O / l",
    "  store lse = m + log l",
  ],
};

/** The line of CODE that a step is, or -1 outside the run. */
function codeLine(run, step) {
  if (step < 0 || step >= run.steps) return -1;
  const operation = run.operation[step], tensor = TENSORS[run.tensor[step]];
  if (run.name === "backward") return backwardLine(run, step);
  if (run.name === "standard") {
    const [start, , result, stored] = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]][run.phase[step]];
    return operation === LOAD ? start + 1 : operation === STORE ? stored : result;
  }
  const steps = { [SCORES]: 5, [MAXIMUM]: 6, [RESCALE]: 7, [ACCUMULATE]: 8 };
  if (operation in steps) return steps[operation];
  if (operation === STORE) return tensor === "lse" ? 10 : 9;
  if (run.name === "flash1") return { K: 1, V: 1, Q: 3, O: 4, statistics: 4 }[tensor];
  return { Q: 1, K: 3, V: 4 }[tensor];
}

/** The lines to show, and which of them the step is: the whole algorithm, or of the backward pass the kernel at work. */
function codeShown(run, step) {
  return run.name === "backward" ? backwardCode(run, step) : [CODE[run.name], codeLine(run, step)];
}

const OPERATION_WORDS = {
  [SCORES]: "scores", [MAXIMUM]: "maximum", [RESCALE]: "rescale", [ACCUMULATE]: "accumulate", [SOFTMAX]: "softmax",
};

function stepWords(run, step) {
  if (step < 0) return "before the first step";
  if (step >= run.steps) return "done";
  const tensor = { statistics: "m, l", delta: "δ" }[TENSORS[run.tensor[step]]] || TENSORS[run.tensor[step]];
  const operation = run.operation[step];
  return operation === LOAD ? `load ${tensor}` : operation === STORE ? `store ${tensor}` : OPERATION_WORDS[operation];
}

const bytesOf = (run, step) =>
  run.readBytes[step + 1] - run.readBytes[step] + run.writtenBytes[step + 1] - run.writtenBytes[step];

/** One sentence (sometimes two) about a step; `index` is a sampled row of the query tile at work. */
function sentence(model, run, step, index) {
  if (step < 0) return opening(model, run);
  if (step >= run.steps) return closing(model, run);
  const i = run.query[step], j = run.key[step], tensor = TENSORS[run.tensor[step]];
  const size = kib(bytesOf(run, step));
  const told = { model, run, step, index, i, j, tensor, size };
  if (run.name === "standard") return standardSentence(told);
  if (run.name === "backward") return backwardSentence(told);
  switch (run.operation[step]) {
    case LOAD: return loadSentence(told);
    case STORE: return storeSentence(told);
    default: return tileSentence(told);
  }
}

function opening(model, run) {
  if (run.name === "backward") return backwardOpening(model);
  const { drawn, queryBlocks, keyBlocks } = model;
  const how = {
    standard: "Three kernels pass over every tile, and S and P go through HBM between them.",
    flash1: "Each key tile stays on the chip while the query tiles pass by.",
    flash2: "Each query tile stays on the chip while the key tiles pass by.",
    flash3: "Each query tile stays while the key tiles pass by, the last first. What runs at the same time is on its own page.",
  }[run.name];
  return `One head: ${plural(drawn.seq_q, "query").replace("querys", "queries")} and ${plural(drawn.seq_kv, "key")} ` +
    `in ${queryBlocks} × ${keyBlocks} tiles. ${how}`;
}

function closing(model, run) {
  if (run.name === "backward") return backwardClosing(model, run);
  const { standard, flash2 } = model.runs, asked = `Done: ${TITLES[run.name]} asked HBM for ${traffic(run.total)} for this head`;
  if (run === standard) return `${asked}; FlashAttention-2 asks for ${traffic(flash2.total)}, ${compared(flash2, standard)}.`;
  return `${asked}, ${compared(run, standard, "standard attention")} (${traffic(standard.total)}).`;
}

/** How the bytes of a whole run compare with another's: "5.9 times less than standard". */
function compared(run, other, name = "") {
  const part = other.total / run.total, than = name && ` than ${name}`;
  if (part >= 1.05) return `${times(part)} times less${than}`;
  return part <= 0.95 ? `${times(1 / part)} times more${than}` : `about as much${name && ` as ${name}`}`;
}

function loadSentence({ model, run, i, j, tensor, size }) {
  const keys = `${plural(j === NONE ? 0 : model.keyRows(j), "row")}, ${size}`;
  if (run.name === "flash1") {
    return {
      K: `Key tile ${j} comes onto the chip, ${keys}. It stays while every query tile that sees it passes by.`,
      V: `Value tile ${j} comes with it, ${keys}.`,
      Q: `Query tile ${i} passes by: ${size} of Q are read again for key tile ${j}.`,
      O: `Query tile ${i} needs what it gathered before: its unfinished O comes back from HBM, ${size}.`,
      statistics: `With O come m and l of the ${plural(model.queryRows(i), "row")} of query tile ${i}, ${size}.`,
    }[tensor];
  }
  return {
    Q: `Query tile ${i} comes onto the chip: ${plural(model.queryRows(i), "row")}, ${size}. ` +
      `It stays while the key tiles that it sees pass by.`,
    K: `Key tile ${j} arrives from HBM for query tile ${i}: ${keys}.`,
    V: `Value tile ${j} arrives with its key tile: ${keys}.`,
  }[tensor];
}

function storeSentence({ model, run, index, i, j, tensor, size }) {
  if (run.name === "flash1") {
    return tensor === "O"
      ? `O of query tile ${i} is not finished, yet it must make room: ${size} go back to HBM, to return for the next key tile.`
      : `m and l of query tile ${i} follow, ${size}. Key tile ${j} stays for the next query tile.`;
  }
  if (tensor === "O" && model.arrays.stop[i] === model.arrays.first[i]) {
    return `Query tile ${i} sees no key at all: its O is 0, written to HBM, ${size}.`;
  }
  if (tensor === "O") return `Query tile ${i} has seen its keys. O is divided by l once and written to HBM once, ${size}.`;
  const { lse } = rowState(model, run, run.steps, index);
  return `Its log-sum-exp follows, m + log l, ${decimal(lse)} for row ${model.rows[index]}: ${size} that spare the backward pass S.`;
}

/** A tile visit on the chip: scores, maximum, rescale, accumulate. */
function tileSentence({ model, run, step, index, i, j }) {
  const row = `row ${model.rows[index]}`, meets = `Query tile ${i} meets key tile ${j}.`;
  const state = rowState(model, run, step, index), { before, next } = state;
  if (next.m === -Infinity) return `${meets} The mask hides every key so far from ${row}: m stays −∞ and nothing is added.`;
  const rises = next.m > before.m;
  switch (run.operation[step]) {
    case SCORES: {
      const shape = `${model.queryRows(i)} × ${model.keyRows(j)} scores`;
      const masked = model.partial(i, j) ? " The mask hides part of this tile." : " They never leave the chip.";
      return `${meets} S = Q Kᵀ · scale gives ${shape}.${masked}`;
    }
    case MAXIMUM:
      if (before.m === -Infinity) return `${meets} The largest score of ${row} is ${decimal(next.m)}, its first maximum m.`;
      return rises
        ? `${meets} ${capital(row)} finds a larger score: its maximum m rises from ${decimal(before.m)} to ${decimal(next.m)}.`
        : `${meets} No score of ${row} exceeds its maximum so far: m stays at ${decimal(before.m)}.`;
    case RESCALE: return rescaleSentence(meets, row, before, next, rises);
    default: {
      const share = next.l > 0 ? Math.max(0, 1 - (next.alpha * before.l) / next.l) : 0;
      return `${meets} ${capital(row)}: l = α · ${sum(before.l)} + this tile's sum = ${sum(next.l)}. ` +
        `This tile now holds ${wholePercent(share)} of what O has gathered.`;
    }
  }
}

function rescaleSentence(meets, row, before, next, rises) {
  if (before.m === -Infinity) return `${meets} ${capital(row)} starts here with maximum ${decimal(next.m)}; nothing was gathered before, so α = 0.`;
  if (!rises) return `${meets} The maximum of ${row} stays at ${decimal(next.m)}, so α = 1: nothing gathered so far has to shrink.`;
  return `${meets} The maximum of ${row} rises from ${decimal(before.m)} to ${decimal(next.m)}, so everything gathered ` +
    `so far shrinks by α = ${factor(next.alpha)} before this tile is added.`;
}

const capital = (words) => words[0].toUpperCase() + words.slice(1);

function standardSentence({ model, run, step, index, i, j, tensor, size }) {
  const kernel = `Kernel ${run.phase[step] + 1} of 3`;
  const operation = run.operation[step];
  if (operation === SCORES) {
    const hidden = model.seen(i, j) ? "" : " The mask hides it, yet it is computed.";
    return `${kernel}: query tile ${i} meets key tile ${j}. S = Q Kᵀ · scale, ${model.queryRows(i)} × ${model.keyRows(j)} scores.${hidden}`;
  }
  if (operation === SOFTMAX) {
    const { m, l } = rowState(model, run, step, index);
    return `${kernel}: softmax over the whole rows of query tile ${i}. Row ${model.rows[index]} has maximum ${decimal(m)} ` +
      `and sum ${sum(l)}: P = exp(S − m) / l.`;
  }
  if (operation === ACCUMULATE) return `${kernel}: O of query tile ${i} gathers P times value tile ${j}.`;
  if (operation === STORE) {
    return {
      S: `${kernel}: tile (${i}, ${j}) of S does not stay: ${size} are written to HBM.`,
      P: `${kernel}: the weights P of query tile ${i} go back to HBM, ${size}, to be read once more.`,
      O: `${kernel}: O of query tile ${i} is complete and written to HBM, ${size}.`,
    }[tensor];
  }
  return {
    Q: `${kernel}: query tile ${i} is loaded for tile (${i}, ${j}), ${size}.`,
    K: `${kernel}: key tile ${j} is loaded for tile (${i}, ${j}), ${size}.`,
    S: `${kernel}: the scores S of query tile ${i} come back from HBM, ${size}, only for their softmax.`,
    P: `${kernel}: tile (${i}, ${j}) of P comes back from HBM, ${size}.`,
    V: `${kernel}: value tile ${j} is loaded, ${size}.`,
  }[tensor];
}

/** What a whole outer block does, for speeds at which single tiles cannot be read. */
function blockSentence(model, run, step) {
  if (step < 0 || step >= run.steps) return sentence(model, run, step, 0);
  if (run.name === "backward") return backwardBlock(run, step);
  const i = run.query[step], j = run.key[step], { first, stop } = model.arrays;
  if (run.name === "standard") {
    return [
      `Kernel 1 of 3 multiplies Q and K: every tile of S is computed, masked or not, and written to HBM. Now query tile ${i}.`,
      `Kernel 2 of 3 reads S back, takes the softmax of whole rows and writes P to HBM. Now query tile ${i}.`,
      `Kernel 3 of 3 reads P once more and multiplies it with V; O is written once. Now query tile ${i}.`,
    ][run.phase[step]];
  }
  if (run.name === "flash1") {
    return `Key tile ${j} stays on the chip while the query tiles that see it pass by. ` +
      `Each brings its unfinished O, m and l from HBM and takes them back.`;
  }
  const ends = run.reverse ? [stop[i] - 1, `down to ${first[i]}`] : [first[i], `to ${stop[i] - 1}`];
  const passing = stop[i] - first[i] > 1 ? `key tiles ${ends.join(" ")} pass by` : `key tile ${first[i]} passes by`;
  return `Query tile ${i} stays on the chip while ${passing}. S never leaves the chip, and O is written once, at the end.`;
}
