"""Counters: ncu's rows are parsed and matched to scenarios, and what ncu lacks is a sentence."""

import csv
import io
import json
import stat

import pytest

from engine.algorithms import FORWARD
from engine.experiment import Experiment
from engine.measuring import counters
from engine.measuring.counters import NEEDED, OF_LAUNCHES, parsed, profiled_counters, rows_of
from engine.measuring.sections import prepared
from engine.model.launch import launch
from engine.model.traffic import traffic
from engine.problem.problem import Mask, Problem
from engine.recordings.recording import Counters, identity
from engine.worker.jobs import JobError

# read off an H200: flash2, float16, 16 heads, N 4096, d 128, 128 x 64 tiles, without a mask and causal
FULL = ("50,362,880", "7,657,984", "309,792", "17,039,360", "1,090,519,040", "3.88", "95.5")
CAUSAL = ("50,370,816", "9,650,944", "208,192", "17,039,360", "570,425,344", "n/a", "n/a")
FILL = ("4,096", "0", "1,856", "65,536", "0", "1", "nan")
NONE = ("0",) * 7
NOISE = "==PROF== Connected to process 713 (/usr/bin/python3.12)\nsomething else\n"
METRICS = NEEDED | OF_LAUNCHES | {"l2_hit_percent": "lts__t_sector_hit_rate.pct"}
FILL_NAME = "void at::vectorized_elementwise_kernel<8, at::FillFunctor<c10::Half>>(int, float)"
REASONS = [None, "this backend of PyTorch does not take such a problem on this machine", None]


def call(provider: str, seq: int, head_dim: int = 128, causal: bool = False, **blocks: int) -> Counters:
    """The row of a call before it is recorded."""
    problem = Problem(1, 16, 16, seq, seq, head_dim, "float16", Mask(causal))
    return Counters(provider, FORWARD, problem, **blocks)


HEADER = {  # columns of `ncu --csv --page raw` and their units, as Nsight Compute 2025.3 prints them
    **dict.fromkeys(("ID", "Kernel Name", "Block Size", "Grid Size", "device__attribute_chip"), ""),
    "dram__bytes_read.sum": "byte",
    "dram__bytes_write.sum": "byte",
    "gpu__time_duration.sum": "ns",
    "l1tex__m_l1tex2xbar_write_bytes.sum": "byte",
    "l1tex__m_xbar2l1tex_read_bytes.sum": "byte",
    "launch__waves_per_multiprocessor": "",
    "lts__t_sector_hit_rate.pct": "%",
}


def printed(*kernels: tuple[str, int, tuple[str, ...]]) -> str:
    """What ncu prints for kernels given as name, programs, and values."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(HEADER)
    writer.writerow(HEADER.values())
    for index, (name, programs, values) in enumerate(kernels):
        writer.writerow([index, name, "(256, 1, 1)", f"({programs}, 1, 1)", "gh100", *values])
    return NOISE + text.getvalue()


SCENARIOS = [
    call("flash2", 4096, block_q=128, block_kv=64),
    call("sdpa_cudnn", 4096),
    call("flash2", 4096, block_q=128, block_kv=64, causal=True),
]
PRINTED = printed(
    ("scenario_marker", 1, NONE),
    (FILL_NAME, 16, FILL),
    ("flash2_kernel", 512, FULL),
    ("scenario_marker", 3, NONE),
    ("flash2_kernel", 512, CAUSAL),
)


def test_kernels_are_matched_to_the_scenario_whose_marker_came_before():
    full, cudnn, causal = rows_of(SCENARIOS, REASONS, parsed(PRINTED), METRICS)
    assert [kernel.name for kernel in full.kernels] == ["flash2_kernel"]
    assert [kernel.name for kernel in full.others] == ["at::vectorized_elementwise_kernel"]
    assert full.kernels[0].grid == "512 x 1 x 1"
    assert full.kernels[0].seconds == pytest.approx(309.792e-6)
    assert full.kernels[0].l2_hit_percent == 95.5
    assert full.kernels[0].waves == 3.88
    assert cudnn.skipped == REASONS[1]
    assert causal.total("dram_written") == 9_650_944
    assert causal.kernels[0].l2_hit_percent is None
    reached = rows_of(SCENARIOS, [None], parsed(PRINTED), METRICS)  # the time did not reach the others
    assert [identity(row) for row in reached] == [identity(SCENARIOS[0])]
    scaled = parsed(PRINTED.replace('"byte"', '"Kbyte"').replace('"ns"', '"us"'))[2].metrics
    assert scaled["dram__bytes_read.sum"] == 50_362_880e3
    assert scaled["gpu__time_duration.sum"] == pytest.approx(0.309792)


def fake_ncu(folder, body: str) -> str:
    """An ncu that lists its metrics, and otherwise does what a piece of Python says."""
    path = folder / "ncu"
    path.write_text(
        "#!/usr/bin/env python3\nimport json, sys\n"
        "if '--query-metrics' in sys.argv:\n"
        "    print('lts__t_sector_hit_rate   Ratio   hits over lookups')\n"
        "    sys.exit()\n" + body
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_ncu_is_run_and_its_output_becomes_rows(tmp_path, monkeypatch):
    said = f"open(sys.argv[-2], 'w').write({json.dumps(json.dumps(REASONS))})\n"
    asked = "assert 'lts__t_sector_hit_rate.pct' in ','.join(sys.argv)\n"
    path = fake_ncu(tmp_path, f"{asked}print({PRINTED!r})\n{said}")
    monkeypatch.setattr(counters, "find_ncu", lambda: path)
    rows = list(profiled_counters(SCENARIOS, seconds=600))
    assert [row.provider for row in rows] == ["flash2", "sdpa_cudnn", "flash2"]
    assert rows[0].total("tile_read") == 1_090_519_040


@pytest.mark.parametrize(
    ("complaint", "sentence"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "ncu may not read the counters"),
        ("==ERROR== No kernels were profiled", "ncu counted nothing: ERROR== No kernels were profiled"),
        ("", "ncu counted nothing: it gave no reason"),
    ],
)
def test_what_ncu_complains_about_is_one_sentence(tmp_path, monkeypatch, complaint, sentence):
    path = fake_ncu(tmp_path, f"print({complaint!r})\n")
    monkeypatch.setattr(counters, "find_ncu", lambda: path)
    with pytest.raises(JobError) as caught:
        list(profiled_counters(SCENARIOS, seconds=600))
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_a_missing_ncu_is_one_sentence(monkeypatch):
    monkeypatch.setattr(counters.shutil, "which", lambda name: None)
    monkeypatch.setattr(counters.Path, "exists", lambda path: False)
    with pytest.raises(JobError, match="ncu is not installed"):
        counters.find_ncu()


@pytest.mark.gpu
def test_this_gpu_counts_the_tile_requests_of_the_schedule():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    try:
        counters.find_ncu()
    except JobError as error:
        pytest.skip(str(error))
    scenario = call("flash2", 1024, head_dim=64, block_q=64, block_kv=64, causal=True)
    rows = list(profiled_counters([scenario] * 3, seconds=120))
    experiment = Experiment.of(seq=1024, head_dim=64, block_q=64, block_kv=64, causal=True)
    asked = traffic(launch(experiment)).requested
    # a chip on which others run as well may miss some in a pass, and never counts what was not asked for
    assert max(row.total("tile_read") for row in rows) == pytest.approx(asked.total_read, rel=1e-3)
    assert max(sum(map(row.total, ("loaded", "copied", "by_tma"))) for row in rows) == asked.total_read


def test_counted_calls_of_flash3_keep_their_tiles_whole():
    """As the model has them, which knows of no pieces."""
    blocks = {"block_q": 128, "block_kv": 64}
    for row, given in ((call("flash3", 16384), {"splits": 1}), (call("flash2", 4096, **blocks), blocks)):
        assert prepared(row).keywords == given
