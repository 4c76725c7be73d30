"""The process that a user's kernel runs in: whatever it does is a sentence; the command line's exit codes."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine import Experiment, marked
from engine.__main__ import main
from engine.watch import apart, command
from engine.watch.apart import FailedError, Limits, supervised
from engine.watch.file import function_of

ROOT = Path(__file__).resolve().parents[2]
STARTED = "import os, sys, time\npipe = int(sys.argv[-1])\nos.write(pipe, b'started\\n')\n"
REPORT = {
    "right": False, "largest_error": 0.5, "tolerance": 0.01, "read_bytes": {"Q": 8, "M": 0},
    "written_bytes": {"O": 8, "M": 4}, "flash2_read_bytes": {"Q": 8}, "flash2_written_bytes": {"Q": 0},
    "block_q": 16, "block_kv": 16, "tiles_of_all_heads": 1, "notes": [], "findings": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("while True: pass", "it still runs after 0.3 s, and was ended: its loop may be endless"),
        ("os._exit(3)", "it ended Python with exit code 3"),
        ("os.kill(os.getpid(), 11)", "it ended Python by signal SIGSEGV: its memory, or a crash"),
        ("while True: print('x' * 1000)", "it prints more than 4,000 bytes, and was ended"),
        ("os.write(pipe, b'no JSON\\n')", "it ended Python with exit code 0"),
    ],
)
def test_whatever_it_does_is_a_sentence(code, sentence):
    limits = Limits(seconds=0.3 if "pass" in code else 20, output=4000)
    began = time.monotonic()
    assert supervised([sys.executable, "-S", "-c", STARTED + code], limits) == {"sentence": sentence}
    assert time.monotonic() - began < 20


def test_what_it_answers_comes_back_and_what_it_prints_does_not():
    code = STARTED + "print('{}')\nos.write(pipe, b'{\"report\": 1}\\n')"
    assert supervised([sys.executable, "-S", "-c", code], Limits()) == {"report": 1}


FORKED = "pid = os.fork()\nif pid == 0: time.sleep(60)\n"
DETACHED = """
import subprocess
pid = subprocess.Popen(['sleep', '60'], start_new_session=True).pid
"""
TWICE = """
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    if child := os.fork():
        os.write(writing, str(child).encode())
        os._exit(0)
    time.sleep(60)
pid = int(os.read(reading, 20))
"""
ANSWERS = "os.write(pipe, b'{\"report\": 1}\\n')"


@pytest.mark.parametrize("ending", ["os._exit(0)", ANSWERS, "os.kill(os.getpid(), 11)", "time.sleep(60)"])
@pytest.mark.parametrize("start", [FORKED, DETACHED, TWICE], ids=["forked", "detached", "detached twice"])
def test_what_it_started_ends_with_it(tmp_path, start, ending):
    """In its session, out of it, or with nobody left who started it; however the file itself ends."""
    if start != FORKED and not Path("/proc/self/environ").exists():
        pytest.skip("only Linux tells what a process started that has left its session")
    code = f"{STARTED}{start}open({str(tmp_path / 'pid')!r}, 'w').write(str(pid))\n{ending}"
    began = time.monotonic()
    said = supervised([sys.executable, "-S", "-c", code], Limits(seconds=0.3))
    assert ("report" in said) == (ending == ANSWERS)
    assert time.monotonic() - began < 20
    child = Path(f"/proc/{(tmp_path / 'pid').read_text()}/stat")
    until = time.monotonic() + 10
    while alive(child) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(child)


def test_what_is_just_starting_a_program_and_has_no_environment_yet_is_waited_for(monkeypatch, tmp_path):
    monkeypatch.setattr(marked, "PROCESSES", tmp_path)
    process = marked.Marked([sys.executable, "-c", ""])
    process.wait()
    for number, program in {1: None, 2: "/bin/sleep", 3: None}.items():  # 1 and 3 have ended
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "environ").touch()
        if program:
            (tmp_path / str(number) / "exe").symlink_to(program)
    environment = tmp_path / "2" / "environ"
    told = f"A=1\0{marked.MARKS}= {process.mark}\0"
    monkeypatch.setattr(marked.time, "sleep", lambda _: environment.write_text(told))
    assert process._left() == {2}
    (tmp_path / "2" / "exe").unlink()
    environment.write_text("")
    assert process._left() == set()


def test_it_ends_with_whoever_asked():
    child = "from engine.watch.apart import end_with_parent as end; end(); print(1, flush=True); input()"
    code = f"""
import os, subprocess, sys
pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child = subprocess.Popen([sys.executable, "-c", {child!r}], start_new_session=True, **pipes)
child.stdout.readline()
os.set_inheritable(child.stdin.fileno(), True)  # which stays open: it does not end for want of input
subprocess.Popen(["sleep", "20"], close_fds=False, stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    stat, until = Path(f"/proc/{int(done.stdout)}/stat"), time.monotonic() + 10
    while alive(stat) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(stat)


def test_whoever_interrupts_a_file_while_it_is_imported_ends_it(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        function_of(file)


def test_without_triton_it_is_a_sentence(monkeypatch, tmp_path):
    file = tmp_path / "mine.py"
    file.touch()
    monkeypatch.setattr(apart, "find_spec", lambda _: None)
    with pytest.raises(FailedError, match="because Triton is not installed here"):
        command.run(file, Experiment.of(seq=16), Limits())


def alive(stat: Path) -> bool:
    try:
        return stat.read_text().split()[2] not in "ZX"
    except OSError:  # gone, or going
        return False


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
    assert main(["kernel", "my.py"]) == bool(findings)
    assert ("No findings." in capsys.readouterr().out) != bool(findings)


@pytest.mark.parametrize(
    ("words", "named"), [("nowhere.py", "nowhere.py"), ("my.py --seq 0", "seq is 0"), ("", "file")]
)
def test_what_cannot_be_served_is_a_line_and_exit_code_2(capsys, words, named):
    with pytest.raises(SystemExit) as end:
        main(["kernel", *words.split()])
    assert end.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert named in line


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
    monkeypatch.setattr(apart, "supervised", lambda *_: {"sentence": "it ended."})
    with pytest.raises(FailedError, match=r"^mine.py: it ended\.$"):
        command.run(file, Experiment.of(seq=16), Limits())
