"""Controls of the sidebar that change nothing on the page: the page names them, and says why."""

from app import scenario

CONTROLS = ("algorithm", "seq", "head_dim", "block_q", "block_kv", "heads", "kv_heads", "causal", "window",
            "dtype", "hardware", "batch", "seq_kv", "documents")  # fmt: skip


def unused(why: str, *names: str) -> None:
    """Note controls without effect on this page, by their parameters' names, with a sentence on why."""
    _noted().update(dict.fromkeys(names, why))


def look(name: str, otherwise: str | None = None) -> dict:
    """How a control looks: greyed with the reason where it has no effect, else with its usual help."""
    why = _noted().get(name.removesuffix(" typed"))
    return {"disabled": why is not None, "help": why or otherwise}


def _noted() -> dict[str, str]:
    return scenario.kept_in_run("unused controls", {})
