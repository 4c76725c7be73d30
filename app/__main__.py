"""`python -m app`, which is `attention-tiles` where the project is installed: opens the dashboard.

What follows is given to Streamlit, as after `streamlit run app/main.py`.
"""

import runpy
import sys
from pathlib import Path


def main() -> None:
    """Serve the pages until the process is ended."""
    sys.argv[1:] = ["run", str(Path(__file__).with_name("main.py")), *sys.argv[1:]]
    runpy.run_module("streamlit", run_name="__main__")


if __name__ == "__main__":
    main()
