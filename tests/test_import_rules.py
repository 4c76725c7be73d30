"""The rooms import in one direction: app, then engine, then kernels."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import kernels

ROOT = Path(__file__).resolve().parents[1]
STANDARD = sys.stdlib_module_names
MEASURING = "engine/measuring/"  # run where the kernels run
# what the files of a room, or one of them, may import beside the standard library
ALLOWED = {
    "kernels/": ("kernels", "torch", "triton"),
    "engine/": ("engine", "numpy"),
    "app/": ("app", "engine", "numpy", "plotly", "streamlit"),
    "app/dashboard.py": ("pandas",),  # whole, before two visitors ask for it
    # what stands between a socket and the pages, and what turns words into pages
    "app/room/": ("segno", "starlette", "uvicorn"),
    "app/serving/": ("starlette", "uvicorn"),
    "app/frame/document.py": ("starlette",),
    "app/notebook/": ("IPython", "anywidget", "traitlets"),
    "app/tour/slides.py": ("PIL", "playwright", "av", "pptx"),
    "app/markup.py": ("latex2mathml", "markdown_it", "mdit_py_plugins"),
}
LATE = {  # in functions alone
    "engine/capture.py": ("torch",),
    MEASURING: ("cupti", "kernels", "torch", "triton"),
    "engine/watch/": ("torch", "triton"),
}
# from the ground up: each room, a folder or a file, imports only those before it, and none a face of its own
ORDER = {
    "kernels": (
        *("tilings", "interpreter", "between", "tile", "call", "launch", "backward", "hopper", "algorithms"),
        "blackwell",
        *("dispatch", "pages", "distributed"),
    ),
    "engine": (
        *("root", "process_tree", "small", "decoded", "problem", "schedule", "algorithms", "parameter"),
        *("experiment", "parser", "model", "trace", "recordings", "layers", "studies", "watch", "worker"),
        *("measuring", "capture"),
    ),
    "app": (
        *("serving", "command_line", "contents", "figures", "markup", "scenario", "elements", "canvas"),
        *("player", "across", "gpu", "hbm", "inside", "rescale", "shapes", "sketch", "start"),
        *("watched", "zoom", "glossary", "take_home"),
        *("gallery", "room", "sidebar", "tour", "presenter", "page", "frame", "notebook"),
        *("__main__", "main", "dashboard"),
    ),
}
FILES = sorted(path for room in ORDER for path in (ROOT / room).rglob("*.py"))
NAMED = {path.relative_to(ROOT).as_posix(): path for path in FILES}


class Import(NamedTuple):
    """`from module import name`, or `import module` without a name; maybe inside a function."""

    module: str
    name: str
    inside: bool

    @property
    def whole(self) -> str:
        return f"{self.module}.{self.name}" if self.name else self.module


@cache
def parsed(path: Path) -> ast.Module:
    """A file's syntax, of which no test changes anything."""
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> tuple[Import, ...]:
    """All that a file imports, anywhere in it."""
    found = []

    def visit(node: ast.AST, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.extend(Import(alias.name, "", inside) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                module = "." * child.level + (child.module or "")
                found.extend(Import(module, alias.name, inside) for alias in child.names)
            visit(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    visit(parsed(path), False)
    return tuple(found)


def attributes(path: Path) -> set[str]:
    """Every attribute that a file asks for, with what it is of: `torch.cuda.Event`."""
    return {ast.unparse(node) for node in ast.walk(parsed(path)) if isinstance(node, ast.Attribute)}


def room_of(parts: tuple[str, ...]) -> str:
    """The room of a file below its top: its folder, or itself; what opens a process stands on top of all."""
    return "__main__" if parts[-1] == "__main__" else parts[0]


def below(top: str) -> dict[Path, tuple[str, ...]]:
    """Where its files stand, but for faces, which import all of it."""
    places = {path: path.relative_to(ROOT / top).with_suffix("").parts for path in (ROOT / top).rglob("*.py")}
    return {
        path: parts
        for path, parts in places.items()
        if parts != ("__init__",) and (len(parts) > 1 or top == "app")
    }


@pytest.mark.parametrize("top", ORDER)
def test_every_room_has_its_place_in_the_order(top):
    found = {room_of(parts) for parts in below(top).values()}
    assert found <= set(ORDER[top]) <= found | {path.stem for path in (ROOT / top).glob("*.py")}


@pytest.mark.parametrize("top", ORDER)
def test_no_room_imports_one_after_it_nor_a_face(top):
    order, handed_on = ORDER[top], {"engine": "model"}  # by the engine's face, what stands in its model
    for path, parts in below(top).items():
        for one in imports(path):
            if one.whole.startswith(f"{top}."):
                name = one.whole.split(".")[1]
                room = name if name in order else handed_on.get(top)
                assert room in order[: order.index(room_of(parts)) + 1], f"{path} imports {top}.{name}"


def test_a_room_imports_only_what_it_may():
    for name, path in NAMED.items():
        for module, _, inside in imports(path):
            top = module.split(".")[0]
            rules = [*ALLOWED.items(), *(LATE.items() if inside else ())]
            may = STANDARD.union(*(modules for room, modules in rules if name.startswith(room)))
            leaf = name.startswith("engine/") and module.startswith("kernels.tilings")
            assert leaf or top in may, f"{name} imports {module}"


def test_the_leaf_that_kernels_and_engine_share_imports_nothing_else():
    for path in (ROOT / "kernels" / "tilings").glob("*.py"):
        assert all(each.module.startswith(("kernels.tilings", "typing")) for each in imports(path)), path


FACES = ("kernels", "kernels.distributed")  # of one GPU, and of several


def public_names(face: str) -> set[str]:
    """What a face of the kernels offers; importing it imports no torch."""
    for node in parsed(ROOT / face.replace(".", "/") / "__init__.py").body:
        if isinstance(node, ast.Assign) and node.targets[0].id in ("__all__", "_MODULES"):
            return set(ast.literal_eval(node.value))
    raise AssertionError(f"{face} has no __all__")


def test_the_face_of_the_kernels_is_imported_without_torch():
    """Each name is imported when it is asked for, from where type checkers find it too."""
    code = "import sys, kernels; print(*{'torch', 'triton', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "\n"
    found = [one for one in imports(ROOT / "kernels" / "__init__.py") if one.module.startswith("kernels.")]
    for one in found:
        assert kernels._MODULES[one.name] == one.module.removeprefix("kernels.")
    assert {one.name for one in found} == public_names("kernels")


def names_of_kernels(path: Path) -> set[tuple[str, str]]:
    """(module, name) of everything that a file takes of kernels, by import or as an attribute."""
    taken = {one[:2] for one in imports(path) if one.module.split(".")[0] == "kernels"}
    whole = {tuple(each.split(".")) for each in attributes(path) if each.startswith("kernels.")}
    here = any("kernels" in one[:2] for one in imports(path))
    asked = {each for each in whole if here and len(each) == 2 and each[1].isidentifier()}
    return taken - {("kernels", "")} | asked


def test_measuring_uses_kernels_through_their_public_face():
    for path in sorted((ROOT / MEASURING).glob("*.py")):
        for module, name in names_of_kernels(path):
            if module.startswith("kernels.tilings"):
                continue
            assert module in FACES, f"{path.name} imports {module}"
            assert name in public_names(module), f"{path.name} takes {name}, which {module} does not offer"


def private_names(path: Path) -> set[str]:
    """What a file takes of torch or Triton that begins with an underscore."""
    names = attributes(path) | {one.whole for one in imports(path)}
    return {name for name in names if name.split(".")[0] in ("torch", "triton") and "._" in name}


def test_the_engine_takes_nothing_private_of_torch_or_triton():
    for path in sorted((ROOT / "engine").rglob("*.py")):
        assert not private_names(path) - {"torch.version.__version__"}, path.name


def test_the_rules_see_what_they_forbid(tmp_path):
    """Imports inside functions, what lies behind a public face, and what begins with an underscore."""
    file = tmp_path / "file.py"
    file.write_text(
        "import kernels.backward.backward\nimport torch._inductor\n"
        "from engine.measuring.machine import kernels\n"
        "def f():\n    from kernels.launch import stages\n    torch.cuda._sleep(kernels.tile)\n"
    )
    assert imports(file)[-1] == ("kernels.launch", "stages", True)
    behind = {("kernels.backward.backward", ""), ("kernels.launch", "stages"), ("kernels", "tile")}
    assert names_of_kernels(file) == behind
    assert private_names(file) == {"torch._inductor", "torch.cuda._sleep"}


@pytest.mark.parametrize("room", ["engine", "kernels"])
def test_no_modules_of_a_room_import_each_other_in_a_circle(room):
    names = {".".join(path.with_suffix("").relative_to(ROOT).parts): path for path in NAMED.values()}
    names = {name.removesuffix(".__init__"): path for name, path in names.items() if name.startswith(room)}
    graph = {
        name: {one.whole if one.whole in names else one.module for one in imports(path)} & names.keys()
        for name, path in names.items()
    }
    TopologicalSorter({name: found - {room} for name, found in graph.items()}).prepare()


def test_figures_know_nothing_of_streamlit():
    for name, path in NAMED.items():
        if name.startswith("app/figures/"):
            assert "streamlit" not in {one.module.split(".")[0] for one in imports(path)}, name


def test_only_the_scenario_touches_the_session_and_the_link():
    for path in (ROOT / "app").rglob("*.py"):
        names = {name.rsplit(".", 1)[-1] for name in attributes(path)}
        if path.parent != ROOT / "app" / "scenario":
            assert not names & {"session_state", "query_params"}, path.name


def test_nothing_reaches_inside_streamlit():
    for name, path in NAMED.items():
        assert not [one for one in imports(path) if one.module.startswith("streamlit.")], name
        private = {each for each in attributes(path) if each.startswith("st._")}
        assert private <= {"st.__file__"}, name


def test_no_page_computes():
    """What a page shows of two numbers is computed in engine/studies, or scaled in figures."""
    for path in (ROOT / "app" / "page").rglob("*.py"):
        nodes = list(ast.walk(parsed(path)))
        assert not [node for node in nodes if isinstance(node, ast.Div | ast.Pow | ast.MatMult)], path
        called = {node.func.id for node in nodes if isinstance(node, ast.Call) and hasattr(node.func, "id")}
        assert not called & {"sum", "median", "divmod"}, path


def test_no_page_imports_another():
    pages = {f"app.page.{path.stem}" for path in (ROOT / "app" / "page").glob("*.py")}
    for path in (ROOT / "app" / "page").rglob("*.py"):
        assert not {name for one in imports(path) for name in (one.module, one.whole)} & pages, path


def test_no_two_test_files_share_a_name():
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names))  # pytest takes both for one module where both are named in a call
