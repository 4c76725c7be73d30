"""JavaScript modules joined into one script, in the order of their imports: the browser gets it in one piece.

Each module becomes a function that is called once and returns what the module exports, so names of different
modules can never meet. Understood is what this project writes: `import { name } from "./file.js";` and
`export` before a declaration of one name, each at the start of a line; anything else is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

IMPORT = re.compile(r'^import \{([\w\s,]+)\} from "(\.{1,2}/[\w./]+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (default )?(?=(?:async )?(?:const|class|function) (\w+))", re.MULTILINE)
LEFT_OVER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
ENTRY = "show"  # the name by which whoever joins the script with more calls its default export


class BundleError(ValueError):
    """Why modules cannot be joined, in one sentence."""


def bundle(entry: Path) -> str:
    """A module and all that it imports, as one module with the entry's default export; raises BundleError."""
    modules: dict[Path, tuple[str, set[str]]] = {}
    _join(entry.resolve(), modules, ())
    names = {path: f"module{number}" for number, path in enumerate(modules)}
    parts = [_called(path, *module, names) for path, module in modules.items()]
    _, exported = modules[entry.resolve()]
    if "default" not in exported:
        raise BundleError(f"{entry.name} has no default export.")
    last = f"const {ENTRY} = {names[entry.resolve()]}.default;\nexport default {ENTRY};\n"
    return "\n".join([*parts, last])


def _join(path: Path, modules: dict, importing: tuple[Path, ...]) -> None:
    """Add a module after those that it imports, unless it is there."""
    if path in modules:
        return
    if path in importing:
        raise BundleError(f"{' imports '.join(each.name for each in (*importing, path))}: a circle.")
    if importing and not path.is_file():
        raise BundleError(f"{importing[-1].name} imports {path.name}: no such file.")
    source = path.read_text("utf-8")
    for names, imported in _imports(path, source):
        _join(imported, modules, (*importing, path))
        for name in names:
            if name not in modules[imported][1]:
                raise BundleError(f"{path.name} imports {name}, which {imported.name} does not export.")
    exported = {"default" if found[1] else found[2] for found in EXPORT.finditer(source)}
    modules[path] = source, exported


def _imports(path: Path, source: str) -> Iterator[tuple[list[str], Path]]:
    """Names and file of every import, in their order."""
    for names, file in IMPORT.findall(source):
        yield [name.strip() for name in names.split(",") if name.strip()], (path.parent / file).resolve()


def _called(path: Path, source: str, exported: set[str], names: dict[Path, str]) -> str:
    """A module as a function that is called at once, its imports taken from the modules before it."""
    returned = [f"default: {found[2]}" if found[1] else found[2] for found in EXPORT.finditer(source)]
    body = IMPORT.sub(
        lambda found: f"const {{{found[1]}}} = {names[(path.parent / found[2]).resolve()]};\n", source
    )
    body = EXPORT.sub("", body)
    if found := LEFT_OVER.search(body):
        raise BundleError(f"{path.name} has a line that cannot be joined: {found[0]}")
    return f"const {names[path]} = (() => {{\n{body}\nreturn {{ {', '.join(returned)} }};\n}})();"
