"""The rooms import in one direction: app, then engine, then kernels."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
STANDARD = sys.stdlib_module_names
# what each room may import at the top of a file
ALLOWED = {
    "kernels": {"kernels", "torch", "triton"},
    "engine": {"engine", "numpy"},
    "app": {"app", "engine", "numpy", "plotly", "streamlit"},
}
MEASURING = "engine/measuring/"  # run where the kernels run
FILES = sorted(path for room in ALLOWED for path in (ROOT / room).rglob("*.py"))


def imports(path: Path) -> list[tuple[str, bool]]:
    """Every imported module of a file with whether the import stands inside a function."""
    found = []

    def visit(node: ast.AST, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.extend((alias.name, inside) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                found.append(("." * child.level + (child.module or ""), inside))
            visit(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    visit(ast.parse(path.read_text()), False)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_imports_only_what_it_may(path):
    name = path.relative_to(ROOT).as_posix()
    room = name.split("/")[0]
    for module, inside in imports(path):
        top = module.split(".")[0]
        if name.startswith(MEASURING) and inside and top in ("kernels", "torch", "triton"):
            continue
        assert top in ALLOWED[room] or top in STANDARD, f"{name} imports {module}"


@pytest.mark.parametrize(
    "path", [path for path in FILES if "app/figures" in path.as_posix()], ids=lambda path: path.name
)
def test_figures_know_nothing_of_streamlit(path):
    assert "streamlit" not in {module.split(".")[0] for module, _ in imports(path)}


def test_only_the_scenario_touches_the_session_and_the_link():
    for path in (ROOT / "app").rglob("*.py"):
        names = {
            node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)
        }
        if path.parent != ROOT / "app" / "scenario":
            assert not names & {"session_state", "query_params"}, path.name


@pytest.mark.parametrize("path", [path for path in FILES if "app/" in path.as_posix()], ids=str)
def test_only_the_scenario_asks_streamlit_what_it_does_not_tell(path):
    """Streamlit's runtime is private: what is taken from it stands behind one function, with its reason."""
    if path != ROOT / "app" / "scenario" / "link.py":
        assert not {module for module, _ in imports(path) if module.startswith("streamlit.")}


def test_no_page_imports_another():
    pages = {path.stem for path in (ROOT / "app" / "page").glob("*.py")}
    for path in (ROOT / "app" / "page").rglob("*.py"):
        assert not {module for module, _ in imports(path)} & {f"app.page.{page}" for page in pages}, path


def test_the_rule_sees_imports_inside_functions(tmp_path):
    file = tmp_path / "file.py"
    file.write_text("import numpy\ndef f():\n    from torch import nn\n")
    assert imports(file) == [("numpy", False), ("torch", True)]


def test_no_two_test_files_share_a_name():
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names))  # pytest takes both for one module where both are named in a call
