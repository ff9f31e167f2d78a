"""The doctor names what a role of ours lacks, on a real Postgres."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from db import roles
from ops.doctor.rights import rights


@pytest.fixture
def prefix_of_roles(database: str) -> Iterator[str]:
    prefix = f"r{uuid4().hex[:10]}_"
    with psycopg.connect(database, autocommit=True) as connection:
        roles.apply(connection, prefix=prefix)
        yield prefix
        for role in roles.ROLES:
            name = sql.Identifier(f"{prefix}{role}")
            connection.execute(sql.SQL("DROP OWNED BY {}").format(name))
            connection.execute(sql.SQL("DROP ROLE {}").format(name))


def test_a_right_that_was_taken_away_is_named_and_given_again(database: str, prefix_of_roles: str) -> None:
    prefix = prefix_of_roles
    with psycopg.connect(database, autocommit=True) as connection:
        assert rights(connection, f"{prefix}none_").level == "ok"
        told = rights(connection, prefix)
        assert told.level == "ok" and told.found.startswith("6 roles"), told
        for statement in (
            f'REVOKE UPDATE ON job_queue FROM "{prefix}sink"',
            f'REVOKE USAGE ON SCHEMA connect FROM "{prefix}reconciler"',
            f'REVOKE UPDATE (partition_key) ON event_log FROM "{prefix}worker"',
            "CREATE TABLE connect.added (id int)",
        ):
            connection.execute(statement.encode())
        told = rights(connection, prefix)
        assert told.level == "fail"
        assert told.found == (
            "worker lacks UPDATE (partition_key) on event_log; sink lacks UPDATE on job_queue; "
            "reconciler lacks USAGE on connect and 1 more; operator lacks SELECT on connect and 3 more"
        )
        roles.apply(connection, prefix=prefix)
        assert rights(connection, prefix).level == "ok"


def test_who_is_no_superuser_sees_the_same(database: str, prefix_of_roles: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f'SET ROLE "{prefix_of_roles}operator"'.encode())
        assert rights(connection, prefix_of_roles).level == "ok"
