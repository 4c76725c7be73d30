"""A kernel launched before is started again without Triton's look at its arguments, by Triton's launcher."""

from contextlib import contextmanager
from types import SimpleNamespace
from weakref import ref

import pytest
import torch
from triton.backends.nvidia import driver as nvidia

from kernels import attention, attention_varlen, dense, varlen
from kernels.call.call import Call
from kernels.call.value_checks import alike_of
from kernels.dispatch import dispatch
from kernels.launch import launch, relaunch

CALL = Call(1, 1, 1, 16, 16, 16, False, None, 1.0, "flash2", 16, 16, None)


class Kernel:
    """Stands in for a compiled kernel and for the function that Triton compiles; notes how it is started."""

    arg_names = ("q", "out", "size", "FLAG")

    def __init__(self):
        self.compiled, self.started = [], []

    def __getitem__(self, grid):
        def compile_and_run(*tensors, **arguments):
            self.compiled.append((grid, arguments))
            return self

        return compile_and_run


class Relaunch:
    """Stands in for what starts a kernel again; notes with what."""

    def __init__(self, kernel, programs, tensors, constants):
        self.kernel, self.fixed = kernel, (programs, *constants)

    def __call__(self, *addresses):
        self.kernel.started.append((*addresses, *self.fixed))


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setattr(launch, "_LAUNCHED", {})
    monkeypatch.setattr(launch, "Relaunch", Relaunch)
    return Kernel()


def run(kernel, q, out, programs=3, **changed):
    arguments = {"num_warps": 4, "num_stages": 2, "FLAG": True, "size": 5, **changed}
    launch.launch(kernel, programs, CALL, (q, out), **arguments)


def test_a_second_launch_passes_its_own_tensors_and_all_arguments_in_order(kernel):
    run(kernel, torch.zeros(8), None)
    q = torch.ones(8)
    run(kernel, q, None)
    assert kernel.compiled == [((3,), {"num_warps": 4, "num_stages": 2, "FLAG": True, "size": 5})]
    assert kernel.started == [(q.data_ptr(), 3, 5, True)]


@pytest.mark.parametrize(
    "changed",
    [
        *({"programs": 7}, {"size": 6}, {"FLAG": False}, {"num_warps": 8}, {"num_stages": 1}),
        *({"out": torch.zeros(1)}, {"q": torch.zeros(8).half()}, {"q": torch.zeros(9)[1:]}),
    ],
    ids=str,
)
def test_what_triton_may_compile_anew_for_is_launched_by_triton(kernel, changed):
    q = torch.zeros(8)
    run(kernel, q, None)
    run(kernel, **{"q": q, "out": None, **changed})
    assert len(kernel.compiled) == 2
    assert not kernel.started


def test_options_that_are_tried_are_not_mixed_up_with_the_kernels_own(kernel):
    q = torch.zeros(8)
    run(kernel, q, None)
    with launch.launch_options(8, 3):
        run(kernel, q, None)
        run(kernel, q, None)
    run(kernel, q, None)
    assert [options["num_warps"] for _, options in kernel.compiled] == [4, 8]
    assert len(kernel.started) == 2


def test_what_is_remembered_is_bounded(kernel, monkeypatch):
    monkeypatch.setattr("kernels.call.value_checks.REMEMBERED", 2)
    for size in (1, 2, 3):
        run(kernel, torch.zeros(8), None, size=size)
    assert len(launch._LAUNCHED) == 1


def test_the_interpreter_leaves_nothing_to_remember(kernel, monkeypatch):
    monkeypatch.setattr(Kernel, "__getitem__", lambda self, grid: lambda *tensors, **arguments: None)
    run(kernel, torch.zeros(8), None)
    assert not launch._LAUNCHED


WHERE = "cuda" if torch.cuda.is_available() else "cpu"
ROWS, EDGES = torch.ones(40, 2, 16, device=WHERE), torch.tensor([0, 12, 40], device=WHERE)


@pytest.mark.parametrize(
    ("q", "options", "autocast"),
    [
        (ROWS[:39], {"causal": True}, False),
        (ROWS.transpose(0, 1).contiguous().transpose(0, 1), {"causal": True}, False),
        (ROWS.half(), {"causal": True}, False),
        (ROWS.clone().requires_grad_(), {"causal": True}, False),
        (ROWS, {"causal": 1}, False),  # another type: what is checked of one is not of the other
        (ROWS, {}, False),
        (ROWS, {"causal": True, "sinks": torch.zeros(2, device=WHERE)}, False),
        (ROWS, {"causal": True}, True),
    ],
    ids=str,
)
def test_what_is_not_alike_is_not_launched_again(q, options, autocast):
    known = alike_of((ROWS, EDGES), {"causal": True})
    assert known is not None
    assert known == alike_of((ROWS.clone(), EDGES + 1), {"causal": True})
    with torch.autocast("cpu", enabled=autocast):
        assert alike_of((q, EDGES), options) != known


@pytest.fixture
def launched(monkeypatch):
    """What is launched again, where no number is at hand, as on a GPU, whatever the lengths are."""
    launched = []

    def again(*tensors):
        launched.append(tensors)
        return torch.zeros(1, 2, 40)

    for module in (varlen, dense):
        monkeypatch.setattr(module, "_AGAIN", {})
    monkeypatch.setattr(varlen, "at_hand", lambda edges: False)
    monkeypatch.setattr(dispatch, "again", lambda *_: again)
    return launched


def test_a_packed_call_alike_is_launched_again_with_its_own_tensors(launched):
    attention_varlen(ROWS, ROWS, ROWS, EDGES, EDGES)
    assert not launched
    q, edges = ROWS + 1, EDGES.clone()
    out, lse = attention_varlen(q, ROWS, ROWS, EDGES, edges, return_lse=True)
    assert not launched  # EDGES twice is another launch
    out = attention_varlen(q, ROWS, ROWS, edges, edges)
    given = q, ROWS, ROWS, out, out, edges, edges
    assert all(each is same for each, same in zip(launched[0], given, strict=True))
    assert lse.shape == (2, 40)


@pytest.mark.parametrize(
    "options", [{"softcap": 9.0}, {"documents": [12, 28], "sinks": torch.zeros(2, device=WHERE)}], ids=str
)
def test_a_call_with_terms_alike_is_launched_again(launched, options):
    q = ROWS.transpose(0, 1)[None].contiguous()
    attention(q, q, q, **options)
    assert not launched
    out = attention(q + 1, q, q, **options)
    (tensors,) = launched
    assert tensors[3] is out
    assert len(tensors) == (8 if "sinks" in options else 4)  # a sink, O, and where documents begin
    attention(q, q, q, **options, causal=True)
    assert len(launched) == 1


@pytest.mark.parametrize("documents", [torch.tensor([12, 28], device=WHERE), [{}], {1: 2}], ids=str)
def test_options_that_nobody_takes_are_refused_as_ever(launched, documents):
    q = ROWS.transpose(0, 1)[None]
    with pytest.raises(ValueError, match="documents is"):
        attention(q, q, q, documents=documents)


STREAM = 5


class Descriptor:
    def __init__(self, base):
        self.base = base
        self.shape = list(base.shape)


class TritonsLauncher:
    """Triton's launcher as of 3.6, which hands the arguments on flat, or as of 3.7, nested."""

    def __init__(self, handed, nested):
        self.nested = nested
        self.launch = self.looking_at_descriptors(lambda *arguments: handed.append(arguments))

    @staticmethod
    def looking_at_descriptors(launcher):
        return lambda *arguments: launcher(*arguments)

    def __call__(self, x, y, z, stream, function, packed, metadata, enter, leave, *arguments):
        fixed = ("cooperative", packed, metadata, enter, leave, "annotations")
        self.launch(x, y, z, stream, function, *fixed, *([arguments] if self.nested else arguments))


@pytest.fixture
def encoded(monkeypatch):
    """The addresses for which a TMA descriptor was encoded."""
    addresses = []

    def make_tensordesc_arg(descriptor, encoding):
        address = descriptor.base.data_ptr()
        addresses.append(address)
        return [("map", encoding, address), *descriptor.shape]

    monkeypatch.setattr(nvidia, "make_tensordesc_arg", make_tensordesc_arg)
    monkeypatch.setattr(relaunch, "current_stream", {None: STREAM, 1: STREAM + 1}.get)
    monkeypatch.setattr(relaunch, "current_device", lambda: None)  # where tensors on the CPU are
    return addresses


def compiled(handed, nested=True):
    return SimpleNamespace(
        run=TritonsLauncher(handed, nested),
        function="function",
        packed_metadata=(4, 1, 0),
        metadata=SimpleNamespace(tensordesc_meta=["swizzled"]),
        launch_metadata=lambda grid, stream: ("metadata", grid, stream),
    )


@pytest.mark.parametrize("nested", [False, True])
def test_what_is_launched_again_has_its_own_addresses_and_all_other_arguments(encoded, nested):
    handed = []
    q, lse = torch.zeros(8), torch.zeros(2)
    launch = relaunch.Relaunch(compiled(handed, nested), 3, (Descriptor(q), lse, None), (7, (1, 2), True))
    assert not handed
    launch(1024, 2048)
    [launched] = handed
    assert launched[:6] == (3, 1, 1, STREAM, "function", "cooperative")
    assert launched[6:11] == ((4, 1, 0), None, None, None, "annotations")
    arguments = launched[11] if nested else list(launched[11:])
    assert arguments == [("map", "swizzled", 1024), 8, 2048, None, 7, (1, 2), True]


@pytest.mark.parametrize("current", [0, 1])
def test_it_starts_on_its_tensors_device_and_the_stream_that_is_current_there(encoded, monkeypatch, current):
    handed, entered = [], []

    @contextmanager
    def device(index):
        entered.append(index)
        monkeypatch.setattr(relaunch, "current_device", lambda: index)
        yield

    monkeypatch.setattr(relaunch, "current_device", lambda: current)
    monkeypatch.setattr(relaunch.torch.cuda, "device", device)
    elsewhere = SimpleNamespace(device=torch.device("cuda", 1))
    relaunch.Relaunch(compiled(handed), 3, (elsewhere,), (7,))(1024)
    assert [launched[3] for launched in handed] == [STREAM + 1]
    assert handed[0][-1] == [1024, 7]
    assert entered == ([] if current == 1 else [1])


def test_an_address_is_encoded_once_and_many_are_not_kept(encoded, monkeypatch):
    monkeypatch.setattr(relaunch, "MOST_ADDRESSES", 2)
    launch = relaunch.Relaunch(compiled([]), 3, (Descriptor(torch.zeros(8)),), (7,))
    encoded.clear()
    for address in (16, 32, 16, 32, 48, 16):
        launch(address)
    assert encoded == [16, 32, 48, 16]


def test_no_tensor_is_kept_alive(encoded):
    q, lse = torch.zeros(8), torch.zeros(2)
    kept = ref(q), ref(lse)
    launch = relaunch.Relaunch(compiled([]), 3, (Descriptor(q), lse), (7,))
    del q, lse
    assert [each() for each in kept] == [None, None]
    with pytest.raises(ValueError, match="zip"):
        launch(16)
