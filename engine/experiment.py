"""What is asked: one attention problem, algorithm, tiling and GPU. All validation lives here, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from engine import parameter
from engine.algorithms import ALGORITHMS, Algorithm
from engine.parameter import LARGEST_SEQUENCE, ExperimentError, shown
from engine.problem.hardware import GPUS, Gpu
from engine.problem.problem import DTYPE_BYTES, Mask, Problem, Tiling

BLOCKS = ("block_q", "block_kv")
HASH = "its hash"  # in what an experiment keeps beside its values


@dataclass(frozen=True)
class Experiment:
    """One point of the space that the dashboard, the command line and Python explore.

    Attributes:
        problem: what is computed.
        algorithm: the key of its record, see `engine.algorithms`.
        asked: the tiling asked for; links and sliders hold it. `tiling` is what runs.
        hardware: the key of a preset, see `engine.problem.hardware`.
    """

    problem: Problem = Problem()
    algorithm: str = "flash2"
    asked: Tiling = Tiling()
    hardware: str = "h200"

    def __post_init__(self):
        for one in PARAMETERS:
            one.check(one.get(self))
        if self.problem.heads % self.problem.kv_heads:
            must = f"a divisor of heads, which is {self.problem.heads}"
            raise ExperimentError("kv_heads", self.problem.kv_heads, must)
        lengths, keys = self.problem.mask.documents, self.problem.seq_kv
        if not isinstance(lengths, int) and sum(lengths) != keys:
            must = f"a number of documents, or lengths that add up to seq_kv, which is {keys}"
            raise ExperimentError("documents", shown(self.problem.mask.documents_text()), must)

    def __hash__(self) -> int:
        """Kept, as hundreds of results are looked up by it in a run of a page."""
        kept = vars(self)
        if HASH not in kept:
            kept[HASH] = hash((self.problem, self.algorithm, self.asked, self.hardware))
        return kept[HASH]

    def __getstate__(self) -> dict[str, Any]:
        """All but the hash: in another process the same names have others."""
        return {name: value for name, value in vars(self).items() if name != HASH}

    @cached_property
    def tiling(self) -> Tiling:
        """The tiling that runs: as asked, unless the algorithm takes its own."""
        return self.record.tiling(self.problem, self.asked)

    @property
    def record(self) -> Algorithm:
        """What is true of its algorithm alone."""
        return ALGORITHMS[self.algorithm]

    @property
    def unserved(self) -> str | None:
        """Why the algorithm's kernel does not run this on the GPU, in one sentence; None where it does."""
        return self.record.unserved(self.problem, self.gpu)

    @property
    def gpu(self) -> Gpu:
        """The preset that `hardware` names."""
        return GPUS[self.hardware]

    @classmethod
    def of(cls, /, **values: Any) -> Experiment:
        """Build from flat values, named as in the URL and on the command line; raises ExperimentError."""
        for name in values:
            if name not in BY_NAME:
                raise ExperimentError(name, values[name], f"left out: known are {', '.join(BY_NAME)}")
        given = {name: value for name, value in values.items() if value is not None}
        flat = {p.name: given.get(p.name, p.default) for p in PARAMETERS}
        for one in PARAMETERS:
            flat[one.name] = one.parse(flat[one.name])
        if flat["kv_heads"] is None:
            flat["kv_heads"] = flat["heads"]
        if flat["seq_kv"] is None:
            flat["seq_kv"] = flat["seq"]
        return cls(
            problem=Problem(
                **{
                    name: flat[name] for name in ("batch", "heads", "kv_heads", "seq_kv", "head_dim", "dtype")
                },
                seq_q=flat["seq"],
                mask=_mask(flat["causal"], flat["window"], flat["documents"]),
            ),
            algorithm=flat["algorithm"],
            asked=Tiling(**{name: flat[name] for name in ("block_q", "block_kv", "splits", "stages")}),
            hardware=flat["hardware"],
        )

    @classmethod
    def lenient(cls, values: Mapping[str, str]) -> tuple[Experiment, tuple[ExperimentError, ...]]:
        """Build from a URL's values: each bad one is reported and replaced by its default."""
        kept, errors = dict(values), []
        while True:
            try:
                return cls.of(**kept), tuple(errors)
            except ExperimentError as error:
                errors.append(error)
                del kept[error.field]

    def flat(self) -> dict[str, Any]:
        """The flat values, as `of` takes them: what was asked."""
        return {one.name: one.get(self) for one in PARAMETERS}

    def changed(self, /, **values: Any) -> Experiment:
        """The same with some flat values replaced; a kernel keeps its own tiling until it is given blocks."""
        flat, mask, keys = self.flat(), self.problem.mask, values.get("seq_kv")
        if isinstance(mask.documents, tuple) and isinstance(keys, int) and keys > 0:
            flat["documents"] = mask.resized(keys, self.problem.seq_kv).documents_text()
        changed = Experiment.of(**{**flat, **values})
        return changed.in_own_tiling() if self.asked.own and not {*BLOCKS} & {*values} else changed

    def in_own_tiling(self) -> Experiment:
        """The same experiment with the blocks that the algorithm's kernel takes when it is given none."""
        return replace(self, asked=replace(self.asked, own=self.record.own_tiling is not None))


def _mask(causal: bool, window: int | str | None, documents: int | str) -> Mask:
    """The mask of flat values; a pair of keys before and after is a window with what it shows ahead."""
    ahead = 0
    if isinstance(window, str):
        before, ahead = (int(part) for part in window.split(":"))
        window = before + 1
    if isinstance(documents, str):
        documents = tuple(int(part) for part in documents.split(":"))
    return Mask(causal, window, documents, ahead)


PARAMETERS = (
    parameter.choice("algorithm", ALGORITHMS, "flash2", lambda e: e.algorithm),
    parameter.number("batch", 1, 4096, 1, lambda e: e.problem.batch),
    parameter.number("heads", 1, 1024, 16, lambda e: e.problem.heads),
    parameter.number("kv_heads", 1, 1024, None, lambda e: e.problem.kv_heads),
    parameter.number("seq", 1, LARGEST_SEQUENCE, 1024, lambda e: e.problem.seq_q),
    parameter.number("seq_kv", 1, LARGEST_SEQUENCE, None, lambda e: e.problem.seq_kv),
    parameter.number("head_dim", 1, 256, 64, lambda e: e.problem.head_dim),
    parameter.choice("dtype", DTYPE_BYTES, "float16", lambda e: e.problem.dtype),
    parameter.switch("causal", False, lambda e: e.problem.mask.causal),
    parameter.window(lambda e: e.problem.mask.window_text()),
    parameter.documents(lambda e: e.problem.mask.documents_text()),
    parameter.block("block_q", lambda e: e.asked.block_q),
    parameter.block("block_kv", lambda e: e.asked.block_kv),
    parameter.number("splits", 1, 1024, 1, lambda e: e.asked.splits),
    parameter.number("stages", 1, 8, 2, lambda e: e.asked.stages),
    parameter.choice("hardware", GPUS, "h200", lambda e: e.hardware),
)
BY_NAME = {one.name: one for one in PARAMETERS}
