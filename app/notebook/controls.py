"""Sliders below a picture, by the optional package anywidget; what is drawn anew goes to its frame."""

from collections.abc import Callable
from pathlib import Path

import anywidget
import traitlets

from app.gallery.phone import in_document
from app.gallery.picture import Drawn
from app.notebook import fields
from engine.experiment import Experiment, ExperimentError, described


class Controls(anywidget.AnyWidget):
    """The sliders of one frame: `values` come from the browser; `data` or a whole `document` goes there."""

    _esm = Path(__file__).with_name("controls.js")
    frame = traitlets.Unicode().tag(sync=True)
    fields = traitlets.List().tag(sync=True)
    values = traitlets.Dict().tag(sync=True)
    document = traitlets.Unicode().tag(sync=True)
    data = traitlets.Bytes().tag(sync=True)
    said = traitlets.Unicode().tag(sync=True)

    @classmethod
    def of(
        cls, frame: str, experiment: Experiment, drawn: Drawn, draw: Callable[[Experiment], Drawn]
    ) -> "Controls":
        """The sliders of an experiment that a frame shows, and what draws another."""
        made = cls(frame=frame, fields=fields(experiment), said=described(experiment))

        def asked(change: dict) -> None:
            nonlocal drawn
            values, problem = dict(change["new"]), experiment.problem
            if problem.seq_q == problem.seq_kv and "seq" in values:  # keys follow, as in a link
                values["seq_kv"] = values["seq"]
            try:
                one = experiment.changed(**values)
                new = draw(one)
            except (ExperimentError, ValueError) as error:
                made.said = f"{error}."
                return
            made.said, words = described(one), (new.html, new.below, new.says)
            if isinstance(new.data, bytes) and words == (drawn.html, drawn.below, drawn.says):
                made.data = new.data
            else:
                made.document = in_document(described(one), new)
            drawn = new

        made.observe(asked, "values")
        return made
