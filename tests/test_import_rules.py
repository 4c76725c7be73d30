"""The rooms import in one direction: app, then engine, then kernels."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import kernels

ROOT = Path(__file__).resolve().parents[1]
STANDARD = sys.stdlib_module_names
# what each room may import at the top of a file
ALLOWED = {
    "kernels": {"kernels", "torch", "triton"},
    "engine": {"engine", "numpy"},
    "app": {"app", "engine", "numpy", "plotly", "streamlit"},
}
# what one file alone may: pandas whole, before two visitors ask for it
ALONE = {("app/dashboard.py", "pandas")}
MEASURING = "engine/measuring/"  # run where the kernels run
SERVING = {  # what stands between a socket and the pages, and what turns words into pages
    "app/room/": ("segno", "starlette", "uvicorn"),
    "app/markup.py": ("latex2mathml", "markdown_it", "mdit_py_plugins"),
    **dict.fromkeys(("app/serving/", "app/frame/document.py", "app/take_home/made.py"), ("starlette",)),
}
LATE = {
    MEASURING: ("cupti", "kernels", "torch", "triton"),
    "engine/watch/": ("torch", "triton"),
}  # in functions
# from the ground up: each room, a folder or a file, imports only those before it, and none a face of its own
ORDER = {
    "kernels": (
        *("tilings", "interpreter", "tile", "call", "launch", "backward", "hopper", "algorithms"),
        *("dispatch", "pages", "distributed", "measuring"),
    ),
    "engine": (
        *("root", "process_tree", "problem", "schedule", "algorithms", "parameter", "experiment", "parser"),
        *("model", "trace", "recordings", "studies", "watch", "worker", "measuring"),
    ),
    "app": (
        *("serving", "command_line", "contents", "figures", "markup", "scenario", "elements", "canvas"),
        *("player", "across", "gpu", "inside", "memory", "start", "watched", "glossary", "take_home"),
        *("gallery", "room", "sidebar", "tour", "presenter", "page", "frame"),
        *("__main__", "main", "dashboard"),
    ),
}
FILES = sorted(path for room in ALLOWED for path in (ROOT / room).rglob("*.py"))
NAMED = {path.relative_to(ROOT).as_posix(): path for path in FILES}


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
        for name in imported_names(path, top):
            room = name if name in order else handed_on.get(top)
            assert room in order[: order.index(room_of(parts)) + 1], f"{path} imports {top}.{name}"


@cache
def imported_names(path: Path, top: str) -> set[str]:
    """What stands after the top's name in all that a file imports of it, anywhere."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in found if name.startswith(f"{top}.")}


@cache
def parsed(path: Path) -> ast.Module:
    """A file's syntax, of which no test changes anything."""
    return ast.parse(path.read_text())


@cache
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

    visit(parsed(path), False)
    return found


def test_a_room_imports_only_what_it_may():
    for name, (module, inside) in ((name, each) for name, path in NAMED.items() for each in imports(path)):
        top = module.split(".")[0]
        if (name, top) in ALONE:
            continue
        if name.startswith("engine/") and module.split(".")[:2] == ["kernels", "tilings"]:
            continue  # the leaf
        if inside and any(name.startswith(room) and top in may for room, may in LATE.items()):
            continue
        if any(name.startswith(room) and top in may for room, may in SERVING.items()):
            continue
        assert top in ALLOWED[name.split("/")[0]] or top in STANDARD, f"{name} imports {module}"


def test_the_leaf_that_kernels_and_engine_share_imports_nothing():
    for path in (ROOT / "kernels" / "tilings").glob("*.py"):
        assert not imports(path), path


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
    nodes = ast.walk(parsed(ROOT / "kernels" / "__init__.py"))
    imported = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module[:8] == "kernels."]
    for checkers in imported:
        for alias in checkers.names:
            assert kernels._MODULES[alias.name] == checkers.module.removeprefix("kernels.")
    assert {alias.name for node in imported for alias in node.names} == public_names("kernels")


def names_of_kernels(source: str) -> list[tuple[str, str]]:
    """(module, name) of everything that a file takes of kernels, by import or as an attribute."""
    nodes, found = list(ast.walk(ast.parse(source))), []
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    found += [(name, "") for name in imported if name.startswith("kernels.")]
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kernels":
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and "kernels" in imported:
            found += [("kernels", node.attr)] * (node.value.id == "kernels")
    return found


def test_measuring_uses_kernels_through_their_public_face():
    for path in sorted((ROOT / MEASURING).glob("*.py")):
        for module, name in names_of_kernels(path.read_text()):
            if module.startswith("kernels.tilings"):
                continue
            assert module in FACES, f"{path.name} imports {module}"
            assert name in public_names(module), f"{path.name} takes {name}, which {module} does not offer"


def private_names(source: str) -> list[str]:
    """What a file takes of torch or Triton that begins with an underscore."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            found += [f"{module}.{alias.name}" if module else alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute):
            found.append(ast.unparse(node))
    found = [name.split(".") for name in found]
    return [
        ".".join(name)
        for name in found
        if name[0] in ("torch", "triton") and any(part[:1] == "_" for part in name)
    ]


def test_the_engine_takes_nothing_private_of_torch_or_triton():
    for path in sorted((ROOT / "engine").rglob("*.py")):
        assert not set(private_names(path.read_text())) - {"torch.__version__"}, path.name
    assert private_names("import torch._inductor\ntorch.cuda._sleep(1)") == [
        "torch._inductor",
        "torch.cuda._sleep",
    ]


def test_the_rule_sees_what_lies_behind_the_public_face():
    source = "import kernels.backward.tiling\nfrom kernels.launch import stages\nimport kernels\nkernels.tile"
    assert names_of_kernels(source) == [
        ("kernels.backward.tiling", ""),
        ("kernels.launch", "stages"),
        ("kernels", "tile"),
    ]


def rooms(room: str) -> dict[str, Path]:
    """Every module of a room by its full name."""
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in FILES}
    return {
        name.removesuffix(".__init__"): path for path, name in names.items() if name.startswith(f"{room}.")
    }


@cache
def imports_within(room: str, path: Path) -> set[str]:
    """Modules of its room that a file imports, anywhere in it; of a package, the module meant."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == room:
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                found.add(module if (ROOT / f"{module.replace('.', '/')}.py").exists() else node.module)
    return found


@pytest.mark.parametrize("room", ["engine", "kernels"])
def test_no_modules_of_a_room_import_each_other_in_a_circle(room):
    graph = {name: imports_within(room, path) for name, path in rooms(room).items()}
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, f"{' imports '.join((*way[way.index(module) :], module))}"
        if module not in done:
            for imported in sorted(graph.get(module, set()) - {room}):
                visit(imported, (*way, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_figures_know_nothing_of_streamlit():
    for name, path in NAMED.items():
        if name.startswith("app/figures/"):
            assert "streamlit" not in {module.split(".")[0] for module, _ in imports(path)}, name


def test_only_the_scenario_touches_the_session_and_the_link():
    for path in (ROOT / "app").rglob("*.py"):
        names = {node.attr for node in ast.walk(parsed(path)) if isinstance(node, ast.Attribute)}
        if path.parent != ROOT / "app" / "scenario":
            assert not names & {"session_state", "query_params"}, path.name


INSIDE = "app/serving/inside_streamlit.py"


def test_what_reaches_inside_streamlit_stands_in_one_file():
    asking = {
        name for name, path in NAMED.items() for module, _ in imports(path) if module.startswith("streamlit.")
    }
    assert asking == {INSIDE}
    for path in (ROOT / "app").rglob("*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "st":
                assert not node.attr.startswith("_") or node.attr == "__file__", (path, node.attr)


def test_no_page_computes():
    """What a page shows of two numbers is computed in engine/studies, or scaled in figures."""
    for path in (ROOT / "app" / "page").rglob("*.py"):
        nodes = list(ast.walk(parsed(path)))
        assert not [node for node in nodes if isinstance(node, ast.Div | ast.Pow | ast.MatMult)], path
        called = {node.func.id for node in nodes if isinstance(node, ast.Call) and hasattr(node.func, "id")}
        assert not called & {"sum", "median", "divmod"}, path


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
