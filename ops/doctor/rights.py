"""Whether the roles by which processes reach Postgres have the rights that their files grant (db/roles)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from db.queries import load
from db.replication import Connection
from db.roles import DEFAULT_PREFIX, ROLES, grants_of
from db.roles.rights import Right, rights_in
from ops.doctor.findings import Verdict, fail, ok


def rights(connection: Connection, prefix: str = DEFAULT_PREFIX) -> Verdict:
    """Of those of our roles that are there; `prefix` is what their names begin with."""
    there = {
        str(name)
        for (name,) in connection.execute(
            "SELECT rolname FROM pg_roles WHERE rolname = ANY (%s)", [[f"{prefix}{role}" for role in ROLES]]
        )
    }
    missing = {
        role: _missing(connection, f"{prefix}{role}", rights_in(grants_of(role)))
        for role in ROLES
        if f"{prefix}{role}" in there
    }
    return rights_verdict(missing)


def _missing(connection: Connection, role: str, wanted: Sequence[Right]) -> list[Right]:
    rows = connection.execute(
        load("doctor_rights"),
        {
            "role": role,
            "kinds": [one.kind for one in wanted],
            "names": [one.name for one in wanted],
            "privileges": [one.privilege for one in wanted],
            "columns": [one.column for one in wanted],
        },
    ).fetchall()
    lacking = {(str(kind), str(name), str(privilege), str(column)) for kind, name, privilege, column in rows}
    return [one for one in wanted if tuple(one) in lacking]


def rights_verdict(missing: Mapping[str, Sequence[Right]]) -> Verdict:
    """What it means; `missing`: by role, of those that are there."""
    if not missing:
        return ok("no roles of `rajada roles` here: processes have the rights of their DATABASE_URL")
    lacking = {role: rights for role, rights in missing.items() if rights}
    if not lacking:
        return ok(f"{len(missing)} roles have what their processes need")
    told = []
    for role, rights in lacking.items():
        first = rights[0]
        column = f" ({first.column})" if first.column else ""
        more = f" and {len(rights) - 1} more" if len(rights) > 1 else ""
        told.append(f"{role} lacks {first.privilege}{column} on {first.name}{more}")
    return fail("; ".join(told), "as the tables' owner, `rajada roles --apply`, after each `rajada migrate`")
