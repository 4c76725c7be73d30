"""What a fresh server takes care of before its first visitor comes."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_it_listens_on_this_machine_alone_and_takes_no_large_files():
    server = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text("utf-8"))["server"]
    assert (server["address"], server["maxUploadSize"]) == ("localhost", 16)


def test_pandas_is_whole_before_any_page_can_ask_for_it():
    """Plotly takes it from sys.modules, where another visitor's thread may have it half loaded."""
    imports = re.findall(
        r"^(?:import|from) (\w+)", (ROOT / "app" / "main.py").read_text("utf-8"), re.MULTILINE
    )
    assert imports.index("pandas") < min(imports.index("streamlit"), imports.index("app"))


def test_the_readme_and_the_project_name_one_python():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (needed,) = re.findall(r"Python (\d\.\d+) or newer", (ROOT / "README.md").read_text("utf-8"))
    assert project["project"]["requires-python"] == f">={needed}"
    assert project["tool"]["ruff"]["target-version"] == "py" + needed.replace(".", "")
