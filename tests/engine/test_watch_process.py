"""The process that a user's kernel runs in: whatever it does is a sentence; the command line's exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine import Experiment, process_tree
from engine.__main__ import main
from engine.watch import command
from engine.watch import process as watch_process
from engine.watch.process import FailedError, Limits
from engine.watch.user_file import NotServedError, function_of, report

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60  # s, less than what a test starts would last
REPORT = {
    "right": False, "largest_error": 0.5, "tolerance": 0.01, "read_bytes": {"Q": 8, "M": 0},
    "written_bytes": {"O": 8, "M": 4}, "flash2_read_bytes": {"Q": 8}, "flash2_written_bytes": {"Q": 0},
    "block_q": 16, "block_kv": 16, "tiles_of_all_heads": 1, "notes": [], "findings": [],
}  # fmt: skip


def ends(pid: int) -> None:
    """Wait until a process has ended, if only its parent has not noticed."""
    until = time.monotonic() + PATIENCE
    while alive(pid):
        assert time.monotonic() < until, f"process {pid} still runs"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be noticed does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:  # gone, or going
        return False


def test_what_is_killed_and_starts_something_yet_is_looked_for_again(monkeypatch, tmp_path):
    """In a /proc that the test writes: one that is starting a program shows its mark at the second look."""
    process = process_tree.Marked([sys.executable, "-c", ""])
    process.wait()
    mark, killed = f"A=1\0{process_tree.MARKS}= {process.mark}\0", []
    for number, environment in {3: "B=2\0", 4: mark, 5: ""}.items():
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "environ").write_text(environment)

    def kill(number: int, signal: int) -> None:
        killed.append(number)
        (tmp_path / str(number) / "environ").write_text("")
        if number == 4:
            (tmp_path / "5" / "environ").write_text(mark)

    monkeypatch.setattr(process_tree, "PROCESSES", tmp_path)
    monkeypatch.setattr(process_tree.os, "kill", kill)
    monkeypatch.setattr(process_tree.os, "killpg", lambda *_: None)
    process.end()
    assert killed == [4, 5]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has ended")
def test_it_ends_with_whoever_asked():
    code = """
import os, subprocess, sys
child = "from engine.process_tree import end_with as end; end({}); print(1, flush=True); input()"
pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
command = [sys.executable, "-c", child.format(os.getpid())]
child = subprocess.Popen(command, start_new_session=True, **pipes)
child.stdout.readline()
os.set_inheritable(child.stdin.fileno(), True)  # which stays open: it does not end for want of input
other = subprocess.Popen(["sleep", "600"], close_fds=False, stdout=subprocess.DEVNULL)
print(child.pid, other.pid, flush=True)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    child, other = map(int, done.stdout.split())
    try:
        ends(child)
    finally:
        os.kill(other, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has ended")
def test_it_ends_where_whoever_asked_is_gone_already():
    code = "from engine.process_tree import end_with as end; end(0); print('it goes on')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")


def test_whoever_interrupts_a_file_while_it_is_imported_ends_it(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        function_of(file)


def test_without_triton_it_is_a_sentence(monkeypatch, tmp_path):
    file = tmp_path / "mine.py"
    file.touch()
    monkeypatch.setattr(watch_process, "find_spec", lambda _: None)
    with pytest.raises(FailedError, match="because Triton is not installed here"):
        command.run(file, Experiment.of(seq=16), Limits())


@pytest.mark.parametrize("findings", [[], [{"sentence": "A tile is missing."}]])
def test_exit_codes_say_whether_there_are_findings(monkeypatch, capsys, findings):
    asked = []
    monkeypatch.setattr(
        command, "run", lambda *given: asked.append(given) or {**REPORT, "findings": findings}
    )
    words = "kernel my.py --seq 128 --heads 4 --head-dim 32 --block-q 32 --block-kv 16 --causal --json"
    assert main(words.split()) == bool(findings)
    assert json.loads(capsys.readouterr().out)["findings"] == findings
    (file, experiment, _), problem = asked[0], asked[0][1].problem
    assert (file, problem.seq_q, problem.heads, problem.head_dim) == (Path("my.py"), 128, 4, 32)
    assert (problem.mask.causal, experiment.asked.block_q, experiment.asked.block_kv) == (True, 32, 16)
    assert main(["kernel", "my.py", "--inputs", "text:5.3:It is a truth"]) == bool(findings)
    assert ("No findings." in capsys.readouterr().out) != bool(findings)
    head = asked[1][1].problem
    assert (head.inputs, head.seq_q, head.head_dim) == ("text:5.3:It is a truth", 8, 64)


def test_a_file_is_run_in_a_process_of_its_own(tmp_path):
    file = tmp_path / "leaves.py"
    file.write_text("def attention(q, k, v):\n    print('{}')\n    raise SystemExit(3)\n")
    done = subprocess.run(
        [sys.executable, "-m", "engine", "kernel", str(file), "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    said = "python -m engine kernel: leaves.py: line 3 ends Python with sys.exit(3).\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_a_sentence_of_the_process_names_the_file(monkeypatch, tmp_path):
    file = tmp_path / "mine.py"
    file.touch()
    monkeypatch.setattr(watch_process, "answered", lambda *_: {"sentence": "it\nended."})
    with pytest.raises(FailedError, match=r"^mine\.py: it ended\.$"):
        command.run(file, Experiment.of(seq=16), Limits())


def test_a_file_is_asked_for_no_mask_that_it_is_not_told_of():
    with pytest.raises(NotServedError, match="it is asked for window 4; it must be causal or no mask"):
        report(Path("mine.py"), Experiment.of(seq=16, window=4))
