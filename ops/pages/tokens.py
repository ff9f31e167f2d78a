"""Tokens of the live page, as commands make, list and revoke them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from db.queries import load
from db.runs import Connection
from db.tokens import Token, new_token
from ops.dlq.desk import operator
from ops.errors import NotFound
from ops.group_links.desk import uuid_of

Role = Literal["reader", "operator"]


@dataclass(frozen=True, slots=True)
class PageToken:
    """A token of the live page as people see it."""

    id: str
    name: str
    role: Role
    sees_phones: bool
    organization_id: UUID | None
    """None: of all organizations, and of what belongs to none."""
    made_by: str | None
    made_at: datetime
    revoked_at: datetime | None


def add(
    connection: Connection, name: str, role: Role, *, sees_phones: bool, organization: str | None
) -> Token:
    """A new token. Raises NotFound, WrongValue."""
    token = new_token()
    values = {
        "id": token.id,
        "name": name,
        "role": role,
        "sees_phones": sees_phones,
        "organization_id": uuid_of(organization, "an organization") if organization is not None else None,
        "secret_sha256": token.digest,
        "made_by": operator(),
    }
    if connection.execute(load("page_tokens_add"), values).fetchone() is None:
        raise NotFound(f"There is no organization {organization}.")
    return token


def tokens(connection: Connection, organization: str | None, *, revoked: bool) -> list[PageToken]:
    """The tokens, newest first. Raises WrongValue."""
    of = uuid_of(organization, "an organization") if organization is not None else None
    values = {"organization_id": of, "revoked": revoked}
    rows = connection.execute(load("page_tokens_list"), values).fetchall()
    return [PageToken(*row) for row in rows]  # type: ignore[arg-type]  # the file says which columns


def revoke(connection: Connection, token_id: str) -> None:
    """End a token, and with it all its sessions. Raises NotFound."""
    values = {"id": token_id, "revoked_by": operator()}
    if connection.execute(load("page_tokens_revoke"), values).fetchone() is None:
        raise NotFound(
            f"The live page has no token {token_id}; `rajada tokens page ls --all` shows those there are."
        )
