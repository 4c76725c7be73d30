"""The bench of the cache: what it divides by, and what it says where there is no GPU."""

import pytest

from engine.measuring import bench_cache
from engine.measuring.bench_kernels import main
from engine.measuring.machine import Machine


def test_the_bytes_are_those_of_all_programs_and_passes():
    assert bench_cache.moved(16, 8 * 132) == 16 * 2**20 * 8 * 132 * 8


def test_without_a_gpu_it_says_so(monkeypatch, capsys):
    pytest.importorskip("torch")
    monkeypatch.setattr(bench_cache, "machine", lambda: Machine("a CPU", False, {}, "", True))
    assert main(["--cache"]) == 2
    assert capsys.readouterr().err == "the cache of a GPU is measured on a GPU: there is none\n"
