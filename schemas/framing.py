"""Who gives and resolves schema ids, where a schema registry is in use (pure; docs/schemas.md).

Without one, records are single objects, which name their schema by its fingerprint. With one they are in
Confluent's wire format: a zero byte, the schema's id in 4 bytes (big-endian), the Avro body. A process says
here, once, whom to ask; `schemas.codec` asks when it meets something for the first time, and never again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

ZERO: Final = b"\x00"
"""First byte of Confluent's wire format; neither JSON text nor a single object starts with it."""
FRAME_BYTES: Final = 5
"""The zero byte and the id."""


class Ids(Protocol):
    """What the codec asks of a registry."""

    def id_of(self, record: str) -> int:
        """The id of the newest version of a record of ours; raises RajadaError, which says what to do."""

    def schema_of(self, schema_id: int) -> str:
        """The Avro schema with this id, as JSON text; raises RajadaError when it can't be told now."""


def frame(schema_id: int) -> bytes:
    """What stands before the body of a record with this schema id."""
    return ZERO + schema_id.to_bytes(4, "big")


def _nobody() -> Ids | None:
    return None


_ask: Callable[[], Ids | None] = _nobody
_listeners: list[Callable[[], None]] = []


def ids() -> Ids | None:
    """The registry in use, if any; raises what making it raises."""
    return _ask()


def ask(whom: Callable[[], Ids | None]) -> None:
    """From now on ask the registry that `whom` gives; it is called when one is needed."""
    global _ask
    _ask = whom
    for changed in _listeners:
        changed()


def on_change(changed: Callable[[], None]) -> None:
    """Call `changed` whenever somebody else is to be asked: what was learned from the one before is void."""
    _listeners.append(changed)


@contextmanager
def asking(registry: Ids | None) -> Iterator[None]:
    """Ask `registry` within the block, then again whoever was asked before."""
    before = _ask
    ask(lambda: registry)
    try:
        yield
    finally:
        ask(before)
