"""A memory of what the host worked out, of bounded size."""

REMEMBERED = 4096  # entries of a memory of what the host worked out; one that is full begins anew


def remember(memory: dict, key, value) -> None:
    """Keep a value in a memory of bounded size."""
    if len(memory) >= REMEMBERED:
        memory.clear()
    memory[key] = value
