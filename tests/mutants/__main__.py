"""`python -m tests.mutants`: how many planted faults the tests see."""

import sys

from tests.mutants.run import main

sys.exit(main())
