"""The work that the transport's benchmark gives to both sides: collect bursts, freeze them, send jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import orjson

BURST = 20
"""Events of one contact that make a job."""


class Event(Protocol):
    """A source record."""

    @property
    def key(self) -> bytes | None:
        """The contact."""

    @property
    def value(self) -> bytes | None:
        """The event as JSON."""

    @property
    def offset(self) -> int:
        """Its place."""


Contact = dict[str, Any]
"""`last` offset seen, `open` event ids since `first`, `frozen` bursts."""


def collect(
    events: Sequence[Event], get: Callable[[bytes], Contact | None], put: Callable[[bytes, Contact], None]
) -> list[bytes]:
    """Apply events to their contacts; returns the keys that have frozen bursts now."""
    frozen = []
    for event in events:
        key = event.key or b""
        body = orjson.loads(event.value or b"{}")
        contact = get(key)
        if contact is None:
            contact = {"last": -1, "first": 0, "open": [], "frozen": []}
        elif event.offset <= contact["last"]:
            continue
        if not contact["open"]:
            contact["first"] = event.offset
        contact["open"].append(body["id"])
        contact["last"] = event.offset
        if len(contact["open"]) == BURST:
            contact["frozen"].append([contact["first"], contact["open"]])
            contact["open"] = []
            frozen.append(key)
        put(key, contact)
    return frozen


def jobs(key: bytes, contact: Contact) -> Iterator[tuple[bytes, bytes]]:
    """A job and an outcome for each frozen burst."""
    for first, events in contact["frozen"]:
        job = f"{key.decode()}:{first}"
        yield orjson.dumps({"job": job, "events": events}), orjson.dumps({"outcome": job, "n": len(events)})
