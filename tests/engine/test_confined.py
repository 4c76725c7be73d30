"""What a watched file may not do: leave something running, hold or write too much, pass for a report."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.__main__ import main
from engine.watch import confined, shape
from engine.watch import process as watch_process
from engine.watch.process import Limits, Supervised
from engine.watch.user_file import NotServedError
from tests.engine.test_watch_process import REPORT, ROOT, STARTED, supervised

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps processes from each other")
WITHOUT = {
    "all that there is": "",
    "no namespaces": "confined._apart = lambda: False\n",
    "no groups": "confined._group = lambda memory: None\n",
    "neither": "confined._apart = confined._group = lambda *_: None\n",
}
STARTS = """
import os, subprocess, sys, time
from engine.watch import confined
{without}
missing = confined.guarded(2**31, os.getppid())
subprocess.Popen(["sleep", "{seconds}"], env={{}}, start_new_session=True)
os.write(int(sys.argv[-1]), b"started\\n")
{ending}
"""


def running(seconds: str) -> list[str]:
    """The processes that sleep for so long."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [place.parent.name] if seconds in place.read_text().split("\0") else []
        except OSError:  # has ended
            continue
    return found


@pytest.mark.parametrize(
    "ending", ["os._exit(3)", "os.abort()", "time.sleep(600)", "os.kill(os.getppid(), 15)"]
)
@pytest.mark.parametrize("without", WITHOUT)
def test_what_has_left_its_session_and_its_environment_ends_too(without, ending):
    seconds = f"600.{os.getpid()}{time.monotonic_ns()}"
    code = STARTS.format(without=WITHOUT[without], seconds=seconds, ending=ending)
    said = supervised([sys.executable, "-c", code], Limits(seconds=1.0))
    assert running(seconds) == []
    if ending == "os._exit(3)":
        assert said == {"sentence": "it ended Python with exit code 3"}
    if ending == "os.abort()" and "no namespaces" in without:
        assert said == {"sentence": "it ended Python by signal SIGABRT: its memory, or a crash"}


def test_groups_of_guards_that_were_killed_go(monkeypatch, tmp_path):
    monkeypatch.setattr(confined, "CONTROL", tmp_path)
    monkeypatch.setattr(confined, "_written", lambda said: True)
    kind = next(
        (kind for kind in ("memory", "") if f":{kind}:" in Path("/proc/self/cgroup").read_text()), None
    )
    if kind is None:
        pytest.skip("this system has no control groups")
    for name in (f"watched-{2**22 + 1}", "watched-1", "others"):
        (tmp_path / kind / name).mkdir(parents=True)
    assert confined._group(2**30) == tmp_path / kind / f"watched-{os.getpid()}"
    assert sorted(each.name for each in (tmp_path / kind).iterdir()) == sorted(
        ["others", "watched-1", f"watched-{os.getpid()}"]
    )


def after(action: str, code: str) -> str:
    """What a process prints that has done an action of `engine.watch`."""
    text = f"import os, sys, socket, mmap\nfrom engine.watch import confined, process\n{action}\n{code}"
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True)
    return (done.stdout + done.stderr).strip().splitlines()[-1]


@pytest.mark.parametrize(
    "code",
    ["open({place!r}, 'w')", "open({file!r}, 'r+b')", "os.mkdir({place!r})", "os.unlink({file!r})",
     "os.rename({file!r}, {place!r})", "os.symlink('/', {place!r})", "os.truncate({file!r}, 0)",
     "os.kill(os.getppid(), 0)", "socket.create_connection(('127.0.0.1', 9), 1)",
     "open(f'/proc/{{os.getppid()}}/mem', 'r+b')"],
)  # fmt: skip
def test_it_writes_to_no_disk_and_reaches_no_other_process(tmp_path, code):
    place, file = tmp_path / "new", tmp_path / "there"
    file.write_text("as it was")
    code = code.format(place=str(place), file=str(file))
    assert after(
        "missing = confined.kept_from_writing()", "print(missing or open('/dev/null', 'w').write('x'))"
    ) in (
        "1",
        "['Landlock']",
    )
    said = after("if confined.kept_from_writing(): raise PermissionError", code)
    assert said.startswith("PermissionError")
    assert (file.read_text(), list(tmp_path.iterdir())) == ("as it was", [file])


@pytest.mark.parametrize(
    "held", ["mmap.mmap(-1, 2**29)", "bytearray(2**29)", "os.write(os.memfd_create('a'), bytes(2**27))"]
)
def test_memory_that_is_shared_counts_as_well(held):
    said = after("process.LARGEST_FILE = 2**20\nprocess._limited(2**28)", f"print({held})")
    assert said == "1048576" or said.startswith(("MemoryError", "OSError: [Errno 12]", "OSError: [Errno 27]"))


def test_what_the_system_lacks_is_said_in_the_notes(monkeypatch):
    code = 'import os, sys\nos.write(int(sys.argv[-1]), b\'["namespaces", "Landlock"]\\n{}\\n\')'
    with Supervised([sys.executable, "-S", "-c", code]) as process:
        process.answer(9.0, {})
        assert process.notes == [
            "This system does not keep a file from seeing other processes and the network, or from writing"
            " to the disk."
        ]
    monkeypatch.setattr(confined, "_libc", lambda: type("None", (), {"syscall": lambda *_: -1})())
    assert confined.kept_from_writing() == ["Landlock"]


@pytest.mark.parametrize(
    "line", ["while True: os.write(pipe, b'x' * 65536)", "os.write(pipe, b'[' * 10**6 + b'\\n')"]
)
def test_an_answer_without_an_end_is_a_sentence_and_is_not_held(line):
    process = Supervised([sys.executable, "-S", "-c", STARTED + line])
    with process:
        said = process.read(process.line(60.0, {}, 2**20), 60.0)
    assert said in (
        {"sentence": "it answers with more than 1 MB"},
        {"sentence": "it ended Python with exit code 0"},
    )
    assert len(process._said) < 2**22


STEPS = {
    "kinds": ["load"],
    "tensors": ["Q"],
    "programs": [[1, 0, 0, 0]],
    "rows": [[0, 0, 3, 0, 0, -1, 8]],
    "whole": True,
}
DELTA = {name: REPORT[name] for name in shape.DELTA if name in REPORT} | {
    "launches": ["kernel"],
    "steps": STEPS,
}


def test_a_report_has_the_shape_of_one():
    assert shape.is_report(DELTA)
    wrong = {
        "right": 1, "largest_error": float("nan"), "tolerance": None, "read_bytes": {"Q": "8"},
        "notes": "none", "findings": [{"sentence": "no"}], "launches": [[]], "written_bytes": {"O": 2**70},
        "more": 1,
    }  # fmt: skip
    for name, value in wrong.items():
        assert not shape.is_report(DELTA | {name: value}), name
    for row in (
        [1, 0, 3, 0, 0, -1, 8],
        [0, 1, 3, 0, 0, -1, 8],
        [0, 0, 3, 1, 0, -1, 8],
        [0, 0, 3],
        [0, 0, 3, 0, 0, -1, 8.5],
    ):
        assert not shape.is_report(DELTA | {"steps": STEPS | {"rows": [row]}}), row


@pytest.mark.parametrize("line", [b"", b"[1]", b'{"tape": ', b"[" * 10**5, b'{"do": "report"}', b"7"])
def test_a_judge_takes_a_tape_and_nothing_else_of_what_a_file_says(line):
    with pytest.raises(NotServedError, match=r"^it hands over something that is not a tape$"):
        watch_process._tape(line)
    assert watch_process._tape(b'{"tape": 1, "experiment": {}, "stretch": 9}') == 1


@pytest.mark.parametrize(
    "answer",
    [{}, {"report": 5}, {"report": None}, {"report": {}}, {"report": {"right": True}}, {"sentence": 5},
     {"sentence": " "}, {"tape": 5}, {"report": REPORT}],
    ids=json.dumps,
)  # fmt: skip
@pytest.mark.parametrize("command", [["kernel"], ["lab", "4"]], ids=" ".join)
def test_a_report_that_is_no_report_is_a_sentence_and_an_error(
    monkeypatch, capsys, tmp_path, command, answer
):
    file = tmp_path / "mine.py"
    file.touch()
    monkeypatch.setattr(Supervised, "__init__", lambda self, command: None)
    monkeypatch.setattr(Supervised, "__exit__", lambda *_: None)
    monkeypatch.setattr(Supervised, "start", lambda self: True)
    monkeypatch.setattr(Supervised, "line", lambda *_, **__: json.dumps(answer).encode())
    monkeypatch.setattr(Supervised, "_too_long", False, raising=False)
    with pytest.raises(SystemExit) as end:
        main([*command, str(file)])
    assert end.value.code == 2
    said = f"python -m engine {command[0]}: mine.py: it answers with something that is not a report.\n"
    assert capsys.readouterr().err == said
