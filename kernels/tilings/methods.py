"""Methods over several GPUs: how gathered keys are cut, and what a call takes beside its work."""

GROUPS = 4  # of heads at most, in which gathered keys come: the first is waited for
GROUP_BYTES = 48 * 2**20  # that a group brings at least: smaller ones take longer to start than to move
CALLING = 150e-6  # host's seconds for a call of the kernel


def groups_of(heads: int, moved: float) -> int:
    """Groups of heads, which they divide, each worth a transfer of its own, where all bring so many bytes."""
    most = max(1, min(GROUPS, int(moved) // GROUP_BYTES))
    return max(each for each in range(1, most + 1) if heads % each == 0)
