"""Every kernel compiles for Hopper, on a machine without a GPU too; with default blocks hardly any spills."""

import json
import sys
from types import SimpleNamespace

import pytest

from engine.algorithms import ALGORITHMS
from engine.model.occupancy import PUT_ASIDE

CASES = {
    "sm_90": (
        "flash1:bfloat16:64:0:0:window:trace",
        "flash2:float16:128:0:0:none:forward",
        "flash2:float16:128:0:0:none:trace",
        "flash2:float16:256:64:64:causal:forward",
        "flash2:float16:256:64:64:none:forward",
        "flash2:float32:64:0:0:none:forward",
        "flash2:float16:128:0:0:terms:forward",
        "flash2:float16:64:0:0:terms:backward",
        "flash3:float16:64:0:0:causal:forward",
        "flash3:float16:64:0:0:wide:forward",
        "flash3:float16:128:0:0:causal:forward",
        "flash3:bfloat16:80:0:0:terms:forward",
        "flash3:float16:256:0:0:none:cut",
        "flash3:bfloat16:128:0:0:packed:trace",
        "flash3:float16:128:0:0:none:backward",
        "flash3:float16:128:0:0:causal:backward",
        "flash3:float16:256:0:0:causal:backward",
        "flash3:bfloat16:64:0:0:packed:backward",
        "fp8:float16:64:0:0:causal:forward",
        "split_kv:float16:128:0:0:causal:forward",
        "paged:float16:128:0:0:causal:forward",
        "latent:bfloat16:576/512:0:0:none:forward",
        "parts:float16:128:0:0:none:forward",
        "selected:float16:128:0:0:causal:forward",
        "standard:float16:128:0:0:none:trace",
    ),
    "sm_75": ("split_kv:float16:64:0:0:causal:forward",),
    "sm_86": ("flash2:float16:128:0:0:terms:forward",),
    "sm_100": ("flash4:bfloat16:128:0:0:causal:forward", "flash2:float16:256:0:0:causal:forward"),
    "sm_120": ("flash2:bfloat16:256:64:32:causal:forward",),
    "gfx942": ("split_kv:float16:128:0:0:causal:forward",),
    "gfx1100": ("split_kv:float16:128:0:0:causal:forward",),
}
UNDER_PRODUCTS = "flash3:float16:128:0:0:causal:forward", "flash3:float16:256:0:0:none:cut"
BESIDE = [sys.executable, "-m", "tests.kernels.recorded_launches"]
BESIDE += [f"{target}={','.join(cases)}" for target, cases in CASES.items()]


@pytest.fixture(scope="module")
def printed(beside):
    """Launches on an AMD GPU, and what came of every case; more than a minute of CPU."""
    launches, *lines = map(json.loads, beside(__name__).splitlines())
    return launches, [SimpleNamespace(**line) for line in lines]


@pytest.fixture(scope="module")
def compiled(printed):
    """What came of every case."""
    return printed[1]


@pytest.fixture(scope="module")
def hopper(compiled):
    """What came of Hopper's."""
    return [kernel for kernel in compiled if kernel.target == "sm_90"]


def test_every_kernel_compiles_fits_and_multiplies_on_tensor_cores(compiled, hopper):
    """But in float32, every digit of which counts; `python -m tests.compile_matrix` has all of it."""
    forward = {"scores_kernel", "softmax_kernel", "output_kernel", "flash1_kernel", "flash2_kernel"}
    forward |= {"attention_kernel", "split_kernel", "combine_kernel", "merge_kernel"}
    forward |= {"paged_kernel", "append_kernel", "paged_attention_kernel"}
    forward |= {"latent_kernel", "quantise_kernel", "attention_fp8_kernel", "selected_kernel"}
    backward = {"row_terms_kernel", "key_gradient_kernel", "query_gradient_kernel"}
    backward |= {"gradient_kernel", "places_kernel", "query_sums_kernel"}
    assert {kernel.kernel for kernel in hopper} == forward | backward
    assert {(kernel.target, kernel.case) for kernel in compiled} == {
        (target, case) for target, cases in CASES.items() for case in cases
    }
    assert {kernel.fault for kernel in compiled} == {""}
    assert not any(kernel.multiplies for kernel in hopper if "float32" in kernel.case)
    assert not any(kernel.serialised for kernel in compiled)


def test_default_blocks_hardly_spill(hopper):
    """flash3's backward pass is faster for filling all registers."""
    defaults = [kernel for kernel in hopper if ":0:0:" in kernel.case]
    spilled = {kernel.kernel: kernel.spilled for kernel in defaults if kernel.spilled}
    assert spilled.pop("attention_kernel", 0) <= 20  # outside the loop over keys
    assert spilled.pop("row_terms_kernel", 0) <= 16  # at a head_dim of 256, where it waits for memory
    assert spilled.pop("paged_attention_kernel", 0) <= 20  # of the warp that copies: a loop's would be 200
    assert set(spilled) <= {"key_gradient_kernel", "gradient_kernel"}
    assert all(size <= 256 for size in spilled.values())  # bytes a thread


def test_loops_wait_for_products_where_they_say(compiled):
    """Where dQ is added in bulk, a wait that ptxas adds in the loop over causal visits cost 1 to 2%."""
    assert {kernel.case: kernel.waits for kernel in compiled if kernel.waits} == {}


def test_flash3_turns_no_pairs_round_and_holds_no_columns_in_its_loop_at_head_dimension_64(hopper):
    """Both cost one consumer of three a twelfth more instructions per key block; the others wait for it."""
    narrow = [kernel for kernel in hopper if kernel.case.startswith("flash3:float16:64:")]
    assert [(kernel.turned, kernel.spilled) for kernel in narrow] == [(0, 0)] * 3  # for few keys too, causal
    pages = [kernel for kernel in hopper if kernel.kernel == "paged_attention_kernel"]
    assert [kernel.turned for kernel in pages] == [0]


def test_a_softmax_begins_under_products_of_values(hopper):
    """ptxas may move the wait for P V before all exponentials: that cost 11% where the last tiles are cut."""
    late = {kernel.case: kernel.late for kernel in hopper if kernel.case in UNDER_PRODUCTS and kernel.late}
    assert {*late} == {*UNDER_PRODUCTS}
    assert all(len(loops) == 2 and min(loops) > 10 for loops in late.values())  # of 34 and 66


def test_small_blocks_of_wide_heads_put_aside_what_the_model_counts(hopper):
    """Bytes of a thread of a causal call (96 before Triton 3.7); without a mask none."""
    spilled = [each.spilled for each in hopper if each.case.startswith("flash2:float16:256:64:64")]
    assert spilled == [pytest.approx(4 * PUT_ASIDE, abs=8), 0]


def test_parts_of_ranks_are_combined_without_spills(hopper):
    combining = [kernel for kernel in hopper if kernel.case.startswith("parts:")]
    assert len(combining) == 2
    assert all(kernel.spilled == 0 and kernel.registers <= 168 for kernel in combining)


def test_two_blocks_of_pages_are_under_way(hopper):
    """Bytes of K and V of two key blocks: the page of a block is looked up before it is needed."""
    blocks = {
        "paged_kernel": [64, 128],
        "selected_kernel": [64, 64],
    }  # one sequence's small pages, large ones
    for name, keys in blocks.items():
        shared = sorted(kernel.shared for kernel in hopper if kernel.kernel == name)
        assert len(shared) == 2
        assert all(held >= 2 * 2 * each * 128 * 2 for held, each in zip(shared, keys, strict=True))


def test_records_say_how_long_the_compiled_kernels_are(hopper):
    """Within the spread over blocks, head dims and masks: what a profiler with empty caches counts too."""
    cases = {
        "standard": "standard:float16:128:0:0:none:trace",
        "flash1": "flash1:bfloat16:64:0:0:window:trace",
        "flash2": "flash2:float16:128:0:0:none:trace",
        "flash3": "flash3:float16:128:0:0:causal:forward",
    }
    for name, case in cases.items():
        kernels = {kernel.kernel: kernel.code for kernel in hopper if kernel.case == case}
        assert ALGORITHMS[name].code == pytest.approx(sum(kernels.values()), rel=0.3)


def test_only_a_traced_kernel_reads_the_clock(compiled):
    assert {kernel.traced for kernel in compiled if kernel.case.endswith(":trace")} == {True}
    assert not any(kernel.traced for kernel in compiled if not kernel.case.endswith(":trace"))


def test_blackwells_kernel_has_registers_of_16_warps(compiled):
    """64 Ki of an SM. It was never run on one."""
    (kernel,) = (kernel for kernel in compiled if kernel.kernel == "flash4_kernel")
    assert kernel.warps == 16
    assert kernel.spilled <= 160  # bytes a thread


def test_equal_launches_on_an_amd_gpu_are_equal(printed):
    """Grid and arguments but addresses; a second launch was once given a grid of one."""
    launches = printed[0]["launches"]
    names = [name for name, *_ in launches]
    assert {"flash2_kernel", "paged_kernel", "key_gradient_kernel"} <= {*names}
    *twice, _ = launches
    half = len(twice) // 2
    for first, second in zip(twice[:half], twice[half:], strict=True):
        assert first[:2] == second[:2]
        assert first[1] >= 4  # programs
        for one, other in zip(first[2], second[2], strict=True):
            assert one == other or min(one, other) > 2**22  # an address, above any size here


def test_a_limit_that_turns_out_smaller_halves_the_blocks_by_tritons_own_word(printed):
    (said,) = printed[0]["said"]
    assert said.startswith("flash2 with 64 x 32 blocks at head_dim 256 needs ")
    assert said.endswith("this GPU has 35840: it runs in blocks of 32 x 32")
