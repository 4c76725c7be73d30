"""python -m engine model: a model's layers in a phase, from its config.json."""

import json

from engine.layers.config import names, opened, shipped
from engine.layers.phase import PARALLEL, PHASES, PREFILL, Evaluated, Phase
from engine.parser import Parser, whole
from engine.problem.hardware import GPUS


def main(arguments: list[str] | None = None) -> int:
    """Print what a model takes; returns the exit code, raises SystemExit(2) on a bad value."""
    parser = Parser("engine model", __doc__)
    parser.add_argument("model", nargs="?", help="a config.json, or the name of a model that is shipped")
    parser.add_argument("--list", action="store_true", help="print the models that are shipped")
    parser.add_argument("--phase", choices=PHASES, default=PREFILL, help="default %(default)s")
    parser.add_argument("--tokens", type=whole, default=4096, help="of a sequence; default %(default)s")
    parser.add_argument("--batch", type=whole, default=1, help="sequences; default %(default)s")
    parser.add_argument("--hardware", choices=GPUS, default="h200", help="default %(default)s")
    parser.add_argument("--parallel", type=whole, default=1, help=f"GPUs, of {PARALLEL}; default %(default)s")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args(arguments)
    if options.list:
        found = [shipped(name) for name in names()]
        listed = [{"name": each.name, "parameters": each.parameters, "source": each.source} for each in found]
        lines = (f"{each['name']:<20} {each['parameters']:>18,}  {each['source']}" for each in listed)
        print(json.dumps(listed) if options.json else "\n".join(lines))
        return 0
    if options.model is None:
        parser.error(f"model is missing; it must be a config.json, or one of {', '.join(names())}")
    phase = Phase(options.phase, options.tokens, options.batch, options.parallel, options.hardware)
    found = phase.of(opened(options.model))
    print(json.dumps(found.summary()) if options.json else table(found))
    return 0


def table(found: Evaluated) -> str:
    lines = [f"{'layers':<52} {'count':>5} {'attention, us':>14} {'the rest, us':>14}"]
    for part in found.parts:
        seconds = (f"{each * 1e6:>14,.1f}" for each in (part.attention_seconds, part.other_seconds))
        lines.append(" ".join((f"{part.layer.kind:<52} {part.count:>5}", *seconds)))
    lines += [
        f"{'the whole, ms':<52} {found.seconds * 1e3:>35,.2f}  modelled",
        f"{'attention of it':<52} {found.attention_share:>35.1%}  modelled",
        f"{'weights, bytes':<52} {found.weight_bytes:>35,}  counted",
        f"{'K and V, bytes':<52} {found.kv_cache_bytes:>35,}  counted",
    ]
    return "\n".join([*lines, *found.said])
