"""JavaScript modules joined into one script, in the order of their imports: the browser gets it in one piece.

Each module becomes a function that is called once and returns what the module exports, so names of different
modules can never meet. Understood is what this project writes: `import { name } from "./file.js";` and
`export` before a declaration of one name, each at the start of a line, and `export default` of a name or of a
call in one line. Anything else is refused by name.
"""

import re
from pathlib import Path

IMPORT = re.compile(r'^import \{([\w\s,]+)\} from "(\.{1,2}/[\w./]+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (default )?(?=(?:async )?(?:const|class|function) (\w+))", re.MULTILINE)
DEFAULT = re.compile(r"^export default (\w+(?:\(.*\))?);\n", re.MULTILINE)
LEFT_OVER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
ENTRY = "show"  # the name by which whoever joins the script with more calls its default export


class BundleError(ValueError):
    """Why modules cannot be joined, in one sentence."""


def bundle(entry: Path) -> str:
    """A module and all that it imports, as one module with the entry's default export; raises BundleError."""
    modules: dict[Path, tuple[str, dict[str, str]]] = {}
    _join(entry.resolve(), modules, ())
    called = {path: f"module{number}" for number, path in enumerate(modules)}
    parts = [_called(path, source, exports, called) for path, (source, exports) in modules.items()]
    if "default" not in modules[entry.resolve()][1]:
        raise BundleError(f"{entry.name} has no default export.")
    last = f"const {ENTRY} = {called[entry.resolve()]}.default;\nexport default {ENTRY};\n"
    return "\n".join([*parts, last])


def _join(path: Path, modules: dict, importing: tuple[Path, ...]) -> None:
    """Add a module, its source and what it exports by which name, after those that it imports."""
    if path in modules:
        return
    if path in importing:
        raise BundleError(f"{' imports '.join(each.name for each in (*importing, path))}: a circle.")
    if importing and not path.is_file():
        raise BundleError(f"{importing[-1].name} imports {path.name}: no such file.")
    source = path.read_text("utf-8")
    for names, file in IMPORT.findall(source):
        imported = _file(path, file)
        _join(imported, modules, (*importing, path))
        for name in filter(None, map(str.strip, names.split(","))):
            if name not in modules[imported][1]:
                raise BundleError(f"{path.name} imports {name}, which {imported.name} does not export.")
    exports = {"default" if found[1] else found[2]: found[2] for found in EXPORT.finditer(source)}
    if found := DEFAULT.search(source):
        exports["default"] = found[1]
    modules[path] = source, exports


def _file(path: Path, imported: str) -> Path:
    return (path.parent / imported).resolve()


def _called(path: Path, source: str, exports: dict[str, str], called: dict[Path, str]) -> str:
    """A module as a function that is called at once, its imports taken from the modules before it."""
    taken = IMPORT.sub(lambda found: f"const {{{found[1]}}} = {called[_file(path, found[2])]};\n", source)
    body = EXPORT.sub("", DEFAULT.sub("", taken))
    if found := LEFT_OVER.search(body):
        raise BundleError(f"{path.name} has a line that cannot be joined: {found[0]}")
    returned = ", ".join(f"{name}: {local}" for name, local in exports.items())
    return f"const {called[path]} = (() => {{\n{body}\nreturn {{ {returned} }};\n}})();"
