"""Mutants of the browser's scripts: bytes a step late, clocks too fast, keys that do another thing."""

from tests.mutants.mutant import Mutant, planting

NODE = ("tests/js/test_scripts.py",)


def _of(file: str, *tests: str):
    """Mutants of a file here."""
    return planting("scripts", f"app/{file}", *(tests or NODE))


run = _of("player/run.js")
model = _of("player/model.js")
flights = _of("player/flights.js")
traffic = _of("player/traffic_panel.js")
panel = _of("player/memory_panel.js")
columns = _of("player/columns.js", "tests/app/take_home/test_other_readers.py")
film = _of("player/film.js")
gif = _of("player/gif.js", "tests/app/take_home/test_other_readers.py")
controls = _of("player/controls.js")
formats = _of("canvas/format.js")
clock = _of("canvas/clock.js")
transport = _of("canvas/transport.js")
keys = _of("canvas/own_keys.js")
unpack = _of("canvas/unpack.js")
growth = _of("memory/growth.js")
memory = _of("memory/memory.js")
placement = _of("gpu/placement.js")
timed = _of("canvas/timed.js")
loop = _of("start/loop.js")

MUTANTS: tuple[Mutant, ...] = (
    run(
        "bytes-a-step-late",
        "return this.moved[level][0][clamp(step + 1, 0, this.steps)];",
        "return this.moved[level][0][clamp(step, 0, this.steps)];",
        "bytes read so far come one step late",
    ),
    run(
        "written-a-step-late",
        "return this.moved[level][1][clamp(step + 1, 0, this.steps)];",
        "return this.moved[level][1][clamp(step, 0, this.steps)];",
        "bytes written so far come one step late",
    ),
    run(
        "time-a-step-late",
        "return this.seconds[clamp(step + 1, 0, this.steps)];",
        "return this.seconds[clamp(step, 0, this.steps)];",
        "modelled time comes one step late",
    ),
    run(
        "crossing-is-asked",
        "crossing: [6, 7].map(accumulate)",
        "crossing: [3, 4].map(accumulate)",
        "all that is asked of L2 crosses HBM",
    ),
    run(
        "total-of-reads",
        "this.total = this.readAt(this.steps) + this.writtenAt(this.steps);",
        "this.total = this.readAt(this.steps);",
        "the total leaves out what is written",
    ),
    run(
        "stored-again",
        'if (operation !== "store" || seen.has(tile)) continue;',
        'if (operation !== "store") continue;',
        "what is written again grows the matrix in memory",
    ),
    run(
        "visits-at-loads",
        "return step < 0 ? 0 : step >= this.steps ? this.visits : this.visitsSoFar[step];",
        "return step < 0 ? 0 : step >= this.steps ? this.visits : this.visitsSoFar[step] - 1;",
        "one visit too few is told",
    ),
    run(
        "step-at-a-time",
        "if (this.seconds[middle + 1] < seconds) low = middle + 1;",
        "if (this.seconds[middle] < seconds) low = middle + 1;",
        "a race shows the step after the one under way",
    ),
    model(
        "row-of-another-tile",
        "return Math.floor(this.rows[index] / this.drawn.block_q);",
        "return Math.floor(this.rows[index] / this.drawn.block_kv);",
        "a sampled row is looked for in another tile",
    ),
    model(
        "ragged-tile",
        "return Math.min(this.drawn.block_kv, this.drawn.seq_kv - j * this.drawn.block_kv);",
        "return this.drawn.block_kv;",
        "the last key tile is drawn as wide as the others",
    ),
    model(
        "row-begins-late",
        "j >= arrays.first[block];\n    if (!begun)",
        "j > arrays.first[block];\n    if (!begun)",
        "m after the first tile is −∞",
    ),
    model(
        "fastest-last",
        "fit.sort((a, b) => this.runs[a].time - this.runs[b].time)",
        "fit.sort((a, b) => this.runs[b].time - this.runs[a].time)",
        "the slowest wins the race",
    ),
    flights(
        "flights-early",
        "part: eased((at - 1 - step) / span)",
        "part: eased((at - step) / span)",
        "a tile is on its way before its step",
    ),
    traffic(
        "bars-of-the-other-level",
        'const wholeOf = (run, level) => (level === "asked" ? run.total : run[level]);',
        "const wholeOf = (run) => run.total;",
        "what is asked of L2 is shown as what crosses HBM",
    ),
    panel(
        "answers-to-writes",
        "asked = run.readAt(step);",
        "asked = run.readAt(step) + run.writtenAt(step);",
        "L2 is said to answer what is written",
    ),
    traffic("bars-scale", "scale = w / most;", "scale = w / whole;", "every run's bar is as long"),
    columns(
        "csv-before-the-visit",
        "of: (_, visit) => run.readAt(end(visit)),",
        "of: (_, visit) => run.readAt(start(visit) - 1),",
        "a visit's row has the bytes before it",
    ),
    columns(
        "csv-visit-from-zero",
        "of: (_, visit) => visit + 1, show: grouped",
        "of: (_, visit) => visit, show: grouped",
        "visits count from 0 where the player's count from 1",
    ),
    film(
        "gif-ten-times-too-slow",
        "each = clamp(Math.round((100 * FILM_SECONDS) / count), 6, 50);",
        "each = clamp(Math.round((1000 * FILM_SECONDS) / count), 6, 500);",
        "a GIF plays ten times too slow",
    ),
    film(
        "gif-in-milliseconds",
        "each = clamp(Math.round((100 * FILM_SECONDS) / count), 6, 50);",
        "each = clamp(Math.round(FILM_SECONDS / count), 1, 50);",
        "a GIF plays in two seconds",
    ),
    film(
        "gif-ends-early",
        "at: (n) => (last * n) / (count - 1),",
        "at: (n) => (last * n) / count,",
        "a GIF stops before the end",
    ),
    gif(
        "gif-code-width",
        "if (next === 1 << width) width++;\n        next++;",
        "next++;\n        if (next === 1 << width) width++;",
        "no reader can decode the picture",
    ),
    gif(
        "gif-colours",
        "chosen.push([pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255]);",
        "chosen.push([(pixel >> 16) & 255, (pixel >> 8) & 255, pixel & 255]);",
        "red and blue are swapped",
    ),
    gif(
        "gif-transparent",
        "this.last ? 5 : 4, ...short(hundredths)",
        "this.last ? 4 : 4, ...short(hundredths)",
        "what has not changed is painted over",
    ),
    gif(
        "gif-box",
        "short(box.x), ...short(box.y)",
        "short(box.y), ...short(box.x)",
        "what changed is drawn at another place",
    ),
    controls(
        "scrubber-stands",
        "if (shown.position !== position || shown.last !== last) this.scrub(position, last);",
        "if (shown.last !== last) this.scrub(position, last);",
        "the scrubber does not move",
    ),
    controls(
        "scrubber-seeks-text",
        'this.slider.addEventListener("input", () => player.seek(Number(this.slider.value)));',
        'this.slider.addEventListener("input", () => player.seek(0));',
        "the scrubber leads to the start",
    ),
    controls(
        "row-keys-swapped",
        "ArrowUp: () => player.moveRow(-1, far)",
        "ArrowUp: () => player.moveRow(1, far)",
        "up goes down",
    ),
    transport(
        "shift-left",
        "ArrowLeft: () => player.step(-1, far),",
        "ArrowLeft: () => player.step(-1),",
        "Shift+Left goes one step, not one tile",
    ),
    transport(
        "scrubber-part",
        "`${(100 * position) / Math.max(1, last)}%`",
        "`${position / Math.max(1, last)}%`",
        "the bar shows a hundredth of the way",
    ),
    transport(
        "end-is-start",
        "end: () => player.seek(Infinity),",
        "end: () => player.seek(0),",
        "End leads to the start",
    ),
    keys(
        "ctrl-r-taken",
        "if (event.ctrlKey || event.metaKey || event.altKey) return;",
        "if (event.metaKey || event.altKey) return;",
        "Ctrl+R is taken from the browser",
    ),
    keys(
        "shift-for-all",
        "this.actions(event.shiftKey, target)",
        "this.actions(true, target)",
        "every arrow goes a tile",
    ),
    formats(
        "format-kilobytes",
        "significant(bytes / 1000 ** power)",
        "significant(bytes / 1024 ** power)",
        "MB count in powers of 1,024",
    ),
    formats(
        "format-microseconds",
        'seconds < 999.5e-6 ? [1e-6, "µs"]',
        'seconds < 999.5e-6 ? [1e-9, "µs"]',
        "ns are called µs",
    ),
    formats(
        "format-percent",
        "`${significant(100 * part, 2)}%`",
        "`${significant(part, 2)}%`",
        "a share is a hundredth of what it is",
    ),
    formats(
        "format-apart",
        "decimal(one, places) === decimal(other, places)",
        "decimal(one, places) === one",
        "a small rise is told as none",
    ),
    formats(
        "format-rate",
        "(bytesPerSecond / 1e12).toFixed(",
        "(bytesPerSecond / 1e9).toFixed(",
        "GB/s are called TB/s",
    ),
    formats(
        "format-kb", "significant(bytes / 1e3)", "significant(bytes / 1024)", "kB count in powers of 1024"
    ),
    clock(
        "clock-milliseconds",
        "this.move(Math.min(LONGEST, since / 1000), now);",
        "this.move(Math.min(LONGEST, since / 100), now);",
        "pictures move ten times too fast",
    ),
    clock(
        "clock-leaps", "const LONGEST = 0.25;", "const LONGEST = 25;", "a page that lay behind another leaps"
    ),
    unpack(
        "unpack-offset",
        "new TYPES[type](buffer, 4 + size + offset, length)",
        "new TYPES[type](buffer, size + offset + 4, length - 1)",
        "the last number of every array is lost",
    ),
    growth(
        "growth-sides",
        "const side = FRAME.side * Math.sqrt(share),",
        "const side = FRAME.side * share,",
        "areas are not to scale",
    ),
    growth(
        "growth-percent",
        "`Standard attention takes ${percent(all / capacity)} of the memory.`",
        "`Standard attention takes ${percent(matrices / capacity)} of the memory.`",
        "the share leaves out Q, K, V and O",
    ),
    memory(
        "memory-sides",
        "side * Math.sqrt((bytes / hbm.bytes) * (n ? enlarged : 1))",
        "side * (bytes / hbm.bytes) * (n ? enlarged : 1)",
        "areas are not to scale",
    ),
    memory(
        "memory-pipes",
        "thick = (0.5 * side * memory.bytes_per_second) / fastest;",
        "thick = 0.5 * side;",
        "every memory is as fast",
    ),
    placement(
        "placement-counts",
        "if (sorted[middle] <= x) low = middle + 1;",
        "if (sorted[middle] < x) low = middle + 1;",
        "a block that ends now still runs",
    ),
    timed(
        "timed-step",
        "this.seek(far ? this.time + (by * this.model.longest) / 20 : this.eventBeside(by));",
        "this.seek(this.eventBeside(by));",
        "Shift+arrow goes one event",
    ),
)
