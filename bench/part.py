"""What a part of `python -m bench` is, and what it is given when it runs."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench.results import Found
from bench.servers import Servers, servers


def first_line(error: BaseException) -> str:
    """An error in a line: its type and the beginning of what it says."""
    return "".join(traceback.format_exception_only(error)).strip().splitlines()[0]


class SharedServers:
    """The servers of a run: started when a part first needs them, and kept for the parts after it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._at: Servers | None = None

    def get(self) -> Servers:
        """Those given by the environment, else embedded ones."""
        if self._at is None:
            self._at = self._stack.enter_context(servers())
        return self._at

    @property
    def started(self) -> bool:
        """Whether a part has needed them."""
        return self._at is not None

    def close(self) -> None:
        """End what was started; the next `get` starts anew (after a part failed, who knows why)."""
        self._at = None
        self._stack.close()


@dataclass(frozen=True, slots=True)
class Run:
    """What a part may use, and how much is asked of it."""

    rounds: int
    """How often each thing is measured; a warm-up that a part needs is not among them."""
    quick: bool
    """The subset of `make bench-quick`: small data, no peers, seconds instead of minutes."""
    only: frozenset[str] = frozenset()
    """Names of lines (ours, plain-loop, a peer's) to measure; empty: all."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Sizes given on the command line, by the names that the part tells in its method."""
    wrap: tuple[str, ...] = ()
    """A command that is put before the worker's, for a profiler; only the main path knows it."""
    say: Callable[[str], None] = print
    """Tells what goes on, a line at a time."""
    shared: SharedServers = field(default_factory=SharedServers)
    found: Found = field(default_factory=Found)
    """What the part adds to while it goes on, so that a failure keeps what came before it."""
    keep: Callable[[], object] = lambda: None
    """Keeps what was found by now; called after each piece."""

    @property
    def at(self) -> Servers:
        """Kafka and Postgres."""
        return self.shared.get()

    def piece(self, name: str, measure: Callable[[], None]) -> None:
        """Measure a piece of the part; when it fails, that is told and kept, and the next ones go on."""
        try:
            measure()
        except Exception as error:  # whatever it is: hours of other figures must not be lost to it
            told = f"{name}: {first_line(error)}"
            self.found.failed.append(told)
            self.say(told)
            self.shared.close()
        self.keep()

    def wants(self, line: str) -> bool:
        """Whether that line is asked for."""
        return not self.only or line in self.only

    def size(self, name: str, full: int, quick: int | None = None) -> int:
        """A size: the command line's, else the quick or the full one."""
        return self.sizes.get(name, quick if self.quick and quick is not None else full)


@dataclass(frozen=True, slots=True)
class Part:
    """One of the registry's."""

    name: str
    title: str
    method: str
    """What is measured and how, for the page; Markdown."""
    minutes: float
    """How long it takes on two cores, about, in full."""
    module: str
    """Where its `run(run: Run) -> None` is; imported when it runs."""
    quick_s: float | None = None
    """How long its quick form takes, about; None: it has none and is not in `--quick`."""
