"""Connections to Postgres: pools with names and time limits, and which errors mean "the database is away".

Pools are handed out closed: open them with `async with pool`, so that nothing connects
at import or construction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

AsyncPool = AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]]

_AWAY_CLASSES = ("08", "57P", "53")

_ALIVE: dict[str, str] = {
    "connect_timeout": "10",
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
"""A peer that vanished without a word is noticed within 20 to 25 seconds."""


def is_away(error: BaseException) -> bool:
    """Whether an error says that the database can't be asked now, so that waiting is the answer.

    True for SQLSTATE classes 08 (connection), 57P (shutting down, not yet up), 53 (out of resources),
    for socket errors and for pools that gave no connection in time; a connection that broke has no
    SQLSTATE at all. A statement timeout (57014) is not it: that is the statement's own trouble.
    Rule: spec/dispatch.md, "Failures in step 4".
    """
    if isinstance(error, (PoolTimeout, PoolClosed, TooManyRequests, OSError)):
        return True
    if isinstance(error, psycopg.Error):
        if error.sqlstate is not None:
            return error.sqlstate.startswith(_AWAY_CLASSES)
        return isinstance(error, psycopg.OperationalError)
    return False


def conninfo_for(url: str, name: str, session: Mapping[str, str] | None = None) -> str:
    """The libpq string of `url` with our application name, keepalives and session settings.

    What the URL itself says wins over the keepalives; session settings are added to its `options`.

    Args:
        url: libpq URL or key=value string.
        name: what the connection is for; seen in pg_stat_activity as `rajada-<name>`.
        session: server settings of this connection, for example {"statement_timeout": "250"}.
    """
    given = conninfo_to_dict(url)
    options = [str(given["options"])] if given.get("options") else []
    options += [f"-c {key}={_escaped(value)}" for key, value in (session or {}).items()]
    ours: dict[str, str] = {**_ALIVE, "application_name": f"rajada-{name}"}
    merged = {key: value for key, value in ours.items() if given.get(key) is None}
    if options:
        merged["options"] = " ".join(options)
    return make_conninfo(url, **merged)


def async_pool(
    url: str,
    *,
    name: str,
    min_size: int = 1,
    max_size: int = 4,
    timeout_s: float = 5.0,
    statement_timeout_ms: int = 30_000,
    autocommit: bool = True,
    read_only: bool = False,
) -> AsyncPool:
    """An asyncio pool, not yet open.

    Args:
        url: libpq URL or key=value string.
        name: what the pool is for; seen in pg_stat_activity as `rajada-<name>`.
        min_size: connections kept open.
        max_size: connections at most.
        timeout_s: how long to wait for a free connection before PoolTimeout (`is_away`).
        statement_timeout_ms: the server ends a statement after this (57014); 0 = never.
        autocommit: each statement its own transaction.
        read_only: the server refuses whatever would change a row.
    """
    session = {"statement_timeout": str(statement_timeout_ms)}
    return AsyncConnectionPool(
        conninfo_for(url, name, session | ({"default_transaction_read_only": "on"} if read_only else {})),
        kwargs={"autocommit": autocommit},
        name=name,
        min_size=min_size,
        max_size=max_size,
        timeout=timeout_s,
        open=False,
    )


def _escaped(value: str) -> str:
    """A value inside libpq's `options`: backslashes and spaces are escaped there."""
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


def first_line(error: BaseException) -> str:
    """The first line of an error, which is what a person needs; later ones may carry a row's content."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
