"""Streamlit's own names of what it draws: two files know them, and this version has each."""

import re
from pathlib import Path

import streamlit as st

APP = Path(__file__).resolve().parents[2] / "app"
HOLDERS = (APP / "frame" / "streamlit.css", APP / "canvas" / "streamlit.js")
STATIC = Path(st.__file__).parent / "static" / "static" / "js"
NAME = re.compile(
    r"data-testid=\"?([\w-]+)|(?<=[.\s(])\.(st[A-Z]\w+)|:is\(\.(st[A-Z]\w+)|\"(data-test-[\w-]+)"
)


def names() -> set[str]:
    """Every name that a file of ours takes from Streamlit's page."""
    found = (NAME.findall(path.read_text("utf-8")) for path in HOLDERS)
    return {name for groups in found for each in groups for name in each if name}


def gone(wanted: set[str], shipped: str) -> list[str]:
    """Those that Streamlit's scripts have no longer; one that ends in a kind is put together there."""
    there = set(re.findall(r"(?:st[A-Z]|data-test)[\w-]+(?:\$\{)?", shipped))
    begun = tuple(name[:-2] for name in there if name.endswith("${"))
    return sorted(name for name in wanted - there if not name.startswith(begun))


def test_every_name_is_one_that_streamlit_gives():
    shipped = "".join(path.read_text("utf-8") for path in STATIC.glob("*.js"))
    assert len(names()) > 25
    assert gone(names(), shipped) == []
    assert gone({"stMain", "stNoSuchPart"}, shipped) == ["stNoSuchPart"]


def test_no_other_file_knows_a_name():
    for path in (each for kind in ("css", "js", "html", "py") for each in APP.rglob(f"*.{kind}")):
        if path not in HOLDERS:
            assert "data-testid" not in path.read_text("utf-8"), path.name


def test_styles_stand_in_css_files():
    for name in ("frame", "presenter", "page", "tour", "sidebar"):
        for path in (APP / name).rglob("*.py"):
            assert not re.search(r"<style[^>]*>\s*\n", path.read_text("utf-8")), path.name
