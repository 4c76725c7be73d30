"""The pictures in a notebook: `from app.notebook import show`, then `show("tiles", seq=1024, causal=True)`.

Each is a document in a frame, which plays after the notebook was saved or converted, too. Its sliders need
the package anywidget and a running kernel.
"""

import logging
from collections.abc import Callable
from functools import partial
from html import escape
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import Any
from uuid import uuid4

from app import contents
from app.gallery.phone import in_document
from app.gallery.picture import Drawn
from app.notebook.source import source_of
from app.scenario.page_values import OWN
from app.scenario.page_values import read as read_own
from app.sidebar import BLOCKS, SEQUENCES
from engine.experiment import Experiment, described
from engine.measuring.user_kernel import WatchedFile, watch
from engine.problem.heads import read
from engine.watch.labs import DEFAULTS, lines
from engine.watch.process import FailedError

HEIGHT = 620  # px of a frame until its document tells its own
LISTEN = """<script>{
  const frame = document.currentScript.previousElementSibling;
  addEventListener("message", ({ source, data }) => {
    if (source !== frame.contentWindow) return;
    if (data > 0) frame.style.height = `${data}px`;
    for (const other of data.beside ? frame.parentElement.parentElement.querySelectorAll("iframe") : [])
      if (other !== frame) other.contentWindow.postMessage(data, "*");
  });
}</script>"""
NO_SLIDERS = "Sliders need the package anywidget: pip install anywidget."


def show(
    what: str | Experiment = "tiles",
    *,
    beside: Experiment | None = None,
    kernel: str | Path | FunctionType | None = None,
    **scenario: Any,
) -> "Shown":
    """A page's picture of a scenario, given as values or whole.

    Args:
        what: the page, by its name in the address; or an experiment, which is shown on Tiles.
        beside: another experiment to show next to it, by one clock.
        kernel: a Triton kernel of one's own, watched as on the page Your kernel: its file, or the function
            `attention(q, k, v, scale, block_q, block_kv, causal)` itself.
        scenario: values by their names in links and on the command line, as `seq=1024`; those of the page
            alone too, as `generation="blackwell"` of Inside a block, which is "flash3".

    Raises:
        ValueError: naming the page or value, and what it must be. FailedError: of a kernel that cannot run.

    Example:
        show("tiles", seq=1024, causal=True)
    """
    if Path(str(scenario.get("inputs", ""))).suffix in (".npz", ".safetensors"):  # a file of heads
        scenario["inputs"] = read(scenario["inputs"])
    if kernel is not None:
        return Shown([Experiment.of(**DEFAULTS | scenario)], lambda one: _watched(kernel, one))
    whole = isinstance(what, Experiment)
    own = {name: f"{scenario.pop(name)}" for name, of in OWN.items() if of.page == what and name in scenario}
    asked, wrong = read_own(own)
    if wrong:
        raise wrong[0]
    name, one = ("tiles", what.changed(**scenario)) if whole else (what, Experiment.of(**scenario))
    if name not in (known := [page for page in contents.PAGES if contents.picture(page) and page != "tour"]):
        raise ValueError(f"what is {name!r:.60}; it must be an experiment, or one of {', '.join(known)}")
    return Shown([one, *([] if beside is None else [beside])], partial(contents.picture(name).of, **asked))


class Shown:
    """Pictures next to each other; the notebook shows what `show` returns, `save` keeps it as a file."""

    def __init__(self, experiments: list[Experiment], draw: Callable[[Experiment], Drawn]):
        self._experiments, self._draw = experiments, draw
        self._names = [f"frame{uuid4().hex}" for _ in experiments]
        self.drawn = [_quietly(draw, one) for one in experiments]

    def save(self, file: str | Path) -> None:
        """Write the first picture as an HTML file that plays anywhere."""
        Path(file).write_text(self._documents()[0], "utf-8")

    def _documents(self) -> list[str]:
        return [
            in_document(described(one), drawn)
            for one, drawn in zip(self._experiments, self.drawn, strict=True)
        ]

    def _repr_html_(self) -> str:
        frames = [
            f"<div style='flex:1; min-width:20rem'><iframe name='{name}' title='{escape(described(one))}' "
            f"style='width:100%; height:{HEIGHT}px; border:0' srcdoc='{escape(text)}'></iframe>{LISTEN}</div>"
            for name, one, text in zip(self._names, self._experiments, self._documents(), strict=True)
        ]
        return f"<div style='display:flex; flex-wrap:wrap; gap:12px'>{''.join(frames)}</div>"

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, display

        display(HTML(self._repr_html_()))
        if find_spec("anywidget") is None:
            display(HTML(f"<small>{NO_SLIDERS}</small>"))
            return
        from app.notebook.controls import Controls

        for name, one, drawn in zip(self._names, self._experiments, self.drawn, strict=True):
            display(Controls.of(name, one, drawn, lambda one: _quietly(self._draw, one)))


def _quietly(draw: Callable[[Experiment], Drawn], experiment: Experiment) -> Drawn:
    logging.disable(logging.WARNING)  # Streamlit misses a session at every call
    try:
        return draw(experiment)
    finally:
        logging.disable(logging.NOTSET)


def _watched(kernel: str | Path | FunctionType, experiment: Experiment) -> Drawn:
    """A kernel's run with what was found, in words below the picture."""
    from app.watched import WATCHED, build

    with TemporaryDirectory() as folder:
        file = Path(folder, "my_attention.py") if isinstance(kernel, FunctionType) else Path(kernel)
        if isinstance(kernel, FunctionType):
            file.write_text(source_of(kernel), "utf-8")
        running = watch(WatchedFile(file, experiment).payload)
        try:
            while True:
                next(running)
        except StopIteration as ended:
            found = ended.value
    if "failed" in found:
        raise FailedError(found["failed"])
    return Drawn(moving=WATCHED, data=build(found), below=f"<pre>{escape(lines(found))}</pre>")


def fields(experiment: Experiment) -> list[dict[str, Any]]:
    """The sliders of an experiment: each value's name, what it can be, and what it is."""
    own, length = experiment.flat(), "seq" if experiment.problem.seq_q > 1 else "seq_kv"
    blocks = {} if experiment.record.chooses_tiling else dict.fromkeys(("block_q", "block_kv"), BLOCKS)
    options = {length: SEQUENCES, **blocks, "causal": (False, True)}
    return [
        {"name": name, "options": sorted({*values, own[name]}), "value": own[name]}
        for name, values in options.items()
    ]
