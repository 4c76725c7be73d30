"""Which method `auto` takes, by what was measured on 2 and 4 H200s, and in how many groups keys travel."""

from kernels.call.call import Call
from kernels.distributed.layout import Layout
from kernels.tilings.methods import CALLING, groups_of

FLOPS = {4: 35e12, 2: 670e12}  # a second of the kernel, by the bytes of an element


def unserved(method: str, layout: Layout, call: Call) -> str | None:
    """One sentence on why a method does not serve a call, or None where it does."""
    if method == "all_to_all" and (call.heads % layout.ranks or call.kv_heads % layout.ranks):
        return (
            f"all_to_all gives each rank whole heads, and {layout.ranks} ranks do not divide"
            f" {call.heads} heads and {call.kv_heads} key heads"
        )
    return None


def fastest(layout: Layout, call: Call, element: int, copying: bool) -> tuple[str, str]:
    """The method that auto takes, and why; element: its bytes, copying: whether copy engines move them."""
    ring = "ring" if copying else "ring_send"
    if call.window is not None:
        return ring, "it fetches the keys alone that a window shows"
    if not copying and unserved("all_to_all", layout, call) is None:
        return "all_to_all", "tokens are sent for heads and back, and no more"
    step = 4 * call.batch * call.heads * call.head_dim * (layout.tokens / layout.ranks) ** 2 / FLOPS[element]
    if step < CALLING:
        return "all_gather", "a ring's step would take longer to start than to compute"
    return ring, "keys travel while others are computed with"


def group_count(method: str, layout: Layout, call: Call, element: int) -> int:
    """Groups of heads whose keys are gathered, each worth a transfer of its own."""
    if call.window is None and method != "all_gather":
        return 1
    rows = (layout.ranks - 1) * layout.most_rows
    if call.window is not None:
        rows = min(rows, (call.window - 1) * len(layout.spans[0]))
    return groups_of(call.kv_heads, 2 * call.kv_heads * rows * call.batch * call.head_dim * element)
