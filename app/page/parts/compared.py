"""What came of three computations: whether they agree, and by how much they differ at most."""

from collections.abc import Mapping

import streamlit as st

from app.elements import TALL, numbers
from app.figures.units import moment
from engine.measuring.agreement import PAIRS, Agreement

NAMES = {"kernel": "Triton kernel", "trace": "scheduler", "float64": "float64"}


def verdict(found: Agreement, where: str = "Measured here") -> None:
    """Whether the three agree, and on which machine and when they were compared."""
    words = "All three agree." if found.agrees else "They differ by more than allowed."
    kernels = "kernels interpreted" if found.interpreted else "kernels compiled"
    told = f"{words} {where}: {found.device}, {kernels}, {moment(found.date)}."
    (st.success if found.agrees else st.error)(told)


def differences(
    found: Agreement, names: Mapping[str, str], title: str, origin: Mapping[str, str] | None = None
) -> None:
    """Every quantity, by its name, with its largest differences, its tolerance, where that is from."""
    rows = [
        {
            "largest difference": names[quantity],
            **{
                f"{NAMES[a]} − {NAMES[b]}": f"{off:.1e}" if (off := found.largest(quantity, (a, b))) else "0"
                for a, b in PAIRS
            },
            "allowed": f"{found.tolerance[quantity]:.1e}",
            "verdict": "agrees" if found.holds(quantity) else "differs",
            **({"where the tolerance is from": origin[quantity]} if origin else {}),
        }
        for quantity in found.quantities
    ]
    numbers(rows, title, height=TALL, words=(0, len(PAIRS) + 3))
