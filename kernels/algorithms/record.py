"""What is true of one algorithm's kernels alone: what they serve, in which blocks, and when they pay.

Whoever needs a fact about an algorithm asks its record, and nobody asks for its name.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from kernels.call.arguments import DTYPES
from kernels.call.call import Call, default_blocks
from kernels.call.device import device_of
from kernels.tilings.device import HOPPER

# what a call may ask for, in the words of a sentence: its mask, and its terms
FEATURES = {
    "causal": "causal",
    "window": "a window of keys",
    "sides": "a window to both sides",
    "prefix": "a prefix",
    "documents": "documents",
    "short_documents": "documents of few queries",
    "ranges": "any ranges of keys",
    "softcap": "softcap",
    "fine_softcap": "softcap below 8 or above 64",
    "sinks": "sinks",
    "alibi_slopes": "slopes",
}
EVERY = frozenset(FEATURES)
PLAIN: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Asked:
    """What `auto` chooses for."""

    call: Call  # flash2's, in its default blocks, whatever it would run in
    fallback: Call  # what runs where nothing is faster
    processors: int  # SMs of the GPU
    on_gpu: bool  # whether the tensors lie on one
    features: frozenset[str]  # of `FEATURES`, what is asked for beside causal and a window


Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
Offer = Callable[[Call, Asked], tuple[Call, str] | str | None]


@dataclass(frozen=True)
class Backward:
    """A backward pass of an algorithm's own; all others have that of `kernels.backward`.

    run: (q, k, v, out, lse, d_out, d_lse, call, terms, again) -> dQ, dK, dV, and of the sinks, or None; d_lse
    and terms may be None, again gets what does the same for tensors of these layouts.
    """

    run: Callable
    unserved: Callable[[Call], str | None] = lambda call: None  # why not, where the forward pass serves
    pays: Callable[[Call, int], bool] = lambda call, processors: True  # done before `kernels.backward`'s
    serves: frozenset[str] = EVERY  # of `FEATURES`, beside what the forward pass does not


@dataclass(frozen=True)
class Algorithm:
    """What an algorithm's kernels serve, and how they are run.

    forward: (q, k, v, call) -> O [batch, heads, seq_q, head_dim of v] and lse float32 [batch, heads, seq_q];
    where it says so below with terms=, what is beyond a plain mask, probe=, (m, l, alpha) to fill, see
    `kernels.Probed`, and times=, see `kernels.launch.block_times`. prepared: (checked call, whether blocks
    are its own, (q, k, v), SMs) -> the call that runs. offers: by rank, lowest first: (own prepared call,
    what is asked) -> a call that `auto` takes and why, or in one sentence why not, or None. again: (call,
    terms) -> what does a launch of such terms again, (q, k, v, out, *their tensors) -> lse, if there was one.
    """

    key: str  # its name as an argument
    order: int  # where it stands in lists
    forward: Callable
    serves: frozenset[str] = EVERY  # of `FEATURES`; who serves any but causal and window takes `terms`
    dtypes: tuple[torch.dtype, ...] = DTYPES
    head_dims: tuple[int, ...] | None = None  # of q and k; None: any that `kernels.call.arguments` allows
    own_v_dim: bool = True  # whether V may have a head_dim of its own
    hopper: bool = False  # whether they are in Gluon for a Hopper GPU; else any and the interpreter run them
    layout: Callable[..., str | None] = lambda q, k, v: None  # why strides or addresses are not served
    most_keys: tuple[int, str] | None = None  # of a row, and why, in words
    chooses_blocks: bool = False  # whether block_q and block_kv may not be given
    # (queries of a key head, wider head_dim, dtype, device) -> block_q and block_kv unless they are given
    blocks: Callable[[int, int, torch.dtype, torch.device], tuple[int, int]] = default_blocks
    most_splits: int = 0  # of the keys, that may be asked for
    prepared: Callable[[Call, bool, Tensors, int], Call] = lambda call, *_: call
    offers: dict[int, Offer] = field(default_factory=dict)
    fallback: bool = False  # whether it runs where nobody offers, and where blocks are given
    reason: str = "it was asked for"
    backward: Backward | None = None
    differentiable: bool = False
    takes_seen: bool = False  # whether forward takes terms without ranges, where these have `seen`
    again: Callable[..., Callable | None] = lambda call, terms: None
    probed: bool = False  # whether `probe_attention` takes it, and then `trace_attention`
    traced: bool = False
    whole_rows: bool = False  # whether a tile has all keys, as the probe sees it

    def unserved(self, q, k, v, features: frozenset[str], interpreted: bool) -> str | None:
        """One sentence on why its kernels do not serve a call, or None where they do."""
        return (
            self.unserved_features(features)
            or self.unserved_device(q.device, interpreted)
            or self.unserved_tensors(q, k, v)
        )

    def unserved_features(self, features: frozenset[str]) -> str | None:
        if features <= self.serves:
            return None
        return (
            f"{self.key} takes {_listed([FEATURES[each] for each in FEATURES if each in self.serves])} alone"
        )

    def unserved_device(self, device: torch.device, interpreted: bool) -> str | None:
        if not self.hopper:
            return None
        if interpreted:
            return f"{self.key} is written in Gluon, which Triton's interpreter does not run"
        if device.type != "cuda":
            return f"{self.key} needs a Hopper GPU, q is on {device}"
        if (found := device_of(device).architecture) != HOPPER.architecture:
            return f"{self.key} needs a Hopper GPU ({HOPPER.architecture}), this one is {found}"
        return None

    def unserved_tensors(self, q, k, v) -> str | None:
        """The part of `unserved` that the tensors alone decide, whatever the device."""
        if q.dtype not in self.dtypes:
            names = [str(dtype).removeprefix("torch.") for dtype in self.dtypes]
            return f"{self.key} takes {_listed(names)}, got {q.dtype}"
        head_dim, v_dim = q.shape[-1], v.shape[-1]
        if self.head_dims is not None and head_dim not in self.head_dims:
            return f"{self.key} takes a head_dim of {_listed(self.head_dims, 'or')}, got {head_dim}"
        if not self.own_v_dim and v_dim != head_dim:
            return f"{self.key} takes V of the head_dim of Q and K alone, got {v_dim} and {head_dim}"
        return self.layout(q, k, v)


def _listed(values, last: str = "and") -> str:
    *most, end = map(str, values)
    return f"{', '.join(most)} {last} {end}" if most else end
