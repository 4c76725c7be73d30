"""Mutants of the dashboard in Python: wrong axes, wrong units, wrong payloads."""

from tests.mutants.mutant import Mutant, planting

T = "tests/app/"
FIGURES = (f"{T}figures/test_speed_figures.py", f"{T}figures/test_bytes_figures.py")
SPEED, BYTES = FIGURES
UNITS = f"{T}figures/test_units.py"
PLAYER = f"{T}test_player_payload.py"


def _of(file: str, *tests: str):
    """Mutants of a file here."""
    return planting("app", f"app/{file}", *tests)


speed = _of("figures/speed.py", SPEED)
recorded = _of("figures/recorded.py", SPEED, f"{T}page/test_recorded_pages.py")
traffic = _of("figures/traffic.py", BYTES, f"{T}page/test_traffic_page.py")
tables = _of("figures/tables.py", BYTES)
roofline = _of("figures/roofline.py", SPEED)
gains = _of("figures/gains.py", SPEED)
techniques = _of("figures/techniques.py", SPEED)
units = _of("figures/units.py", UNITS)
decoding = _of("figures/decoding.py", f"{T}page/test_decoding_page.py")
player = _of("player/payload.py", PLAYER)
gpu = _of("gpu/payload.py", f"{T}page/test_gpu_page.py")
chip = _of("page/parts/chip.py", f"{T}page/test_recorded_pages.py")
chip_traffic = _of("page/parts/chip_traffic.py", f"{T}page/test_recorded_pages.py")
said = _of("serving/said.py", f"{T}test_said.py")
chosen = _of("sidebar/recording.py", f"{T}sidebar/test_recording_choice.py")

MUTANTS: tuple[Mutant, ...] = (
    said(
        "said-looked-up-twice",
        "if (said := _said.get(asked)) is not None:",
        "if asked in _said and (said := _said[asked]):",
        "a page fails where another session forgets at that moment what both say",
    ),
    chosen(
        "recording-of-any-gpu",
        "recording_of(scenario.current().hardware, recordings())",
        "next(iter(recordings()), None)",
        "a scenario on an H100 is set beside an H200's recording",
    ),
    chosen(
        "recording-chosen-in-vain",
        '_all().get(widgets.value_beside("recording")) or _auto()',
        "_auto()",
        "a recording that was chosen is not shown",
    ),
    speed(
        "chart-of-gigaflops",
        'row[metric] * (1e12 if metric == "tflops"',
        'row[metric] * (1e9 if metric == "tflops"',
        "TFLOP/s on a chart are off by 1000",
    ),
    speed(
        "bands-upside-down",
        "return value / slower if metric in RATES else value * slower",
        "return value * slower",
        "the band of a rate has its ends the wrong way round",
    ),
    speed(
        "bands-of-time",
        "return value / slower if metric in RATES else value * slower",
        "return value / slower",
        "the band of a time has its ends the wrong way round",
    ),
    speed(
        "model-on-the-wrong-axis",
        '"x": [row["modelled"] for row in rows],\n        "y": [row["p50"] for row in rows],',
        '"x": [row["p50"] for row in rows],\n        "y": [row["modelled"] for row in rows],',
        "what is above the line was slower than modelled, not faster",
    ),
    speed(
        "linear-axis-from-its-least",
        '"range": [0, 1.06 * most]',
        '"range": [most / 2, 1.06 * most]',
        "a rate's axis does not begin at 0",
    ),
    speed(
        "mark-in-keys",
        'place = {"x": math.log10(keys), "y": 0',
        'place = {"x": math.log2(keys), "y": 0',
        "the scenario's length is named beside another",
    ),
    recorded(
        "counted-for-modelled",
        '"x": [getattr(row, modelled) for row in rows],',
        '"x": [getattr(row, real) for row in rows],',
        "the model agrees with whatever was counted",
    ),
    recorded(
        "blocks-axis-reversed",
        "names = [str(rows) for rows in reversed(heat.block_q)]",
        "names = [str(rows) for rows in heat.block_q]",
        "the axis of the block-size table is reversed",
    ),
    recorded(
        "blocks-slowest-strongest",
        "np.clip(1 - np.log10(seconds / fastest), 0, 1)",
        "np.clip(np.log10(seconds / fastest), 0, 1)",
        "the slowest blocks stand out",
    ),
    traffic(
        "tiling-axis-reversed",
        "[str(row) for row in rows],\n        [str(column)",
        "[str(row) for row in reversed(rows)],\n        [str(column)",
        "the axis of the block-size table is reversed",
    ),
    traffic(
        "tiling-colours-of-least",
        "(logs[row, column] - low) / span,",
        "1 - (logs[row, column] - low) / span,",
        "the fewest bytes are the strongest",
    ),
    traffic(
        "bars-swapped",
        "for by in [getattr(getattr(simulation.traffic, kind), direction)]",
        'for by in [getattr(getattr(simulation.traffic, kind), "read")]',
        "what is written is shown as what is read",
    ),
    traffic(
        "lines-of-reads",
        "[getattr(simulation.traffic, kind).total for simulation in simulations]",
        "[getattr(simulation.traffic, kind).total_read for simulation in simulations]",
        "curves leave out what is written",
    ),
    tables(
        "bars-to-a-sum",
        "most = max(sum(value for *_, value, _ in row.parts) for row in rows) or 1",
        "most = sum(sum(value for *_, value, _ in row.parts) for row in rows) or 1",
        "bars are scaled to a sum, not to the largest",
    ),
    tables(
        "bars-each-to-itself",
        "{value / most:.5f}",
        "{value / (sum(part[3] for part in row.parts) or 1):.5f}",
        "every bar is as long",
    ),
    roofline(
        "roofline-gigaflops",
        '"y": [y for row in rows for y in (*[row["tflops"] * 1e12] * 2, None)]',
        '"y": [y for row in rows for y in (*[row["tflops"] * 1e9] * 2, None)]',
        "joins lie a thousand times below their marks",
        SPEED,
        f"{T}page/test_recorded_pages.py",
    ),
    roofline(
        "roofline-marks",
        '"x": [row["intensity"] for row in rows],\n        "y": [row["tflops"] * 1e12 for row in rows],',
        '"x": [row["intensity"] for row in rows],\n        "y": [row["tflops"] * 1e9 for row in rows],',
        "marks lie a thousand times below the roof",
    ),
    roofline(
        "roofline-levels-swapped",
        '"x": [row[level] for row in rows],',
        '"x": [row["L2" if level == "HBM" else "HBM"] for row in rows],',
        "what L2 saves is shown as what it costs",
    ),
    gains(
        "gains-swapped",
        'BYTES: ("o", lambda gain: gain.bytes), TIME: ("q", lambda gain: gain.seconds)',
        'BYTES: ("o", lambda gain: gain.seconds), TIME: ("q", lambda gain: gain.bytes)',
        "time is called bytes",
    ),
    techniques(
        "waterfall-factor",
        'text += f" ÷ {digits(before / step.seconds)}"',
        'text += f" ÷ {digits(step.seconds / before)}"',
        "a technique that saves is told with the inverse of what it saves",
        SPEED,
    ),
    techniques(
        "waterfall-start",
        '"x": [before, now],',
        '"x": [now, now],',
        "bars have no length",
        SPEED,
        f"{T}page/test_flash3_page.py",
    ),
    units(
        "numbers-alike",
        "most = 18 if one != other else 4",
        "most = 4",
        "a small rise is told as none",
    ),
    units(
        "one-keys",
        "{'s' * (number != 1)}",
        "s",
        "one key is a plural",
    ),
    units(
        "units-prefixes", 'PREFIXES = ("", "k", "M", "G"', 'PREFIXES = ("", "k", "G", "M"', "MB are called GB"
    ),
    units(
        "units-binary",
        "digits(value / 1000**power)",
        "digits(value / 1024**power)",
        "MB count in powers of 1,024",
    ),
    units(
        "units-milliseconds", '(1e-3, "ms"), (1e-6, "µs")', '(1e-3, "µs"), (1e-6, "ms")', "ms are called µs"
    ),
    units(
        "units-share",
        'least, text = 10.0 ** -(places + 2), f"{share:.{places}%}"',
        'least, text = 10.0 ** -(places + 2), f"{100 * share:.{places}%}"',
        "a share is 100 times what it is",
    ),
    units(
        "units-ratio",
        'return Quantity(f"{digits(value / base)}×", value / base, "×")',
        'return Quantity(f"{digits(base / value)}×", value / base, "×")',
        "a ratio is upside down",
    ),
    units(
        "units-kib-down",
        'f"{-(-int(value) // 1024):,} KiB"',
        'f"{int(value) // 1024:,} KiB"',
        "what has no room is said to fit",
    ),
    units("units-mb", 'f"{digits(value / 1e6)} MB"', 'f"{digits(value / 1e9)} MB"', "GB are called MB"),
    units(
        "units-sheet",
        'Quantity(text, 100 * share, "%")',
        'Quantity(text, share, "%")',
        "a file to take home has a hundredth of the per cents",
        UNITS,
        f"{T}figures/test_sheet.py",
    ),
    units(
        "units-short-lengths",
        '((2**20, "M"), (2**10, "k"))',
        '((10**6, "M"), (10**3, "k"))',
        "4k is 4,000 keys",
    ),
    decoding(
        "decoding-level",
        '"y": values * 2 if level else values,',
        '"y": values if level else values,',
        "a level ends where it begins",
    ),
    decoding(
        "decoding-metric",
        "values = list(line.seconds if metric == TIME else line.rates)",
        "values = list(line.rates if metric == TIME else line.seconds)",
        "bytes per second are shown as seconds",
    ),
    player(
        "player-read-for-written",
        "columns.tensor, columns.read_bytes, columns.written_bytes)",
        "columns.tensor, columns.written_bytes, columns.read_bytes)",
        "the player calls reads writes",
    ),
    player(
        "player-crossing-of-all-heads",
        '"crossing": moved.dram.total / moved.heads,',
        '"crossing": moved.dram.total,',
        "one head is compared with all",
    ),
    player(
        "player-alpha-for-l",
        '"l": found.l, "alpha": found.alpha,',
        '"l": found.alpha, "alpha": found.l,',
        "l and α are swapped",
    ),
    player(
        "player-ragged-tiles",
        "ragged = 2 * (columns.query_block == len(schedule.query_rows) - 1)\n",
        "ragged = 0 * columns.query_block\n",
        "the last, smaller query tile moves as many bytes as the others",
    ),
    gpu(
        "gpu-milliseconds",
        '"start": (timeline.start * MICRO)',
        '"start": (timeline.start * 1e3)',
        "blocks start a thousand times too early",
    ),
    gpu(
        "gpu-tail",
        '"tail": timeline.tail * MICRO',
        '"tail": timeline.tail',
        "the tail is told a million times too short",
    ),
    gpu(
        "gpu-waves",
        '"waves": int(timeline.wave.max()) + 1',
        '"waves": int(timeline.wave.max())',
        "one wave too few is told",
    ),
    chip_traffic(
        "chip-columns-swapped",
        '("DRAM, recorded", one.dram_read, one.dram_written)',
        '("DRAM, recorded", one.dram_written, one.dram_read)',
        "recorded reads are called writes",
    ),
    chip(
        "chip-ratio-upside-down",
        "ratio_text(modelled, real, 3)",
        "ratio_text(real, modelled, 3)",
        "a model that is too high is called too low",
    ),
    chip(
        "chip-median-for-worst",
        "return share_text(typical, 1), share_text(most, 1)",
        "return share_text(most, 1), share_text(typical, 1)",
        "the worst error is called the median one",
    ),
)
