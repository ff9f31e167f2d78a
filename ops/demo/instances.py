"""Stuck WhatsApp instances in the demo: the reconciler moves them on, notifications open and one resolves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final
from uuid import uuid4

import msgspec

from ops.clinic import Connection
from ops.demo.beside import Flow, asked
from ops.demo.happenings import Happening
from ops.reconcile import order
from settings import Settings

_STATES: Final = ("provisioning", "provisioning", "provisioning", "deprovisioning")
"""Of the instances, since yesterday."""
_STUCK: Final = frozenset({"provisioning", "deprovisioning"})
_MAKE: Final = """
INSERT INTO connect.whatsapp_instances (id, organization_id, state, state_since)
VALUES (%s, %s, %s, clock_timestamp() - interval '1 day')
"""
_ROWS: Final = "SELECT id, state FROM connect.whatsapp_instances WHERE organization_id = %s"
_MOVES: Final = "SELECT count(*) FROM connect.whatsapp_moves WHERE organization_id = %s"
_NOTIFICATIONS: Final = """
SELECT count(*) FILTER (WHERE resolved_at IS NULL), count(*) FILTER (WHERE resolved_at IS NOT NULL)
FROM connect.system_notifications WHERE organization_id = %s AND kind = 'whatsapp_failed'
"""


class Instances(msgspec.Struct, frozen=True):
    """What became of the instances that were stuck."""

    stuck: int
    moved: int
    """Moves of the reconciler; each instance is moved once."""
    states: dict[str, int]
    """Where they are at the end."""
    open: int
    """Notifications of instances that failed and still do."""
    resolved: int
    """Those that resolved themselves, since the instance is well again."""

    @property
    def right(self) -> bool:
        """Whether everything is as it must be."""
        states = {"connected": 2, "provisioning_failed": 1, "archived": 1}
        return (self.moved, self.states, self.open, self.resolved) == (self.stuck, states, 1, 1)


class StuckInstances(Flow):
    """Plays four instances; `whatsapp` is the URL of the stand-in that knows which one is well."""

    def __init__(
        self,
        url: str,
        scale: float,
        tell: Callable[[Happening], None],
        *,
        whatsapp: str,
        bootstrap: str,
        settings: Settings,
    ) -> None:
        super().__init__(url, scale, tell)
        self._whatsapp = whatsapp
        self._bootstrap = bootstrap
        self._settings = settings
        self._organization = uuid4()
        self._ids = [uuid4() for _ in _STATES]
        self._mended = False
        self._told = Instances(len(_STATES), 0, {}, 0, 0)

    def steps(self, connection: Connection) -> Iterator[tuple[float, Callable[[], None]]]:
        """They are stuck, and somebody asks for a run."""
        yield 10.0, lambda: self._stick(connection)

    def look(self, connection: Connection) -> bool:
        """Whether all have moved, one was mended by the CRM, and its notification has resolved itself."""
        rows = connection.execute(_ROWS, [self._organization]).fetchall()
        states = {str(id_): str(state) for id_, state in rows}
        (moved,) = connection.execute(_MOVES, [self._organization]).fetchone() or (0,)
        open_, resolved = connection.execute(_NOTIFICATIONS, [self._organization]).fetchone() or (0, 0)
        counted = Counter(states.values())
        self._told = Instances(
            len(_STATES), int(str(moved)), dict(counted), int(str(open_)), int(str(resolved))
        )
        failed = [id_ for id_, state in states.items() if state == "provisioning_failed"]
        if not self._mended and not _STUCK & set(states.values()) and len(failed) == self._told.open > 0:
            self._mend(connection, failed[0])
        return self._told.right

    def told(self) -> Instances:
        """What became of them."""
        return self._told

    def _stick(self, connection: Connection) -> None:
        with asked("stand-in WhatsApp", self._whatsapp) as client:
            client.put(f"/instances/{self._ids[0]}", content=b"true").raise_for_status()
        for id_, state in zip(self._ids, _STATES, strict=True):
            connection.execute(_MAKE, [id_, self._organization, state])
        self.say("4 WhatsApp instances are stuck since yesterday: the reconciler is asked to look")
        order(self._bootstrap, self._settings)

    def _mend(self, connection: Connection, id_: str) -> None:
        self.say("1 instance is well after all, 2 have failed, 1 is archived: 2 notifications are open")
        connection.execute("UPDATE connect.whatsapp_instances SET state = 'connected' WHERE id = %s", [id_])
        self._mended = True
        self.say("the CRM connects a failed instance: its notification will resolve itself")
        order(self._bootstrap, self._settings)
