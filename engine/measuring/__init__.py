"""How this machine is measured: what is timed, by which clock, and how its results are checked."""
