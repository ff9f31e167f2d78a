"""What a chaos run does: how much load, which workers, and what may happen to them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path
from time import time

TABLES = ("counts", "again")
"""The tables that a worker may keep, and so part of their changelogs' names."""


@dataclass(frozen=True)
class Plan:
    """One run, repeatable but for the timing of processes."""

    bootstrap: str
    seed: int = 1
    seconds: float = 20.0
    """Length of the load."""
    rate: int = 800
    """Records a second."""
    keys: int = 3000
    partitions: int = 6
    tables: int = 1
    standby: int = 0
    """Standby replicas of each table."""
    snapshot: int = 0
    """Changelog records after which local state is written; 0: never."""
    session_s: float = 3.0
    delay_ms: float = 0.0
    """Work per batch."""
    decode_ms: float = 0.0
    """Recovery time per changelog record."""
    lookup_ms: float = 0.0
    """Latency of each look-up of committed offsets."""
    static: bool = False
    """Workers are static members of the group."""
    guarded: bool = True
    """With lease and fence."""
    jump: bool = False
    """Move the fetch position at random."""
    broker: bool = False
    """Kill the broker, too (it has to be ours)."""
    stock: bool = False
    """On Faust's own transport."""
    hurt: bool = True
    apart: float = 0.0
    """Least seconds between two injuries: then each pause has one cause."""
    name: str = ""

    @property
    def prefix(self) -> str:
        """App id and topic prefix."""
        return self.name or f"chaos-{self.seed}-{int(time())}"

    @property
    def module(self) -> str:
        """The worker's application."""
        return "chaos.stock" if self.stock else "chaos.app"

    def environment(self, prefix: str, folder: Path) -> dict[str, str]:
        """The settings of every worker."""
        return {
            "CHAOS_ID": prefix,
            "CHAOS_BOOTSTRAP": self.bootstrap,
            "CHAOS_DIR": str(folder),
            "CHAOS_PARTITIONS": str(self.partitions),
            "CHAOS_TABLES": str(self.tables),
            "CHAOS_STANDBY": str(self.standby),
            "CHAOS_SNAPSHOT": str(self.snapshot),
            "CHAOS_DATA": str(folder / "data"),
            "CHAOS_SESSION": str(self.session_s),
            "CHAOS_DELAY_MS": str(self.delay_ms),
            "CHAOS_DECODE_MS": str(self.decode_ms),
            "CHAOS_LOOKUP_MS": str(self.lookup_ms),
            "CHAOS_GUARD": "1" if self.guarded else "0",
            "CHAOS_JUMP": "1" if self.jump else "0",
        }

    def varied(self, number: int) -> Plan:
        """The `number`th run of a series: another seed, another shape."""
        dice = random.Random(self.seed)
        return replace(
            self,
            partitions=(6, 24)[number % 2],
            tables=(1, 2, 0, 1)[number % 4],
            standby=dice.choice([0, 0, 1]),
            snapshot=dice.choice([0, 200]),
            delay_ms=dice.choice([0, 0, 20]),
            decode_ms=dice.choice([0, 0, 0.2]),
            lookup_ms=(0, 0, 300)[number % 3],
            static=dice.random() < 0.2,
            broker=number % 3 == 1,
        )

    def told(self) -> str:
        """The shape in a few words."""
        parts = [f"{self.partitions}p", f"{self.tables}t"]
        parts += [f"standby {self.standby}"] if self.standby else []
        parts += ["snapshots"] if self.snapshot else []
        parts += [f"work {self.delay_ms:.0f} ms"] if self.delay_ms else []
        parts += [f"decode {self.decode_ms} ms"] if self.decode_ms else []
        parts += [f"lookup {self.lookup_ms:.0f} ms"] if self.lookup_ms else []
        parts += ["static"] if self.static else []
        parts += ["broker"] if self.broker else []
        parts += ["stock"] if self.stock else []
        return ", ".join(parts)
