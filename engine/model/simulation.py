"""The one front door of the model: an experiment in, everything that follows from it out."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from html import escape
from typing import Any

from engine.experiment import Experiment
from engine.model.device_memory import largest_context, memory_bytes
from engine.model.footprint import Footprint, footprint
from engine.model.l1 import from_l2
from engine.model.launch import Launch, launch
from engine.model.seconds import Modelled, modelled_time
from engine.model.traffic import Counts, Traffic, counts, traffic
from engine.schedule.schedule import Schedule


@dataclass(frozen=True)
class Simulation:
    """An experiment with its bytes, footprint and modelled time, each computed when first asked for."""

    experiment: Experiment

    @property
    def launch(self) -> Launch:
        """The schedule on its GPU; not kept here, as thousands of simulations are."""
        return launch(self.experiment)

    @cached_property
    def per_head(self) -> Counts:
        """One head's counts, for who asks for no more: they take a tenth of what the traffic takes."""
        return counts(self.schedule)

    @cached_property
    def traffic(self) -> Traffic:
        """Its bytes, FLOPs and tiles."""
        return traffic(self.launch)

    @cached_property
    def footprint(self) -> Footprint:
        """What a thread block keeps on the chip."""
        return footprint(self.launch)

    @cached_property
    def modelled(self) -> Modelled:
        """Its seconds."""
        return modelled_time(self.launch, self.traffic)

    @cached_property
    def from_l2(self) -> int:
        """Bytes that the SMs read from L2: modelled, see `engine.model.l1`."""
        return from_l2(self.launch)

    @property
    def schedule(self) -> Schedule:
        """The loop nests of one head."""
        return self.launch.schedule

    def summary(self) -> dict[str, Any]:
        """Plain values for JSON: the experiment, its blocks as they run; then totals over batch and heads."""
        bytes_, chip, tiling = self.traffic, self.footprint, self.experiment.tiling
        return {
            **self.experiment.flat(),
            "block_q": tiling.block_q,
            "block_kv": tiling.block_kv,
            "stages": tiling.stages,
            "tile_read_bytes": bytes_.requested.total_read,
            "tile_write_bytes": bytes_.requested.total_written,
            "l2_read_bytes": self.from_l2,
            "compulsory_read_bytes": bytes_.compulsory.total_read,
            "compulsory_write_bytes": bytes_.compulsory.total_written,
            "dram_read_bytes": bytes_.dram.total_read,
            "dram_read_bytes_range": list(bytes_.dram_range.read),
            "dram_write_bytes": bytes_.dram.total_written,
            "flops": bytes_.flops,
            "exponentials": bytes_.exponentials,
            "tiles_visited": bytes_.tiles_visited,
            "tiles_skipped": bytes_.tiles_skipped,
            "tiles_partial": bytes_.tiles_partial,
            "tiles_full": bytes_.tiles_full,
            "sram_bytes": chip.sram_bytes,
            "shared_bytes": chip.shared_bytes,
            "sram_capacity_bytes": chip.capacity_bytes,
            "fits": chip.fits,
            "blocks_per_sm": chip.blocks_per_sm,
            "memory_bytes": memory_bytes(self.experiment),
            "largest_context": largest_context(self.experiment),
            "modelled_seconds": self.modelled.seconds,
            "modelled_bound": self.modelled.bound,
        }

    def told(self) -> list[tuple[str, ...]]:
        """For reading, rows of what, bytes read and written or one value with its unit, and whose number."""
        moved, chip, summary = self.traffic, self.footprint, self.summary()
        rows = [
            ("tile requests", moved.requested.total_read, moved.requested.total_written, "counted"),
            ("compulsory", moved.compulsory.total_read, moved.compulsory.total_written, "counted"),
            ("DRAM", moved.dram.total_read, moved.dram.total_written, "modelled"),
        ]
        if moved.dram_range.is_wide:
            ends = zip(moved.dram_range.read, moved.dram_range.written, strict=True)
            names = "DRAM, at least", "DRAM, at most"
            rows += [(name, *end, "modelled") for name, end in zip(names, ends, strict=True)]
        rows += [
            ("tiles visited", moved.tiles_visited, "counted"),
            ("tiles skipped", moved.tiles_skipped, "counted"),
            ("FLOPs", moved.flops, "counted"),
            ("on chip, bytes", chip.sram_bytes, "counted"),
            ("memory, bytes", summary["memory_bytes"], "counted"),
            ("largest context", summary["largest_context"], "modelled"),
        ]
        told = [(name, *(f"{value:,}" for value in values), origin) for name, *values, origin in rows]
        return [
            *told,
            ("time, us", f"{self.modelled.seconds * 1e6:,.1f}", f"modelled, {self.modelled.bound} bound"),
        ]

    def _repr_html_(self) -> str:
        """The same as a notebook shows it."""
        rows = ["<tr><th></th><th>read, bytes</th><th>written, bytes</th><th></th></tr>"]
        for name, *values, origin in self.told():
            cells = "".join(f"<td style='text-align:right'>{value}</td>" for value in (*values, "")[:2])
            rows.append(f"<tr><th style='text-align:left'>{name}</th>{cells}<td>{origin}</td></tr>")
        return f"<table>{''.join(rows)}</table><p>{escape(self.footprint.sentence)}</p>"


@lru_cache(maxsize=4096)
def simulate(experiment: Experiment) -> Simulation:
    """Everything the model says about an experiment; milliseconds, and nothing when asked again."""
    return Simulation(experiment)
