"""What ncu watches: python -m engine.measuring.under_profiler SCENARIOS REASONS SECONDS.

Each scenario runs unwatched first (compiled, checked against float64), then once under the profiler, after
a kernel whose grid says which scenario follows; its tensors lie elsewhere in memory than the last one's, as
what L2 keeps depends on where. REASONS gets a list: null, or why a scenario did not run; shorter than the
scenarios where the time was up.
"""

import json
import pickle
import sys
import time
from pathlib import Path

from engine.measuring.libraries import kernels, torch
from engine.measuring.scenarios import prepared
from engine.measuring.trial import Trial, attempt
from engine.recordings.recording import Counters
from engine.worker.jobs import JobError

PLACES, APART = 3, 38 * 2**20  # where tensors may begin, and bytes between these


def main() -> None:
    """Run the scenarios of the file."""
    scenarios, results, seconds = sys.argv[1:]
    end = time.monotonic() + float(seconds)
    reasons: list[str | None] = []
    for index, scenario in enumerate(pickle.loads(Path(scenarios).read_bytes())):
        if time.monotonic() > end:
            break
        _, reason = attempt(lambda i=index, s=scenario: profile(s, i), cuda=True)
        reasons.append(reason)
        torch.cuda.empty_cache()
    Path(results).write_text(json.dumps(reasons))


def profile(scenario: Counters, index: int) -> None:
    """One scenario, profiled; raises JobError if its result is wrong."""
    elsewhere = torch.empty((index + 1) % PLACES * APART, dtype=torch.uint8, device="cuda")
    prepare, options = prepared(scenario)
    place = torch.zeros(1, dtype=torch.int32, device="cuda")
    kernels.scenario_marker[(1,)](place)
    found = Trial.of(scenario.problem, True, scenario.direction).checked(prepare, **options)
    if isinstance(found, str):
        raise JobError(found)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    try:
        kernels.scenario_marker[(index + 1,)](place)
        found.call()
        torch.cuda.synchronize()
    finally:
        torch.cuda.profiler.stop()
        del elsewhere


if __name__ == "__main__":
    main()
