"""What a watched file may not do: start, reach or leave anything, hold or write too much, forge a report."""

import ctypes
import fcntl
import json
import mmap
import os
import re
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from engine import Experiment
from engine.__main__ import main
from engine.watch import confined
from engine.watch import process as watch_process
from engine.watch.confined import answer_of, understood
from engine.watch.process import FailedError, Limits, run
from engine.watch.user_file import NotServedError
from tests.engine.test_watch_process import REPORT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps processes from each other")
SLEEP = ["sleep", "173"]
OLD = Path(__file__)


def after(act) -> str:
    """What comes of an act in a process that is confined: its result, or the error."""

    def work() -> dict:
        try:
            return {"notes": [], "came": repr(act())}
        except (OSError, ValueError, MemoryError) as error:
            return {"notes": [], "came": type(error).__name__, "text": str(error)}

    found = answer_of(work, 60.0)["found"]
    for note in found["notes"]:
        pytest.skip(note)
    return found["came"]


def forks() -> int:
    return os.fork() or os._exit(0)


def writes_to_parent(name: str):
    return Path(f"/proc/{os.getppid()}/{name}").open("r+b", 0)


STARTS = {
    "a fork": forks,
    "a program": lambda: subprocess.Popen(SLEEP),
    "a program of its own session and environment": lambda: subprocess.Popen(
        SLEEP, env={}, start_new_session=True
    ),
    "a program without a fork": lambda: os.posix_spawn("/bin/sleep", SLEEP, {}),
    "another program in its place": lambda: os.execv("/bin/sleep", SLEEP),
    "a session": os.setsid,
    "a group": lambda: os.setpgid(0, 0),
}
REACHES = {
    "a connection": lambda: socket.create_connection(("127.0.0.1", 9), 1),
    "a socket on the disk": lambda: socket.socket(socket.AF_UNIX),
    "a signal": lambda: os.kill(os.getppid(), 0),
    "a signal to all": lambda: os.kill(-1, 0),
    "a signal to its group": lambda: os.killpg(0, 0),
    "a signal for what can be read": lambda: fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, os.getppid()),
    "another's limits": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1)),
    "another's priority": lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19),
    "another's memory": lambda: writes_to_parent("mem"),
    "another's pipes": lambda: writes_to_parent("fd/1"),
    "another's environment": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
    "a higher limit": lambda: resource.prlimit(0, resource.RLIMIT_CORE, (1, 1)),
    "another root": lambda: os.chroot("/"),
}
WRITES = {
    "a new file": lambda: (OLD.parent / "new").write_text("x"),
    "an old file": lambda: OLD.open("r+b"),
    "an old file's end": lambda: os.truncate(OLD, 0),
    "a folder": lambda: (OLD.parent / "new").mkdir(),
    "a link": lambda: (OLD.parent / "new").symlink_to("/"),
    "another name": lambda: OLD.rename(OLD.parent / "new"),
    "no file": OLD.unlink,
    "a mode": lambda: OLD.chmod(0o600),
    "a time": lambda: os.utime(OLD),
    "an attribute": lambda: os.setxattr(OLD, "user.x", b"x"),
    "a flag": lambda: fcntl.ioctl(OLD.open(), 0x40086602, struct.pack("l", 0x40)),
}


@pytest.mark.parametrize("name", [*STARTS, *REACHES, *WRITES])
def test_it_starts_nothing_reaches_nobody_and_writes_nowhere(name):
    act = {**STARTS, **REACHES, **WRITES}[name]
    limited = (lambda: (confined.limit(2**30), act())) if name == "a higher limit" else act
    assert after(limited) == ("OSError" if name == "a flag" else "PermissionError")
    assert OLD.read_text().startswith('"""What a watched file')


def test_what_harms_nobody_is_left_to_it():
    def act() -> list:
        came = []
        thread = threading.Thread(target=lambda: came.append("a thread"))
        thread.start()
        thread.join()
        with tempfile.NamedTemporaryFile() as file:
            came.append(file.write(b"kept"))
        os.kill(os.getpid(), 0)
        return [*came, Path(os.devnull).write_text("x"), os.listdir("/proc/self/fd")[:3], OLD.is_file()]

    assert after(act) == str(["a thread", 4, 1, ["0", "1", "2"], True])


HOLDS = {
    "a mapping that is shared": lambda: mmap.mmap(-1, 2**29),
    "bytes": lambda: bytearray(2**29),
    "a file in memory": lambda: os.memfd_create("a"),
    "what outlives it": lambda: (
        ctypes.CDLL(None, use_errno=True).shmget(0, 2**20, 0o1600) == -1 and os.kill(-1, 0)
    ),
    "a large file": lambda: os.pwrite(tempfile.mkstemp()[0], b"x", confined.LARGEST),
    "many files": lambda: [
        Path(tempfile.gettempdir(), str(each)).write_bytes(bytes(2**23)) for each in range(20)
    ],
    "many that are open": lambda: [os.open(os.devnull, os.O_RDONLY) for _ in range(100)],
}


@pytest.mark.parametrize("name", HOLDS)
def test_what_it_holds_has_an_end(name):
    assert after(lambda: (confined.limit(2**28), HOLDS[name]())) in (
        "MemoryError",
        "OSError",
        "PermissionError",
    )


SIGNAL_40 = "it ended Python by signal 40: its memory, or a crash"
ENDLESS = "it still runs after 0.3 s, and was ended: its loop may be endless"
ENDS = {
    "exits": (lambda: os._exit(3), "it ended Python with exit code 3"),
    "crashes": (
        lambda: os.kill(os.getpid(), 11),
        "it ended Python by signal SIGSEGV: its memory, or a crash",
    ),
    "ends by a signal without a name": (lambda: os.kill(os.getpid(), 40), SIGNAL_40),
    "aborts": (os.abort, "it ended Python by signal SIGABRT: its memory, or a crash"),
    "is interrupted": (lambda: os.kill(os.getpid(), 2), "it ended Python with exit code 1"),
    "leaves without a word": (lambda: os._exit(0), "it ended Python with exit code 0"),
    "needs too much": (lambda: [0] * 2**60, "it needs more memory than it may use"),
    "loops": (lambda: time.sleep(600), ENDLESS),
    "stops": (lambda: os.kill(os.getpid(), 19), ENDLESS),
}


@pytest.mark.parametrize("name", ENDS)
def test_however_it_ends_is_a_sentence(name):
    act, sentence = ENDS[name]
    assert answer_of(act, 0.3 if sentence == ENDLESS else 60.0) == {"sentence": sentence}


def test_what_the_system_lacks_is_said_in_the_notes(monkeypatch):
    def work() -> dict:
        return {"notes": ["its own"]}

    monkeypatch.setattr(confined, "_alone", lambda: False)
    said = "starting other processes, stopping them, or reaching the network"
    assert answer_of(work, 60.0)["found"]["notes"][-2:] == [
        f"This system does not keep a file from {said}.",
        "its own",
    ]
    none = type("None", (), {"syscall": lambda *_: -1})()
    assert not confined._kept_from_writing(none, [])


def test_an_answer_without_an_end_is_a_sentence_and_is_not_held():
    def floods() -> None:
        confined.limit(2**30)
        for place in range(64):
            with suppress(OSError):
                while os.write(place, b"[" * 2**16) and place > 2:
                    pass
        os._exit(0)

    assert answer_of(floods, 60.0) == {"sentence": confined.NO_REPORT}


def test_a_file_has_its_limits_and_leaves_nothing(tmp_path):
    """Through its processes; it catches what it can."""
    file = tmp_path / "mine.py"
    file.write_text(
        "import mmap, os\ndef attention(q, k, v):\n"
        "    try:\n        os.fork()\n    except OSError:\n        mmap.mmap(-1, 5 << 30)\n"
    )
    with pytest.raises(FailedError, match=r"line 6 fails: it needs more memory than it may use"):
        run(file, Experiment.of(seq=16), Limits())


@pytest.mark.parametrize("answer", [b"[1]", b"7", b"[" * 10**5, b'{"found": ', b"\xff", b"9" * 10**5])
def test_an_answer_that_is_none_says_nothing(answer):
    assert understood(answer, 0, 1.0) == {"sentence": confined.NO_REPORT}
    assert (
        understood(answer, 1, 1.0)
        == understood(b"", 1, 1.0)
        == {"sentence": "it ended Python with exit code 1"}
    )


STEPS = {
    "kinds": ["load"],
    "tensors": ["Q"],
    "programs": [[1, 0, 0, 0]],
    "rows": [[0, 0, 3, 0, 0, -1, 8]],
    "whole": True,
}
WHOLE = REPORT | {
    "launches": ["kernel"], "steps": STEPS, "heads": 1, "head": 0, "visits": [[0, 0]], "extra_tiles": [],
    "missing_tiles": [], "repeated_tiles": [], "by_program": [], "flash2_steps": [],
    "first_wrong": {"tile": [0, 0], "row": 1, "must": [0.5, None, 1.0, 2.0], "found": [0.5, 1.0, 1.0, 3.0]},
}  # fmt: skip


def test_a_report_has_the_shape_of_one():
    assert watch_process.is_report(WHOLE)
    wrong = {
        "right": 1, "largest_error": float("nan"), "tolerance": None, "read_bytes": {"Q": "8"},
        "notes": "none", "findings": [{"sentence": "no"}], "launches": [[]], "written_bytes": {"O": 2**70},
        "more": 1,
    }  # fmt: skip
    for name, value in wrong.items():
        assert not watch_process.is_report(WHOLE | {name: value}), name
    first = WHOLE["first_wrong"]
    assert watch_process.is_report(WHOLE | {"first_wrong": None})
    for changed in ({"must": [0.5]}, {"tile": [0]}, {"found": ["<b>", 1, 2, 3]}):
        assert not watch_process.is_report(WHOLE | {"first_wrong": first | changed}), changed
    for row in (
        [1, 0, 3, 0, 0, -1, 8],
        [0, 1, 3, 0, 0, -1, 8],
        [0, 0, 3, 1, 0, -1, 8],
        [0, 0, 3],
        [0, 0, 3, 0, 0, -1, 8.5],
    ):
        assert not watch_process.is_report(WHOLE | {"steps": STEPS | {"rows": [row]}}), row


@pytest.mark.parametrize(
    "answer",
    [{}, {"found": 5}, {"found": None}, {"found": {}}, {"found": {"right": True}}, {"sentence": 5},
     {"sentence": " "}, {"tape": 5}, {"report": REPORT}, {"found": REPORT}],
    ids=json.dumps,
)  # fmt: skip
@pytest.mark.parametrize("command", [["kernel"], ["lab", "4"]], ids=" ".join)
def test_a_report_that_is_no_report_is_a_sentence_and_an_error(
    monkeypatch, capsys, tmp_path, command, answer
):
    file = tmp_path / "mine.py"
    file.touch()

    def answered(_, asked: dict) -> dict:
        with pytest.raises(NotServedError) as error:
            watch_process._report(asked)
        return {"sentence": str(error.value)}

    monkeypatch.setattr(watch_process, "answered", answered)
    monkeypatch.setattr(watch_process, "answer_of", lambda *_: answer)
    monkeypatch.setattr(watch_process.signal, "setitimer", lambda *_: None)
    with pytest.raises(SystemExit) as end:
        main([*command, str(file)])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"python -m engine {command[0]}: mine.py: ")
    assert said.count("\n") == 1
    assert re.search(r"with something that is not a report\.$|cannot be done again: (Key|Type)Error\.$", said)
