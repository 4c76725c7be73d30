"""The page of a user's own kernel: there with the flag, on this machine alone, whatever the file does."""

from dataclasses import replace
from importlib.util import find_spec

import pytest

from app import command_line
from app.contents import pages
from app.page import kernel
from engine.experiment import Experiment
from engine.measuring.user_kernel import watched_file
from tests.app.worker_page import opened, press

SMALL = {"seq": 32, "heads": 1, "head_dim": 16, "block_q": 16, "block_kv": 16}


@pytest.fixture
def named(monkeypatch, tmp_path):
    """A file named on the command line."""
    file = tmp_path / "mine.py"
    monkeypatch.setattr("sys.argv", ["app/main.py", "--kernel", str(file)])
    return file


def test_it_is_there_only_where_the_command_line_names_a_file(monkeypatch, named):
    assert list(pages()).index("kernel") == list(pages()).index("beyond") + 1
    assert command_line.kernel() == named
    monkeypatch.setattr("sys.argv", ["app/main.py", f"--kernel={named}"])
    assert command_line.kernel() == named
    monkeypatch.setattr("sys.argv", ["app/main.py", "-n", "2"])
    assert command_line.kernel() is None
    assert "kernel" not in pages()
    for words in ([], ["--kernel"], ["--kernel=mine.py", "--visitors-run-kernels"], ["--kernel", "mine.py"]):
        monkeypatch.setattr("sys.argv", ["app/main.py", *words])
        command_line.check()  # lets the dashboard start


@pytest.mark.parametrize("words", [["--kernell", "x"], ["--kern=x"], ["--kernel", "x", "y"], ["-n"]])
def test_words_that_nobody_knows_are_one_sentence_and_the_end(monkeypatch, capsys, words):
    monkeypatch.setattr("sys.argv", ["app/main.py", *words])
    with pytest.raises(SystemExit) as end:
        command_line.check()
    said = capsys.readouterr().err
    unknown = "y" if words[0] == "--kernel" else " ".join(words)
    assert (end.value.code, said.count("\n")) == (2, 1)
    assert said.startswith(f"The dashboard does not know {unknown}: ")
    assert said.endswith(" --kernel FILE, --gpu FILE, --embed SITE and --visitors-run-kernels.\n")


@pytest.mark.parametrize(
    ("address", "refused"),
    [("localhost", False), ("127.0.0.1", False), ("127.9.9.9", False), ("::1", False), ("0.0.0.0", True),
     ("192.168.1.7", True), ("::", True), ("example.org", True), (None, True), ("", True)],
)  # fmt: skip
def test_it_is_refused_unless_only_this_machine_can_reach_it(monkeypatch, address, refused):
    told = {"server.address": address, "server.allowedHosts": []}
    monkeypatch.setattr(command_line.st, "get_option", told.get)
    sentence = command_line.refusal()
    assert (sentence is not None) == refused
    if refused:
        assert sentence.startswith("--kernel is refused")


def test_a_refused_file_is_one_sentence_and_is_not_run(monkeypatch, named, own_worker):
    monkeypatch.setattr(command_line, "refusal", lambda: "--kernel is refused, because.")
    monkeypatch.setattr(kernel, "ask", pytest.fail)
    page = opened("kernel")
    assert [error.value for error in page.error] == ["--kernel is refused, because."]


def ended(page):
    """The page when its file has run, and its verdict."""
    assert kernel.job_of(kernel.WATCH, page.session_state["watched kernel"]["payload"]).wait(900)
    return page.run().header[0].value


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")  # not imported here
def test_a_crash_and_an_endless_loop_are_sentences_and_the_page_goes_on(monkeypatch, named, own_worker):
    asked, limits = kernel.watched_file, [0.5]
    monkeypatch.setattr(kernel, "watched_file", lambda *given: replace(asked(*given), seconds=limits[-1]))
    named.write_text("while True:\n    pass\n")
    page = opened("kernel", **SMALL)
    said = "It cannot be run. mine.py: it still runs after 0.5 s, and was ended: its loop may be endless."
    assert ended(page) == said
    limits.append(600)
    named.write_text("import os\nos.abort()\n")
    page.run()
    assert any("was saved since this run" in text.value for text in page.markdown)
    assert ended(page) == said  # until it is asked for
    assert "by signal SIGABRT" in ended(press(page, "Run again"))
    assert page.code[0].value == "import os\nos.abort()"


def test_a_lab_gives_the_next_hint_when_it_is_asked_for(monkeypatch, named, own_worker):
    asked = []
    monkeypatch.setattr(kernel, "ask", lambda kind, payload, again: asked.append(payload))
    named.touch()
    page = opened("kernel", **SMALL)
    assert page.segmented_control[0].options == ["mine.py", *(f"Lab {number}" for number in range(1, 15))]
    page.segmented_control[0].set_value("4").run()
    assert [payload["lab"] for payload in asked] == [None, 4]
    assert asked[1]["file"].endswith("assets/labs/4_rescale.py")
    hints = kernel.labs()[4].hints
    for shown in range(len(hints)):
        said = [text.value for text in page.text if text.value.startswith("Hint: ")]
        assert said == [f"Hint: {hint}" for hint in hints[:shown]]
        press(page, f"Show hint {shown + 1} of {len(hints)}")
    assert next(button for button in page.button if button.key == "kernel_hint").disabled


@pytest.mark.parametrize(("right", "findings"), [(True, []), (False, []), (True, [{"kind": "race"}])])
def test_a_file_goes_on_the_gpu_once_nothing_was_found(monkeypatch, named, right, findings):
    asked = []
    monkeypatch.setattr(kernel.live, "show", lambda calls, file: asked.append((*calls.values(), file)))
    monkeypatch.setattr(kernel.scenario, "current", lambda: Experiment.of(seq=8192, heads=32, window=64))
    what = watched_file(named, Experiment.of(seq=8192, heads=32), None)
    kernel._on_gpu(what, {"right": right, "findings": findings})
    assert asked == [(Experiment.of(seq=8192, heads=32), named)] * (right and not findings)
