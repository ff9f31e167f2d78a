"""The instances and the notifications in Postgres: leased, moved, rebuilt.

Every method is one statement; each may raise psycopg.Error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from db.pool import AsyncPool
from db.queries import load
from streams.reconcile.instances import Instance, Move


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What one page of the rebuild changed, and whether there is more to change."""

    opened: int
    resolved: int
    more: bool


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run would do, by age alone: counts by state, or by kind of notification."""

    moves: dict[str, int]
    left: dict[str, int]
    opens: dict[str, int]
    resolves: dict[str, int]


class Store:
    """What a run reads and writes. `pool` is in autocommit mode, opened by others."""

    def __init__(self, pool: AsyncPool) -> None:
        self._pool = pool

    async def reserve(self, batch: int, owner: str, lease_s: float) -> list[Instance]:
        """Lease up to `batch` stuck instances, in the order of their turns; empty: none is left."""
        values = {"batch": batch, "owner": owner, "lease_s": lease_s}
        return [Instance(*row) for row in await self._rows("connect_reserve", values)]

    async def move(self, moves: Sequence[tuple[Instance, Move]], firing: UUID) -> set[str]:
        """Move instances on; the ids of those whose token and state were still as they were reserved."""
        values = {
            **_arrays([instance for instance, _ in moves]),
            "seen": [instance.state for instance, _ in moves],
            "wanted": [move.state for _, move in moves],
            "reasons": [move.reason for _, move in moves],
            "firing": firing,
        }
        return {id_ for (id_,) in await self._rows("connect_move", values)}

    async def release(self, instances: Sequence[Instance]) -> None:
        """Give leases back before their end."""
        async with self._pool.connection() as connection:
            await connection.execute(load("connect_release"), _arrays(instances))

    async def rebuild(self, most: int) -> Rebuilt:
        """Bring the open notifications nearer to what is true, by `most` changes of each sort."""
        (row,) = await self._rows("connect_rebuild", {"most": most})
        return Rebuilt(*row)

    async def unknown(self) -> dict[str, int]:
        """State → instances, of the states that we don't know."""
        return dict(await self._rows("connect_unknown", {}))

    async def preview(self) -> Preview:
        """What a run would do now; nothing is changed."""
        made = Preview({}, {}, {}, {})
        where = {"move": made.moves, "leave": made.left, "open": made.opens, "resolve": made.resolves}
        for what, name, count in await self._rows("connect_preview", {}):
            where[what][name] = count
        return made

    async def forget(self) -> int:
        """Delete what is too old; how many rows."""
        ((count,),) = await self._rows("connect_forget", {})
        return int(count)

    async def _rows(self, name: str, values: dict[str, object]) -> list[tuple[Any, ...]]:
        async with self._pool.connection() as connection:
            cursor = await connection.execute(load(name), values)
            return await cursor.fetchall()


def _arrays(instances: Sequence[Instance]) -> dict[str, object]:
    return {
        "ids": [instance.id for instance in instances],
        "organizations": [instance.organization_id for instance in instances],
        "tokens": [instance.token for instance in instances],
    }
