"""The roles by which each process reaches Postgres, with no more rights than it needs.

One file a role: its grants, with `{role}` in place of its name. They are given anew each time: what a file
does not name is taken away. Passwords are nobody's business here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql

from db.fitness import CONTRACT
from settings import RajadaError

FOLDER: Final = Path(__file__).parent
ROLES: Final = ("relay", "worker", "sink", "web", "reconciler", "operator")
"""Whom there are grants for; `delays` reaches no database, `operator` is who runs `rajada` by hand."""
ASKED_FOR: Final = ("debezium", "shadow")
"""And for these, which are made only when they are named."""
DEFAULT_PREFIX: Final = "rajada_"
SCHEMAS: Final = ("rajada", "connect")
_ATTRIBUTES: Final = re.compile(r"^-- attributes: (.+)$", re.MULTILINE)


class NoSuchRole(RajadaError):
    """There are no grants for a role of that name; the message lists those that there are."""


class RolesRefused(RajadaError):
    """The server refused to make a role or to grant something; the message says what helps."""


@cache
def grants_of(role: str) -> str:
    """The text of a role's file. Raises NoSuchRole."""
    if role not in (*ROLES, *ASKED_FOR):
        raise NoSuchRole(f"There is no role {role!r}; there are {', '.join((*ROLES, *ASKED_FOR))}.")
    return (FOLDER / f"{role}.sql").read_text(encoding="utf-8")


def script(role: str, prefix: str = DEFAULT_PREFIX) -> str:
    """All that makes a role and gives it its rights, as SQL; run twice it is the same.

    To be run in the database, under a search path that finds the CRM's tables, by their owner (who may make
    roles). Raises NoSuchRole.
    """
    name = sql.Identifier(f"{prefix}{role}").as_string()
    text = sql.Literal(f"{prefix}{role}").as_string()
    grants = grants_of(role)
    found = _ATTRIBUTES.search(grants)
    attributes = f" {found[1]}" if found else ""
    tables = ", ".join(sql.Literal(table).as_string() for table in (*CONTRACT, "group_link_dispatch_queue"))
    schemas = ", ".join(sql.Literal(schema).as_string() for schema in SCHEMAS)
    return f"""\
DO $$
DECLARE
    found regclass;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = {text}) THEN
        CREATE ROLE {name} LOGIN{attributes};
    END IF;
    -- what was granted before, and is not below, must not stay
    FOR found IN
        SELECT c.oid::regclass FROM pg_class c
        WHERE c.relkind IN ('r', 'p', 'v', 'S')
          AND (c.relnamespace IN (SELECT n.oid FROM pg_namespace n WHERE n.nspname IN ({schemas}))
               OR c.oid IN (SELECT to_regclass(t.name) FROM unnest(ARRAY[{tables}]) AS t (name)))
          AND NOT c.relispartition
    LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %I', found, {text});
    END LOOP;
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I', (
        SELECT c.relnamespace::regnamespace FROM pg_class c WHERE c.oid = to_regclass('event_log')), {text});
END
$$;
{grants.replace("{role}", name)}"""


def apply(
    connection: psycopg.Connection[tuple[object, ...]],
    roles: Sequence[str] = ROLES,
    prefix: str = DEFAULT_PREFIX,
) -> None:
    """Make the roles that are missing and give all of them their rights, in one transaction.

    Raises NoSuchRole, and RolesRefused when the server does not let us, or is not migrated.
    """
    scripts = [script(role, prefix) for role in roles]
    try:
        with connection.transaction():
            for one in scripts:
                connection.execute(one.encode())  # several statements at once, without parameters
    except psycopg.errors.InsufficientPrivilege as error:
        raise RolesRefused(
            f"The server refuses ({_first_line(error)}): run it as the owner of the CRM's tables and of our "
            "schemas who may also make roles, or give `rajada roles` to somebody who is."
        ) from error
    except (
        psycopg.errors.UndefinedTable,
        psycopg.errors.InvalidSchemaName,
        psycopg.errors.UndefinedFunction,
    ) as error:
        raise RolesRefused(
            f"Something is not there yet ({_first_line(error)}): `rajada migrate` first."
        ) from error


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
