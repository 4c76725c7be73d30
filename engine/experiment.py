"""One attention problem, algorithm, tiling and GPU. All validation lives here, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from engine import parameter
from engine.algorithms import ALGORITHMS, Algorithm
from engine.parameter import LARGEST_SEQUENCE, ExperimentError, shown
from engine.problem.dtype import DTYPES
from engine.problem.hardware import GPUS, Gpu
from engine.problem.heads import Heads, kept, text_of, typed
from engine.problem.inputs import fits
from engine.problem.problem import DRAWN, Mask, Problem, Tiling

BLOCKS = ("block_q", "block_kv")
BLOCK_SIZES = 16, 1024, 64  # the least, the most, and the usual one
LARGEST_HEAD_DIM = 256  # but for a latent
FEW_KEYS, SMALL_BLOCK = 256, 16  # up to so many keys of a head are seen in blocks of so many
WITHOUT_HEADS = {"latent": False, "page_size": None, "documents": 1, "prefix": 0, "window": None}
HASH = "its hash"  # in what an experiment keeps beside its values
MASK = "problem.mask."  # the path to the kinds of its mask


@dataclass(frozen=True)
class Experiment:
    """One point of the space that the dashboard, the command line and Python explore.

    >>> Experiment.of(seq=4096, causal=True, window="512:128").problem.mask.ahead
    128
    """

    problem: Problem = Problem()  # what is computed
    algorithm: str = "flash2"  # the key of its record, see `engine.algorithms`
    asked: Tiling = Tiling()  # the tiling asked for; links and sliders hold it. `tiling` is what runs
    hardware: str = "h200"  # the key of a preset, see `engine.problem.hardware`

    def __post_init__(self):
        for one in PARAMETERS.values():
            one.check(one.get(self))
        if self.problem.heads % self.problem.kv_heads:
            must = f"a divisor of heads, which is {self.problem.heads}"
            raise ExperimentError("kv_heads", self.problem.kv_heads, must)
        wide, latent = self.problem.head_dim, self.problem.latent
        if wide > LARGEST_HEAD_DIM and not latent:
            must = f"a whole number from 1 to {LARGEST_HEAD_DIM}, or to 576 with a latent"
            raise ExperimentError("head_dim", wide, must)
        if latent and self.problem.v_dim > wide:
            raise ExperimentError(
                "head_dim_v", self.problem.v_dim, f"at most head_dim, {wide}, with a latent"
            )
        if fault := self.problem.mask.fault(self.problem.seq_kv):
            name, value, must = fault
            raise ExperimentError(name, shown(value), must)

    def __hash__(self) -> int:
        """Computed once, as hundreds of results are looked up by it in a run of a page."""
        own = vars(self)
        if HASH not in own:
            own[HASH] = hash((self.problem, self.algorithm, self.asked, self.hardware))
        return own[HASH]

    def __getstate__(self) -> dict[str, Any]:
        """All but the hash: in another process the same names have others."""
        return {name: value for name, value in vars(self).items() if name != HASH}

    @cached_property
    def tiling(self) -> Tiling:
        """The tiling that runs: as asked, unless the algorithm takes its own."""
        return replace(self.record.tiling(self.problem, self.asked, self.gpu), device=self.gpu.device)

    @property
    def record(self) -> Algorithm:
        return ALGORITHMS[self.algorithm]

    @property
    def unserved(self) -> str | None:
        """Why the algorithm's kernel does not run this on the GPU, in one sentence; None where it does."""
        for asked, what, way in (
            (self.problem.page_size, "pages", "whole: keys in pages are read"),
            (self.problem.latent, "latents", "apart: a latent is decoded over"),
        ):
            if asked and not getattr(self.record, what):
                readers = (record.label for record in ALGORITHMS.values() if getattr(record, what))
                return f"The kernel takes K and V {way} by {' and '.join(readers)}."
        return self.problem.unserved or self.record.unserved(self.problem, self.gpu)

    @property
    def gpu(self) -> Gpu:
        return GPUS[self.hardware]

    @classmethod
    def of(cls, /, **values: Any) -> Experiment:
        """Build from flat values, named as in the URL and on the command line; raises ExperimentError."""
        for name in values:
            if name not in PARAMETERS:
                raise ExperimentError(name, values[name], f"left out: known are {', '.join(PARAMETERS)}")
        heads = values.get("inputs")
        if isinstance(heads, str) and values.get("seq") is None:  # a name alone says the sizes too
            heads, _ = kept(heads.strip()) or (None, 0)
        if isinstance(heads, Heads):
            values = _sizes(heads) | {name: one for name, one in values.items() if one is not None}
        flat = {}
        for name, one in PARAMETERS.items():
            value = values.get(name)
            flat[name] = one.parse(one.default if value is None else value)
        parts = {"": {}, "problem": {}, "problem.mask": {}, "asked": {}}
        for name, one in PARAMETERS.items():
            place, _, field = one.path.rpartition(".")
            parts[place][field] = flat[one.follows] if flat[name] is None and one.follows else flat[name]
        problem = Problem(**parts["problem"], mask=Mask.of(**parts["problem.mask"]))
        PARAMETERS["inputs"].check(problem.inputs)
        if problem.inputs != DRAWN and not fits(problem):
            must = f"{DRAWN}, as these heads have other sizes, or fewer tokens"
            raise ExperimentError("inputs", shown(problem.inputs), must)
        return cls(problem=problem, asked=Tiling(**parts["asked"]), **parts[""])

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
        return {name: one.get(self) for name, one in PARAMETERS.items()}

    def unusual(self) -> dict[str, Any]:
        """The flat values that are not what they would be if left out."""
        flat = self.flat()
        usual = {name: flat.get(one.follows, one.default) for name, one in PARAMETERS.items()}
        return {name: value for name, value in flat.items() if value != usual[name]}

    def changed(self, /, mask: Mask | None = None, **values: Any) -> Experiment:
        """The same with some flat values replaced, or with a whole mask, whose kinds values may replace.

        A kernel keeps its own tiling until it is given blocks.
        """
        if values.keys() == {"algorithm"} and mask is None:  # asked for hundreds of times by a page
            changed = replace(self, algorithm=PARAMETERS["algorithm"].parse(values["algorithm"]))
            return changed.in_own_tiling() if self.asked.own else changed
        keys, mask = values.get("seq_kv"), mask or self.problem.mask
        if isinstance(keys, int) and keys > 0:
            mask = mask.resized(keys, self.problem.seq_kv)
        masked = ((name, one.path) for name, one in PARAMETERS.items() if one.path.startswith(MASK))
        like = {name: getattr(mask, path.removeprefix(MASK)) for name, path in masked}
        flat = self.flat()
        inputs = values.get("inputs", flat.pop("inputs"))
        changed = Experiment.of(**{**flat, **like, **values})
        if fits(named := replace(changed.problem, inputs=inputs)):  # else what is changed has drawn numbers
            changed = replace(changed, problem=named)
        return changed.in_own_tiling() if self.asked.own and not {*BLOCKS} & {*values} else changed

    def on(self, inputs: str) -> Experiment:
        """The same on heads of this name: with their sizes and mask, in small blocks where keys are few.

        Raises HeadsError of a text that is none, ExperimentError of another name.
        """
        found = typed(inputs) if inputs.startswith("text:") else (kept(inputs) or (None,))[0]
        sizes = {} if found is None else WITHOUT_HEADS | _sizes(found)
        return Experiment.of(**self.flat() | sizes | {"inputs": inputs})

    def in_own_tiling(self) -> Experiment:
        """The same experiment with the blocks that the algorithm's kernel takes when it is given none."""
        return replace(self, asked=replace(self.asked, own=self.record.own_tiling is not None))


def _sizes(heads: Heads) -> dict[str, Any]:
    """The flat values that heads bring, with small blocks where keys are few."""
    small = dict.fromkeys(BLOCKS, SMALL_BLOCK) if heads.k.shape[1] <= FEW_KEYS else {}
    return heads.values() | small


PARAMETERS = {
    one.name: one
    for one in (
        parameter.choice("algorithm", ALGORITHMS, "flash2", "algorithm"),
        parameter.number("batch", 1, 4096, 1, "problem.batch"),
        parameter.number("heads", 1, 1024, 16, "problem.heads"),
        parameter.number("kv_heads", 1, 1024, None, "problem.kv_heads", follows="heads"),
        parameter.number("seq", 1, LARGEST_SEQUENCE, 1024, "problem.seq_q"),
        parameter.number("seq_kv", 1, LARGEST_SEQUENCE, None, "problem.seq_kv", follows="seq"),
        parameter.number("head_dim", 1, 576, 64, "problem.head_dim"),
        parameter.choice("dtype", DTYPES, "float16", "problem.dtype"),
        parameter.number("head_dim_v", 1, 512, None, "problem.head_dim_v", label="d of V"),
        parameter.real("softcap", "problem.softcap", 0.01, 1e6, label="Softcap"),
        parameter.switch("sinks", False, "problem.sinks", label="Sinks"),
        parameter.switch("slopes", False, "problem.slopes", label="ALiBi slopes"),
        parameter.switch("latent", False, "problem.latent", label="Latent"),
        parameter.number("page_size", 1, LARGEST_SEQUENCE, None, "problem.page_size", label="Page size"),
        parameter.heads("problem.inputs"),
        parameter.switch("causal", False, "problem.mask.causal"),
        parameter.window("problem.mask.window_text"),
        parameter.documents("problem.mask.documents_text"),
        parameter.number("prefix", 0, LARGEST_SEQUENCE, 0, "problem.mask.prefix", label="Prefix"),
        parameter.number("block_q", *BLOCK_SIZES, "asked.block_q", power=True),
        parameter.number("block_kv", *BLOCK_SIZES, "asked.block_kv", power=True),
        parameter.number("splits", 1, 1024, 1, "asked.splits"),
        parameter.number("stages", 1, 8, 2, "asked.stages"),
        parameter.choice("hardware", GPUS, "h200", "hardware"),
    )
}


def described(experiment: Experiment) -> str:
    """A scenario in a few words, its algorithm by the name that it is asked for by."""
    problem, tiling = experiment.problem, experiment.tiling
    mask = f", {problem.mask.text}" * problem.mask.hides
    wide = f"/{problem.v_dim}" * (problem.v_dim != problem.head_dim)
    cap = f", cap {problem.softcap:g}" if problem.softcap else ""
    terms = cap + "".join(f", {name}" for name in ("sinks", "slopes") if name in problem.terms)
    terms += ", latent" * problem.latent
    terms += f", pages of {problem.page_size}" if problem.page_size else ""
    if fits(problem):
        terms += ", numbers of a sentence" if text_of(problem.inputs) else ", numbers of a file"
    heads = f"{problem.heads}" if problem.heads == problem.kv_heads else f"{problem.heads}/{problem.kv_heads}"
    dtype = f", {problem.dtype}" * (problem.dtype != "float16")
    batch = f"batch {problem.batch}, " if problem.batch > 1 else ""
    length = f"N {problem.seq_kv:,}"
    if problem.seq_q != problem.seq_kv:
        length = f"{problem.seq_q:,} queries × {problem.seq_kv:,} keys"
    return (
        f"{experiment.algorithm}, {length}, {batch}heads {heads}, d {problem.head_dim}{wide}{mask}{terms}, "
        f"blocks {tiling.block_q}×{tiling.block_kv}{dtype}"
    )
