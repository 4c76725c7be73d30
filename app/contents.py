"""The dashboard's name, and its pages in the order of the navigation.

A page is a file in `page/` and a line in this list. Its module has a function `show()`, which draws it, and a
`PICTURE` where phones and the static site show it too. It is imported when it is first opened, or by a server
before its first visitor: that is why its title stands here.
"""

from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Any

from app import command_line

NAME = "Attention, tile by tile"
# by the group in the navigation: a page's module, which is its path in the URL too, and its title
GROUPS = MappingProxyType(
    {
        "Learn": {
            "start": "Start",
            "tour": "Tour",
            "model": "Your model",
            "claims": "Claims",
        },
        "Watch": {
            "zoom": "Zoom",
            "tiles": "Tiles",
            "softmax": "Softmax",
            "masks": "Masks",
            "backward": "Backward",
            "decoding": "Decoding",
            "flash3": "Inside a block",
            "across": "Across GPUs",
            "beyond": "Beyond",
        },
        "Measure": {
            "traffic": "Traffic",
            "speed": "Speed",
            "gpu": "On the GPU",
            "rates": "Rates",
            "agreement": "Agreement",
        },
    }
)
PAGES = MappingProxyType({name: title for group in GROUPS.values() for name, title in group.items()})
HOME = "start"  # the page at the bare address
OWN = MappingProxyType({"kernel": "Your kernel"})  # among those to watch where the command line names a file


def groups() -> dict[str, dict[str, str]]:
    """The groups of the pages that there are."""
    own = {} if command_line.kernel() is None else OWN
    return {group: {**names, **(own if group == "Watch" else {})} for group, names in GROUPS.items()}


def pages() -> dict[str, str]:
    """The titles of the pages that there are, by name."""
    return {name: title for names in groups().values() for name, title in names.items()}


def page(name: str) -> ModuleType:
    """A page's module."""
    return import_module(f"app.page.{name}")


def picture(name: str) -> Any:
    """What a page shows on phones and in the static site too, a `Picture`; None where that is nothing."""
    return getattr(page(name), "PICTURE", None)
