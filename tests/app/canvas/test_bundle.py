"""Modules joined into one script: in the order of their imports, each once, with nothing left out unsaid."""

import pytest

from app.canvas.bundle import BundleError, bundle
from engine.root import ROOT
from tests.js.test_scripts import node

APP = ROOT / "app"
# what a notebook loads goes through another door
ENTRIES = [path for path in sorted(APP.rglob("*.js")) if "\nexport default " in path.read_text("utf-8")]
ENTRIES.remove(APP / "notebook" / "controls.js")


@pytest.fixture
def joined(tmp_path):
    """Writes modules, joins them from the last, and returns the script."""

    def join(**modules: str) -> str:
        for name, source in modules.items():
            (tmp_path / f"{name}.js").write_text(source)
        return bundle(tmp_path / f"{name}.js")

    return join


A = "export const a = 1;\n"
SHOW = "export default function show() {\n  return NAME;\n}\n"


def test_every_module_comes_once_and_after_those_that_it_imports(joined):
    script = joined(
        low='export const low = "the lowest";\n',
        left='import { low } from "./low.js";\nexport const left = low;\n',
        right='import { low } from "./low.js";\nexport const right = low;\n',
        top='import { left } from "./left.js";\nimport { right } from "./right.js";\n'
        + SHOW.replace("NAME", "left + right"),
    )
    places = [script.index(words) for words in ("the lowest", "const left", "const right", "function show")]
    assert places == sorted(places)
    assert script.count("the lowest") == 1
    assert script.rstrip().endswith("export default show;")
    assert "import" not in script


def test_the_script_runs_and_names_of_modules_never_meet(joined, tmp_path):
    script = joined(
        one='const secret = "one";\nexport const tell = () => secret;\n',
        two='import {\n  tell,\n} from "./one.js";\nconst secret = "two";\n'
        + SHOW.replace("NAME", "`${tell()} ${secret}`"),
    )
    (tmp_path / "joined.mjs").write_text(script + "console.log(show());\n")
    assert node(tmp_path / "joined.mjs").stdout == "one two\n"


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        (
            {"a": 'import { b } from "./b.js";\n' + A, "b": 'import { a } from "./a.js";\n' + SHOW},
            "b.js imports a.js imports b.js: a circle.",
        ),
        ({"a": 'import { b } from "./b.js";\n' + SHOW}, "a.js imports b.js: no such file."),
        ({"b": "", "a": 'import { b } from "./b.js";\n' + SHOW}, "a.js imports b, which b.js does not"),
        ({"a": 'import * as all from "./b.js";\n' + SHOW}, "a line that cannot be joined: import * as all"),
        ({"a": "export let changing = 1;\n" + SHOW}, "a line that cannot be joined: export let changing"),
        ({"a": A}, "a.js has no default export."),
    ],
    ids=["circle", "no file", "not exported", "import of all", "export that changes", "no default"],
)
def test_what_cannot_be_joined_is_refused_in_one_sentence(joined, modules, said):
    with pytest.raises(BundleError) as error:
        joined(**modules)
    assert said in str(error.value)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda path: str(path.relative_to(APP)))
def test_every_script_of_the_dashboard_is_joined(entry):
    assert bundle(entry).count("export ") == 1


def test_the_entries_are_those_that_pages_show():
    names = "across films frame gpu hbm inside lectern page_files player rescale shapes sketch watched zoom"
    assert {path.stem for path in ENTRIES} == set(names.split())
