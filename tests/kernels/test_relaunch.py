"""A kernel is launched again with what Triton's launcher made of its arguments, and other addresses."""

from contextlib import contextmanager
from types import SimpleNamespace
from weakref import ref

import pytest
import torch
from triton.backends.nvidia import driver as nvidia

from kernels.launch import relaunch as again
from kernels.launch.relaunch import Relaunch

STREAM = 5


class Descriptor:
    def __init__(self, base):
        self.base = base
        self.shape = list(base.shape)


class Launcher:
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
    monkeypatch.setattr(again, "current_stream", {None: STREAM, 1: STREAM + 1}.get)
    monkeypatch.setattr(again, "current_device", lambda: None)  # where tensors on the CPU are
    return addresses


def compiled(handed, nested=True):
    return SimpleNamespace(
        run=Launcher(handed, nested),
        function="function",
        packed_metadata=(4, 1, 0),
        metadata=SimpleNamespace(tensordesc_meta=["swizzled"]),
        launch_metadata=lambda grid, stream: ("metadata", grid, stream),
    )


@pytest.mark.parametrize("nested", [False, True])
def test_what_is_launched_again_has_its_own_addresses_and_all_other_arguments(encoded, nested):
    handed = []
    q, lse = torch.zeros(8), torch.zeros(2)
    launch = Relaunch(compiled(handed, nested), 3, (Descriptor(q), lse, None), (7, (1, 2), True))
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
        monkeypatch.setattr(again, "current_device", lambda: index)
        yield

    monkeypatch.setattr(again, "current_device", lambda: current)
    monkeypatch.setattr(again.torch.cuda, "device", device)
    elsewhere = SimpleNamespace(device=torch.device("cuda", 1))
    Relaunch(compiled(handed), 3, (elsewhere,), (7,))(1024)
    assert [launched[3] for launched in handed] == [STREAM + 1]
    assert handed[0][-1] == [1024, 7]
    assert entered == ([] if current == 1 else [1])


def test_an_address_is_encoded_once_and_many_are_not_kept(encoded, monkeypatch):
    monkeypatch.setattr(again, "MOST_ADDRESSES", 2)
    launch = Relaunch(compiled([]), 3, (Descriptor(torch.zeros(8)),), (7,))
    encoded.clear()
    for address in (16, 32, 16, 32, 48, 16):
        launch(address)
    assert encoded == [16, 32, 48, 16]


def test_no_tensor_is_kept_alive(encoded):
    q, lse = torch.zeros(8), torch.zeros(2)
    kept = ref(q), ref(lse)
    launch = Relaunch(compiled([]), 3, (Descriptor(q), lse), (7,))
    del q, lse
    assert [each() for each in kept] == [None, None]
    with pytest.raises(ValueError, match="zip"):
        launch(16)


@pytest.mark.parametrize("nested", [False, True])
def test_a_profiler_that_hooks_launches_sees_it(encoded, monkeypatch, nested):
    handed = []
    launch = Relaunch(compiled(handed, nested), 3, (torch.zeros(8),), (7,))
    hook, other = (SimpleNamespace(calls=calls) for calls in ([print], []))
    hooks = SimpleNamespace(launch_enter_hook=hook, launch_exit_hook=other)
    monkeypatch.setattr(again, "knobs", SimpleNamespace(runtime=hooks))
    launch(16)
    assert handed[0][6:10] == ((4, 1, 0), ("metadata", (3, 1, 1), STREAM), hook, other)
