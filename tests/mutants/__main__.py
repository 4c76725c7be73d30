"""`python -m tests.mutants`: how many planted faults the tests see."""

import sys

from engine.parser import ended
from tests.mutants.run import main

sys.exit(ended(main))
