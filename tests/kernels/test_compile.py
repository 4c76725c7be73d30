"""Every kernel compiles for Hopper, on a machine without a GPU too; with default blocks hardly any spills."""

import json
import re
import sys
from pathlib import Path

import pytest

from engine.algorithms import ALGORITHMS
from engine.model.occupancy import PUT_ASIDE

SCRIPT = Path(__file__).with_name("recorded_launches.py")
CASES = [
    "flash1:bfloat16:64:0:0:window:forward",
    "flash2:float16:128:0:0:none:forward",
    "flash2:float16:256:64:64:causal:forward",
    "flash2:float16:256:64:64:none:forward",
    "flash2:float32:64:0:0:none:forward",
    "flash2:float16:128:0:0:terms:forward",
    "flash2:float16:128:0:0:terms:backward",
    "flash2:bfloat16:64:32:128:window:backward",
    "flash3:float16:64:0:0:causal:forward",
    "flash3:float16:64:0:0:wide:forward",
    "flash3:float16:256:0:0:none:forward",
    "flash3:bfloat16:80:0:0:terms:forward",
    "flash3:float16:256:0:0:none:cut",
    "flash3:float16:128:0:0:none:backward",
    "flash3:float16:128:0:0:causal:backward",
    "flash3:bfloat16:64:0:0:window:backward",
    "flash3:float16:256:0:0:causal:backward",
    "flash3:float16:128:0:0:documents:backward",
    "flash4:bfloat16:128:0:0:causal:forward",
    "fp8:float16:64:0:0:causal:forward",
    "split_kv:float16:128:0:0:causal:forward",
    "paged:float16:64:0:0:causal:forward",
    "paged:float16:128:0:0:causal:forward",
    "latent:bfloat16:576:0:0:none:forward",
    "parts:float16:128:0:0:none:forward",
    "selected:float16:128:0:0:causal:forward",
    "standard:float16:128:0:0:none:trace",
    "flash1:float16:128:0:0:causal:trace",
    "flash2:float16:128:0:0:causal:trace",
    "flash3:bfloat16:128:0:0:window:trace",  # stands for the kernel untraced too: it needs more registers
    "flash3:float16:128:0:0:documents:trace",
]
SAMPLE = ("sm_75", "sm_86", "sm_100", "sm_120", "gfx942", "gfx1100")
WITHOUT_PRODUCTS = (
    *("softmax_kernel", "row_terms_kernel", "places_kernel", "combine_kernel"),
    *("query_sums_kernel", "merge_kernel", "append_kernel"),
)


BESIDE = ["nice", sys.executable, SCRIPT, *CASES]  # the tests go first


@pytest.fixture(scope="module")
def printed(beside):
    """All that was printed; a minute of CPU, as a kernel of flash3 takes Triton six seconds."""
    launches, *lines = beside(__name__).splitlines()
    others = [line for line in lines if not line.startswith("{")]
    return json.loads(launches), others, [json.loads(line) for line in lines[len(others) :]]


@pytest.fixture(scope="module")
def compiled(printed):
    """What came of every case."""
    return printed[2]


def test_every_kernel_compiles(compiled):
    forward = {"scores_kernel", "softmax_kernel", "output_kernel", "flash1_kernel", "flash2_kernel"}
    forward |= {"attention_kernel", "split_kernel", "combine_kernel", "merge_kernel"}
    forward |= {"flash4_kernel", "paged_kernel", "append_kernel", "paged_attention_kernel"}
    forward |= {"latent_kernel", "quantise_kernel", "attention_fp8_kernel", "selected_kernel"}
    backward = {"row_terms_kernel", "key_gradient_kernel", "query_gradient_kernel"}
    backward |= {"gradient_kernel", "places_kernel", "query_sums_kernel"}
    assert {kernel["kernel"] for kernel in compiled} == forward | backward


def test_default_blocks_hardly_spill(compiled):
    """flash2's dK and dV where causal, and flash3's backward pass, are faster for filling all registers."""
    defaults = [kernel for kernel in compiled if ":0:0:" in kernel["case"]]
    spilled = {kernel["kernel"]: kernel["spilled"] for kernel in defaults if kernel["spilled"]}
    assert spilled.pop("attention_kernel", 0) <= 20  # at a head_dim of 256, outside the loop over keys
    assert spilled.pop("row_terms_kernel", 0) <= 16  # at a head_dim of 256, where it waits for memory
    spilled.pop("paged_attention_kernel", None)  # see below
    spilled.pop("flash4_kernel")  # see below too
    assert set(spilled) <= {"key_gradient_kernel", "gradient_kernel"}
    assert all(size <= 256 for size in spilled.values())  # bytes a thread


def test_loops_wait_for_products_where_they_say(compiled):
    """Where dQ is added in bulk, a wait that ptxas adds in the loop over causal visits cost 1 to 2%."""
    assert {kernel["case"]: kernel["waits"] for kernel in compiled if kernel["waits"]} == {}


def test_flash3_turns_no_pairs_round_and_holds_no_columns_in_its_loop_at_head_dimension_64(compiled):
    """Both cost one consumer of three a twelfth more instructions per key block; the others wait for it."""
    narrow = [kernel for kernel in compiled if kernel["case"].startswith("flash3:float16:64:")]
    assert len(narrow) == 4  # causal and in a window, for many keys and for few
    assert [(kernel["turned"], kernel["spilled"]) for kernel in narrow] == [(0, 0)] * 4


def test_a_softmax_without_a_mask_begins_under_products_of_values(compiled):
    """ptxas may move the wait for P V before all exponentials: that cost 11% where the last tiles are cut."""
    wide = [kernel for kernel in compiled if kernel["case"].startswith("flash3:float16:256:0:0:none:")]
    late = {kernel["case"].split(":")[-1]: kernel["late"] for kernel in wide if kernel["late"]}
    assert set(late) == {"forward", "cut"}
    assert all(len(loops) == 2 and min(loops) > 10 for loops in late.values())  # of 34


def test_keys_in_pages_turn_no_pairs_round_either(compiled):
    """Spilled is what the warp that copies has no room for: in a consumer's loop it would be 200 bytes."""
    pages = [kernel for kernel in compiled if kernel["kernel"] == "paged_attention_kernel"]
    assert {kernel["case"].split(":")[2]: kernel["turned"] for kernel in pages} == {"64": 0, "128": 0}
    assert all(kernel["spilled"] <= 20 for kernel in pages)


def test_small_blocks_of_wide_heads_put_aside_what_the_model_counts(compiled):
    """Bytes of a thread of a causal call (96 before Triton 3.7); without a mask none."""
    spilled = [each["spilled"] for each in compiled if each["case"].startswith("flash2:float16:256:64:64")]
    assert spilled == [pytest.approx(4 * PUT_ASIDE, abs=8), 0]


def test_parts_of_ranks_are_combined_without_spills(compiled):
    combining = [kernel for kernel in compiled if kernel["case"].startswith("parts:")]
    assert len(combining) == 2
    assert all(kernel["spilled"] == 0 and kernel["registers"] <= 168 for kernel in combining)


def test_two_blocks_of_pages_are_under_way(compiled):
    """Bytes of K and V of two key blocks: the page of a block is looked up before it is needed."""
    paged = [kernel for kernel in compiled if kernel["case"].startswith("paged:float16:128:")]
    paged = [kernel for kernel in paged if kernel["kernel"] == "paged_kernel"]
    assert len(paged) == 2
    assert all(kernel["shared"] >= 2 * 2 * 128 * 128 * 2 for kernel in paged)  # of 64 keys three
    chosen = [kernel for kernel in compiled if kernel["kernel"] == "selected_kernel"]
    assert len(chosen) == 2
    assert all(kernel["shared"] >= 2 * 2 * 64 * 128 * 2 for kernel in chosen)


def test_records_say_how_long_the_compiled_kernels_are(compiled):
    """Within the spread over blocks, head dims and masks: what a profiler with empty caches counts too."""
    cases = {
        "standard": "standard:float16:128:0:0:none:trace",
        "flash1": "flash1:bfloat16:64:0:0:window:forward",
        "flash2": "flash2:float16:128:0:0:none:forward",
        "flash3": "flash3:float16:256:0:0:none:forward",
    }
    for name, case in cases.items():
        kernels = {kernel["kernel"]: kernel["code"] for kernel in compiled if kernel["case"] == case}
        assert ALGORITHMS[name].code == pytest.approx(sum(kernels.values()), rel=0.3)


def test_only_a_traced_kernel_reads_the_clock(compiled):
    traced = {kernel["case"] for kernel in compiled if kernel["traced"]}
    assert traced == {case for case in CASES if case.endswith(":trace")}


def test_sixteen_bit_products_run_on_tensor_cores(compiled):
    multiplying = [kernel for kernel in compiled if kernel["kernel"] not in WITHOUT_PRODUCTS]
    elsewhere = {kernel["case"] for kernel in multiplying if not kernel["tensor_cores"]}
    assert elsewhere == {"flash2:float32:64:0:0:none:forward"}
    assert not any(kernel["serialised"] for kernel in compiled)


def test_blackwells_kernel_fits_an_sm_of_a_b200(compiled):
    """227 KiB of shared memory, and registers of 16 warps: 64 Ki of an SM. It was never run on one."""
    found = [kernel for kernel in compiled if kernel["kernel"] == "flash4_kernel"]
    assert [kernel["case"].split(":")[2] for kernel in found] == ["128"]
    for kernel in found:
        assert kernel["shared"] <= 227 * 1024
        assert (kernel["tensor_cores"], kernel["warps"]) == (True, 16)
        assert kernel["spilled"] <= 160  # bytes a thread


def test_a_sample_of_the_matrix_compiles_fits_and_multiplies_on_tensor_cores(printed):
    """`python -m tests.compile_matrix` has all of it."""
    *lines, found = printed[1]
    assert {line.split()[0] for line in lines} == {*SAMPLE}
    assert re.match(r"\d+ kernels, 0 faults, 0 that spill", found), "\n".join(lines)


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
