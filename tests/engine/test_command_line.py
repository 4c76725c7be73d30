"""The command line: one JSON object, a table, and one line for a bad value."""

import json
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from engine import Experiment, simulate
from engine.__main__ import main
from engine.algorithms import ALGORITHMS
from engine.measuring import bench_model
from engine.parser import ended

ROOT = Path(__file__).resolve().parents[2]
FULL = (
    "simulate --algorithm flash2 --batch 1 --heads 16 --kv-heads 16 --seq 4096 --seq-kv 4096 --head-dim 128 "
    "--dtype float16 --causal --window 512 --block-q 128 --block-kv 64 --hardware h200 --json"
)


MOVED = {"tile requests": "tile", "compulsory": "compulsory", "DRAM": "dram"}


def test_a_simulation_is_one_json_object(capsys):
    assert main(FULL.split()) == 0
    summary = json.loads(capsys.readouterr().out)
    experiment = Experiment.of(seq=4096, head_dim=128, causal=True, window=512, block_q=128)
    assert summary == simulate(experiment).summary()


def test_the_tables_numbers_are_those_of_the_json_object(capsys):
    assert main(["simulate", "--seq", "2048"]) == 0
    _, *lines, fits = capsys.readouterr().out.splitlines()
    rows = [re.split(r"  +", line) for line in lines]
    assert {row[-1].split(",")[0] for row in rows} == {"counted", "modelled"}
    assert fits.startswith("Fits: 24 KiB of 227 KiB of shared memory")
    said = {name: [float(number.replace(",", "")) for number in numbers] for name, *numbers, _ in rows}
    found = simulate(Experiment.of(seq=2048)).summary()
    for name, keys in {
        **{name: [f"{of}_read_bytes", f"{of}_write_bytes"] for name, of in MOVED.items()},
        **{"FLOPs": ["flops"], "on chip, bytes": ["sram_bytes"], "memory, bytes": ["memory_bytes"]},
        **{name: [name.replace(" ", "_")] for name in ("tiles visited", "tiles skipped", "largest context")},
    }.items():
        assert said[name] == [found[key] for key in keys]
    assert said["time, us"] == [round(1e6 * found["modelled_seconds"], 1)]


def test_the_json_objects_numbers_by_hand(capsys):
    """16 heads of 2,048 x 2,048 of d 64 in 64 x 64, causal: 528 of 1,024 tiles, of which 32 are partial."""
    main(["simulate", "--seq", "2048", "--causal", "--json"])
    said = json.loads(capsys.readouterr().out)
    tensor, row, visited = 16 * 2048 * 64 * 2, 16 * 2048 * 4, 32 * 33 // 2
    read = tensor + visited * 16 * 2 * 64 * 64 * 2
    expected = {
        **{"tile_read_bytes": read, "l2_read_bytes": read, "tile_write_bytes": tensor + row},
        **{"compulsory_read_bytes": 3 * tensor, "compulsory_write_bytes": tensor + row},
        **{"dram_read_bytes": 3 * tensor, "dram_write_bytes": tensor + row},
        "dram_read_bytes_range": [round(0.97 * 3 * tensor), round(1.03 * 3 * tensor)],
        "flops": 16 * visited * 4 * 64**3,
        "exponentials": 16 * visited * (64 * 64 + 64),  # of the weights, and α
        **{"tiles_visited": 16 * visited, "tiles_skipped": 16 * (1024 - visited)},
        **{"tiles_partial": 16 * 32, "tiles_full": 16 * (visited - 32)},
        **{"shared_bytes": 3 * 64 * 64 * 2, "sram_bytes": 3 * 64 * 64 * 2 + 2 * 64 * 64 * 4 + 64 * 8},
        **{"sram_capacity_bytes": 227 * 1024, "fits": True, "memory_bytes": 4 * tensor + row},
        "largest_context": 150_109_880_320 // (16 * (4 * 64 * 2 + 4)),
    }
    assert {name: said[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("simulate --block-q 65", "block_q is 65"),
        ("simulate --seq many", "seq is 'many'"),
        ("simulate --seq", "--seq"),
        ("simulate --frobnicate 1", "--frobnicate"),
        ("simulate --head 4", "--head"),
        ("simulate extra", "extra"),
        ("measure --algorithm ring", "algorithm is ring; measured on one device is one of standard, "),
        ("measure --gpus two", "'two'; it must be a whole number"),
        ("record", "--out"),
        ("record --out a.json --only weather", "only is 'weather'; it must be some of timings,"),
        ("merge README.md --out x.json", "README.md is damaged: it is not JSON"),
        ("record --out a.json --budget nan", "'nan'; it must be a number of seconds above 0"),
        ("bench-kernels --json nowhere/a.json", "'nowhere/a.json', which cannot be written"),
        ("kernel README.md", "its name must end in .py"),
        ("kernel nowhere.py", "nowhere.py"),
        ("kernel my.py --seq 0", "seq is 0"),
        ("kernel", "file"),
        ("lab 4 --hint x", "'x'; it must be a whole number"),
        ("trace --seq 100", "--out"),
        ("trace --seq 1048576 --algorithm standard --out x", "at most 200,000 blocks"),
        ("trace --seq 65536 --heads 128 --out x", "at most 100,000 blocks"),
        ("trace --seq 100 --out /nowhere/x", "it is '/nowhere/x', which cannot be written"),
        ("model llama-9", "model is 'llama-9'; it must be one of deepseek-v3,"),
        ("model nowhere/config.json", "which cannot be read: No such file or directory."),
        ("model", "model is missing; it must be a config.json, or one of"),
        ("model gpt2 --tokens -1", "tokens is -1; it must be a whole number from 1 to 1,048,576"),
        ("model gpt2 --phase sleep", "invalid choice: 'sleep'"),
        ("train-heads --text nowhere --out x", "text is 'nowhere', which cannot be read"),
        ("train-heads --text .gitignore --out x", "tokens; it must have at least 40,960"),
        ("frobnicate", "frobnicate"),
        ("", "command"),
    ],
)
def test_a_bad_value_ends_with_code_2_and_one_line(capsys, arguments, named):
    try:
        code = main(arguments.split())
    except SystemExit as error:
        code = error.code
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert named in err


def test_the_module_runs_without_torch_and_triton():
    program = (
        "import sys; sys.modules['torch'] = sys.modules['triton'] = None\n"
        "from engine.__main__ import main\n"
        "import engine.worker.client, engine.trace.softmax, engine.trace.execute, engine.studies.survey\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *FULL.split()], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["fits"] is True


def test_the_columns_of_the_largest_problem_stay_apart(capsys):
    largest = (
        "--batch 4096 --heads 1024 --seq 1048576 --head-dim 256 --dtype float32 --block-q 16 --block-kv 16"
    )
    for algorithm in ALGORITHMS:
        main(f"simulate --algorithm {algorithm} {largest}".split())
        rows = capsys.readouterr().out.splitlines()[1:-1]
        number = re.compile(r"[A-Za-z, ]+?  +[\d,.]+(  +[\d,.]+)?  (counted|modelled).*")
        assert [row for row in rows if not number.fullmatch(row)] == []


def test_a_reader_who_stops_reading_is_no_error():
    command = [sys.executable, "-m", "engine", *FULL.split()]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.close()
        assert (running.stderr.read(), running.wait()) == (b"", 0)


def test_what_is_interrupted_ends_without_a_word(capsys):
    def interrupted():
        raise KeyboardInterrupt

    assert ended(interrupted) == 130
    assert capsys.readouterr() == ("", "")


def test_the_columns_of_a_million_tiles_stay_below_200_megabytes():
    one = Experiment.of(heads=1, seq=65_536, block_q=64, block_kv=64)
    tracemalloc.start()
    one.record.schedule(one.problem, one.tiling).columns.moved()
    assert tracemalloc.get_traced_memory()[1] < 200e6
    tracemalloc.stop()


def test_the_speed_of_the_model_is_told_beside_its_limits(capsys, monkeypatch):
    monkeypatch.setattr(bench_model, "median", lambda run: (run(), 60.0)[1])
    assert main(["bench"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert "model at 131,072 tokens, flash2                     60.0 ms (< 1000): ok" in said
    assert said[-1] == "statistics of 64 rows, 4,096 keys, d 64             60.0 ms (< 50): OVER"


def test_the_table_says_between_what_dram_bytes_lie_where_the_model_is_unsure(capsys):
    edge = "simulate --algorithm flash3 --heads 2 --seq 98340 --head-dim 64 --own-blocks --hardware h200"
    main(f"{edge} --json".split())
    low, high = json.loads(capsys.readouterr().out)["dram_read_bytes_range"]
    main(edge.split())
    lines = capsys.readouterr().out.splitlines()
    assert [f"{low:,}" in line for line in lines if line.startswith("DRAM, at least")] == [True]
    assert [f"{high:,}" in line for line in lines if line.startswith("DRAM, at most")] == [True]
    main(FULL.replace(" --json", "").split())
    assert "at least" not in capsys.readouterr().out
