"""The process of a user's kernel: whatever it does is a sentence, and what it may not do it cannot."""

import ctypes
import fcntl
import json
import mmap
import os
import re
import resource
import signal
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

from engine import Experiment, process_tree
from engine.__main__ import main
from engine.watch import confined, labs
from engine.watch import process as watch_process
from engine.watch.confined import answer_of, understood
from engine.watch.process import FailedError, Limits
from engine.watch.user_file import NotServedError, function_of, report

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps processes from each other")
ROOT = Path(__file__).resolve().parents[2]
REPORT = {
    "right": False, "largest_error": 0.5, "tolerance": 0.01, "read_bytes": {"Q": 8, "M": 0},
    "written_bytes": {"O": 8, "M": 4}, "flash2_read_bytes": {"Q": 8}, "flash2_written_bytes": {"Q": 0},
    "block_q": 16, "block_kv": 16, "tiles_of_all_heads": 1, "notes": [], "findings": [],
}  # fmt: skip
SLEEP = ["sleep", "173"]
CRASH = "it ended Python by signal {}: its memory, or a crash"
ENDLESS = "it still runs after 0.3 s, and was ended: its loop may be endless"
WHOLE = REPORT | {
    "launches": ["kernel"], "heads": 1, "head": 0, "visits": [[0, 0]], "extra_tiles": [], "flash2_steps": [],
    "missing_tiles": [], "repeated_tiles": [], "by_program": [],
    "steps": {"kinds": ["load"], "tensors": ["Q"], "programs": [[1, 0, 0, 0]], "whole": True,
              "rows": [[0, 0, 3, 0, 0, -1, 8]]},
    "first_wrong": {"tile": [0, 0], "row": 1, "must": [0.5, None, 1.0, 2.0], "found": [0.5, 1.0, 1.0, 3.0]},
}  # fmt: skip


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


def test_it_ends_where_whoever_asked_is_gone_already():
    code = "from engine.process_tree import end_with as end; end(0); print('it goes on')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")


def test_whoever_interrupts_a_file_while_it_is_imported_ends_it(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        function_of(file)


@pytest.mark.parametrize("findings", [[], [{"sentence": "A tile is missing."}]])
def test_exit_codes_say_whether_there_are_findings(monkeypatch, capsys, findings):
    asked = []
    monkeypatch.setattr(labs, "run", lambda *given: asked.append(given) or {**REPORT, "findings": findings})
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


def test_a_file_is_run_in_a_process_of_its_own_with_limits_and_leaves_nothing(tmp_path):
    """By the command; it prints, catches what it can, and goes on until it has no memory."""
    file, place = tmp_path / "mine.py", tmp_path / "written"
    file.write_text(
        "import mmap, os\ndef attention(q, k, v):\n    print('{}')\n"
        f"    for act in (os.fork, lambda: open({str(place)!r}, 'w')):\n"
        "        try:\n            act()\n        except OSError:\n            refused = True\n"
        "    mmap.mmap(-1, 5 << 30)\n"
    )
    asked = [sys.executable, "-m", "engine", "kernel", str(file), "--json"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True)
    said = "python -m engine kernel: mine.py: line 9 fails: it needs more memory than it may use.\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
    assert not place.exists()


def test_a_sentence_of_the_process_names_the_file(monkeypatch, tmp_path):
    file = tmp_path / "mine.py"
    file.touch()
    monkeypatch.setattr(watch_process, "answered", lambda *_: {"sentence": "it\nended."})
    with pytest.raises(FailedError, match=r"^mine\.py: it ended\.$"):
        labs.run(file, Experiment.of(seq=16), Limits())
    monkeypatch.setattr(watch_process, "find_spec", lambda _: None)
    with pytest.raises(FailedError, match="because Triton is not installed here"):
        labs.run(file, Experiment.of(seq=16), Limits())


def test_a_file_is_asked_for_no_mask_that_it_is_not_told_of():
    with pytest.raises(NotServedError, match="it is asked for window 4; it must be causal or no mask"):
        report(Path("mine.py"), Experiment.of(seq=16, window=4))


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


def parents(name: str):
    return Path(f"/proc/{os.getppid()}/{name}").open("r+b", 0)


FORBIDDEN = {  # to start something, to reach somebody, to write somewhere
    "a fork": lambda: os.fork() or os._exit(0),
    "a program": lambda: subprocess.Popen(SLEEP),
    "a program of its own session": lambda: subprocess.Popen(SLEEP, env={}, start_new_session=True),
    "a program without a fork": lambda: os.posix_spawn("/bin/sleep", SLEEP, {}),
    "another program in its place": lambda: os.execv("/bin/sleep", SLEEP),
    "a session": os.setsid,
    "a group": lambda: os.setpgid(0, 0),
    "a connection": lambda: socket.create_connection(("127.0.0.1", 9), 1),
    "a socket on the disk": lambda: socket.socket(socket.AF_UNIX),
    "a signal": lambda: os.kill(os.getppid(), 0),
    "a signal to all": lambda: os.kill(-1, 0),
    "a signal to its group": lambda: os.killpg(0, 0),
    "a signal for what can be read": lambda: fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, os.getppid()),
    "another's limits": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1)),
    "another's priority": lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19),
    "another's memory": lambda: parents("mem"),
    "another's pipes": lambda: parents("fd/1"),
    "another's environment": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
    "a higher limit": lambda: (confined.limit(2**30), resource.prlimit(0, resource.RLIMIT_CORE, (1, 1))),
    "another root": lambda: os.chroot("/"),
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


@pytest.mark.parametrize("name", FORBIDDEN)
def test_it_starts_nothing_reaches_nobody_and_writes_nowhere(name):
    assert after(FORBIDDEN[name]) == ("OSError" if name == "a flag" else "PermissionError")
    assert OLD.read_text().startswith('"""The process of')


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


def many_files() -> None:
    for each in range(20):
        Path(tempfile.gettempdir(), str(each)).write_bytes(bytes(2**23))


HOLDS = {
    "a mapping that is shared": lambda: mmap.mmap(-1, 2**29),
    "bytes": lambda: bytearray(2**29),
    "a file in memory": lambda: os.memfd_create("a"),
    "what outlives it": lambda: (
        ctypes.CDLL(None, use_errno=True).shmget(0, 2**20, 0o1600) == -1 and os.kill(-1, 0)
    ),
    "a large file": lambda: os.pwrite(tempfile.mkstemp()[0], b"x", confined.LARGEST),
    "many files": many_files,
    "many that are open": lambda: [os.open(os.devnull, os.O_RDONLY) for _ in range(100)],
}


@pytest.mark.parametrize("name", HOLDS)
def test_what_it_holds_has_an_end(name):
    came = after(lambda: (confined.limit(2**28), HOLDS[name]()))
    assert came in ("MemoryError", "OSError", "PermissionError")


ENDS = {
    "exits": (lambda: os._exit(3), "it ended Python with exit code 3"),
    "crashes": (lambda: os.kill(os.getpid(), 11), CRASH.format("SIGSEGV")),
    "ends by a signal without a name": (lambda: os.kill(os.getpid(), 40), CRASH.format(40)),
    "aborts": (os.abort, CRASH.format("SIGABRT")),
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


@pytest.mark.parametrize("answer", [b"[1]", b"7", b"[" * 10**5, b'{"found": ', b"\xff", b"9" * 10**5])
def test_an_answer_that_is_none_says_nothing(answer):
    assert understood(answer, 0, 1.0) == {"sentence": confined.NO_REPORT}
    ended = {"sentence": "it ended Python with exit code 1"}
    assert understood(answer, 1, 1.0) == understood(b"", 1, 1.0) == ended


def test_a_report_has_the_shape_of_one():
    assert watch_process.is_report(WHOLE)
    assert watch_process.is_report(WHOLE | {"first_wrong": None})
    wrong = [
        ("right", 1), ("largest_error", float("nan")), ("tolerance", None), ("read_bytes", {"Q": "8"}),
        ("notes", "none"), ("findings", [{"sentence": "no"}]), ("launches", [[]]), ("more", 1),
        ("written_bytes", {"O": 2**70}),
    ]  # fmt: skip
    for changed in ({"must": [0.5]}, {"tile": [0]}, {"found": ["<b>", 1, 2, 3]}):
        wrong.append(("first_wrong", WHOLE["first_wrong"] | changed))
    for at, number in ((0, 1), (1, 1), (3, 1), (6, 8.5), (6, [])):
        row = [0, 0, 3, 0, 0, -1, 8]
        row[at] = number
        wrong.append(("steps", WHOLE["steps"] | {"rows": [row]}))
    for name, value in [*wrong, ("steps", WHOLE["steps"] | {"rows": [[0, 0, 3]]})]:
        assert not watch_process.is_report(WHOLE | {name: value}), (name, value)


@pytest.mark.parametrize(
    "answer",
    [{}, {"found": 5}, {"found": None}, {"found": {}}, {"found": {"right": True}}, {"sentence": 5},
     {"sentence": " "}, {"tape": 5}, {"report": REPORT}, {"found": REPORT}],
    ids=json.dumps,
)  # fmt: skip
@pytest.mark.parametrize("command", [["kernel"], ["lab", "4"]], ids=" ".join)
def test_a_report_that_is_none_is_a_sentence_and_an_error(monkeypatch, capsys, tmp_path, command, answer):
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
