"""The page Your kernel, there with a flag: a file, watched while Triton's interpreter runs it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from app import command_line, scenario, serving
from app.elements import fold, numbers, one_of, smaller_sibling
from app.figures.units import heads_text, number_text
from app.page.parts import live
from app.page.parts.job import POLL_SECONDS, ask, job_of, sentence, state_of
from app.presenter import keys
from app.scenario.offers import set_subject
from app.sidebar.unused import CONTROLS, unused
from app.watched import WATCHED, build
from engine.measuring.user_kernel import WATCH, WatchedFile, asked_for, saved, watched_file
from engine.watch.labs import Lab, labs
from engine.watch.process import Limits

OWN, AGAIN = "own", "kernel_again"
SOURCE_HEIGHT = 520  # px
LOW, TALL = 330, 900  # px that a long table takes, and one that scrolls sideways only, on narrow screens
LOOK_SECONDS = 2.0  # between looks at whether the file was saved
NOT_ASKED = ("algorithm", "window", "documents", "batch")
BEGUN = (
    "The file runs in Triton's interpreter on this machine, and every load, store, atomic and matrix product "
    "is watched. This takes a few seconds."
)


def show() -> None:
    """Draw the page, or why the file is not run."""
    file, refused = command_line.kernel(), command_line.refusal()
    if file is not None and not refused and not serving.may_run():
        refused = serving.REFUSED
    if file is None or refused:
        st.error(refused or "No file was named on the command line.")
        return
    head = st.container(key="kernel_head")
    pick, status = st.columns([2, 1], vertical_alignment="center")
    with pick:
        what = watched_file(file, scenario.current(), _picked(file))
    set_subject(what.experiment)
    unused("A file of your own has one algorithm, and runs on this machine.", "hardware", *NOT_ASKED)
    if what.lab:
        unused("A lab has a scenario of its own.", *CONTROLS)
        _task(what.lab, what.file)
    shown, payload = _shown(), what.payload
    apart = ("file", "experiment", "lab")  # else runs differ in the state of the file alone
    if not shown or any(shown["payload"][name] != payload[name] for name in apart):
        shown.update(payload=payload, refused=ask(WATCH, payload, again=False))
    with status:
        _status(what)
    found = _found(shown)
    head.header(_headline(found), anchor=False)
    with st.container(key="kernel_lab_picture" if what.lab else "kernel_picture"):
        if not found:
            st.caption("The tiles that the kernel touches are drawn here, beside FlashAttention-2's.")
        elif "failed" in found:
            st.code("\n".join(found["source"]), "python", line_numbers=True, height=SOURCE_HEIGHT)
        else:
            WATCHED.show(build(found), key="watched")
    if found and "failed" not in found:
        _on_gpu(what, found)
        _tables(found)
    st.caption(_what_runs(what))


def _picked(file: Path) -> int | None:
    """The number of a lab, or None for the user's own file: nothing else can be picked."""
    names = {OWN: file.name} | {str(number): f"Lab {number}" for number in labs()}
    here = next((str(lab.number) for lab in labs().values() if lab.file.name == file.name), OWN)
    picked = one_of("Kernel", names, "kernel_picked", first=here)
    return None if picked == OWN else int(picked)


def _task(lab: Lab, file: Path) -> None:
    """What a lab asks for, and its hints, of which the next is shown only when it is asked for."""
    given = scenario.kept(f"hints of lab {lab.number}", [])
    with st.container(border=True, key="kernel_lab"):
        task, hints = st.columns([1.4, 1], gap="large")
    task.text(f"Lab {lab.number}: {lab.title}. {' '.join(lab.task.split())}")
    where = (
        f"This is the lab as it stands, with its hole. Copy assets/labs/{lab.file.name} into the folder "
        "of your file, under the same name, and complete the marked lines there."
    )
    task.caption(f"Watched is your own {file}." if file != lab.file else where)
    for hint in lab.hints[: len(given)]:
        hints.text(f"Hint: {hint}")
    left = len(given) < len(lab.hints)
    label = f"Show hint {len(given) + 1} of {len(lab.hints)}" if left else "All hints are shown"
    hints.button(label, key="kernel_hint", disabled=not left, on_click=given.append, args=(True,))


def _shown() -> dict[str, Any]:
    """What was asked for last, and what was found last."""
    return scenario.kept("watched kernel", {})


def _status(what: WatchedFile) -> None:
    """One line, looked at again and again: how far the run is, or that the file was saved since it."""
    keys.bind({"r": AGAIN})
    began = job_of(WATCH, _shown()["payload"])
    running = began is not None and began.under_way

    def body() -> None:
        job = job_of(WATCH, _shown()["payload"])
        if running and not (job is not None and job.under_way):
            st.rerun()
        button, state = st.columns([1, 1.9], vertical_alignment="center")
        if running:
            if button.button("Cancel", key="kernel_cancel"):
                job.cancel()
                st.rerun()
            state.progress(min(job.progress, 1.0), state_of(job))
            return
        if button.button("Run again", key=AGAIN, help="The key r does the same.", type="primary"):
            payload = what.payload
            _shown().update(payload=payload, refused=ask(WATCH, payload, again=True))
            st.rerun()
        state.markdown(_state(what, job))

    with st.container(key="kernel_status"):
        st.fragment(body, run_every=POLL_SECONDS if running else LOOK_SECONDS)()


def _state(what: WatchedFile, job) -> str:
    """What there is to say of the last run."""
    shown = _shown()
    if shown["refused"]:
        return shown["refused"]
    if job is not None and job.error:
        return sentence(job.error)
    if job is None or job.state == "cancelled":
        return "The run was cancelled."
    if saved(what.file) != shown["payload"]["saved"]:
        return f"**`{what.file.name}` was saved since this run.** Press r to run it again."
    return f"This is `{what.file.name}` as it was last saved."


def _found(shown: dict[str, Any]) -> dict[str, Any] | None:
    """What the run found; while it is under way, what the one before did."""
    job = job_of(WATCH, shown["payload"])
    if job is not None and job.state == "done":
        shown["found"] = job.result
    return shown.get("found")


def _headline(found: dict[str, Any] | None) -> str:
    """The verdict in a sentence or two."""
    if found is None:
        return BEGUN
    if "failed" in found:
        return sentence(f"It cannot be run. {found['failed']}")
    name, findings = Path(found["file"]).name, found["findings"]
    if "passed" in found:
        verdict = "passed." if found["passed"] else f"not yet. {found['reason']}"
        return sentence(f"Lab {found['lab']}, {found['title']}: {verdict}")
    if findings:
        many = "One finding" if len(findings) == 1 else f"{len(findings)} findings"
        return sentence(f"{many} in {name}. {findings[0]['sentence']}")
    return sentence(
        f"Right: O of {name} is off by at most {found['largest_error']:.2g}, which rounding explains "
        f"(up to {found['tolerance']:.2g}). Nothing was found in its tiles, bytes and order."
    )


def _on_gpu(what: WatchedFile, found: dict[str, Any]) -> None:
    """The same file on this machine's GPU, once nothing was found; a lab on its own scenario."""
    if not found["right"] or found["findings"] or (what.lab and what.lab.function != "attention"):
        return
    one = what.experiment if what.lab else asked_for(scenario.current())
    live.show({f"{what.file.name}, beside FlashAttention-2 in the same blocks": one}, file=what.file)


def _tables(found: dict[str, Any]) -> None:
    """Notes, findings and bytes of a run that was served."""
    for note in found["notes"]:
        st.text(note)
    left, right = st.columns([1.1, 1], gap="large")
    left.markdown("**Findings**" if found["findings"] else "**No findings**")
    if found["findings"]:
        rows = [{"finding": one["sentence"], "line": str(one["line"] or "")} for one in found["findings"]]
        numbers(rows, "Findings", height=TALL, where=left)
    if first := found.get("first_wrong"):
        i, j = first["tile"]
        left.markdown(
            f"**The first tile that goes wrong: ({i}, {j})**, row {first['row']} of head {found['head']}"
        )
        names = ("m", "α", "l", "O, its first number")
        pairs = zip(names, first["must"], first["found"], strict=True)
        rows = [
            {"after it": name, "must be": _number(must), "found": _number(own)} for name, must, own in pairs
        ]
        numbers(rows, "The first tile that goes wrong", where=left)
        left.caption("Found is what the finding's cause makes of the row: it gives the kernel's own O.")
    right.markdown("**Bytes by tensor**, all heads, counted")
    numbers(by_tensor(found), "Bytes by tensor", height=TALL, where=right)
    if "by_program" in found:
        title = "Bytes by program"
        fold("kernel programs", lambda: numbers(by_program(found), title, height=LOW), title)


def by_tensor(found: dict[str, Any]) -> list[dict[str, str]]:
    """Bytes that all programs read and wrote, beside FlashAttention-2's in the same blocks."""
    other = "FlashAttention-2" if "visits" in found else "needed"
    kinds = {"read": "read_bytes", "written": "written_bytes"}
    kinds |= {f"{other}: {kind}": f"flash2_{of}" for kind, of in kinds.items()}
    names = dict.fromkeys([*found["read_bytes"], *found["written_bytes"]])
    return [{"": name} | {kind: _amount(found[of].get(name)) for kind, of in kinds.items()} for name in names]


def by_program(found: dict[str, Any]) -> list[dict[str, str]]:
    """Bytes that every program read and wrote by tensor, beside FlashAttention-2's for its query block."""
    names = dict.fromkeys(name for each in found["by_program"] for name in each["moved"])
    return [
        {
            "program": f"{each['launch']} ({', '.join(map(str, each['program']))})",
            "head": _amount(each["head"]),
            "query block": _amount(each["query_block"]),
            **{name: _moved(each["moved"].get(name, ())) for name in names},
            "all": _amount(each["bytes"]),
            "FlashAttention-2": _amount(each["flash2_bytes"]),
        }
        for each in found["by_program"]
    ]


def _moved(amounts: Sequence[int]) -> str:
    """Read and written; one of them alone where the other is nothing."""
    return " + ".join(_amount(amount) for amount in amounts if amount) or "0"


def _number(value: float | None) -> str:
    return "" if value is None else number_text(value, 4)


def _amount(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _what_runs(what: WatchedFile) -> str:
    """The scenario that runs, how it was made smaller, and what a file may use."""
    problem, tiling, limits = what.experiment.problem, what.experiment.asked, Limits()
    heads = heads_text(problem.heads, problem.kv_heads)
    mask = ", causal" if problem.mask.causal else ""
    fewer = "" if what.lab else smaller_sibling(problem, scenario.current().problem)
    return (
        f"This runs {heads} of {problem.seq_q:,} queries and {problem.seq_kv:,} keys{fewer}, with head "
        f"dimension {problem.head_dim}, {problem.dtype}{mask} and blocks of {tiling.block_q} × "
        f"{tiling.block_kv}; the command line, `python -m engine kernel`, runs any size. The file runs in a "
        f"process of its own, which may take {what.seconds:g} s and {limits.memory >> 30} GiB."
    )
