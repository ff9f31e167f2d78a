"""Tokens, numbers and group links, as commands read and change them. Orders go through `ops.orders`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID, uuid4

from db.queries import load
from db.runs import Connection, connect
from db.sealing import Seals, reseal_numbers
from db.tokens import Token, new_token
from ops.asking import asking
from ops.dlq.desk import operator
from ops.endpoints import bootstrap_of, database_of
from ops.errors import NotFound, OpsError
from ops.orders import Orders, Refused
from settings import Settings
from streams.identifiers import canonical_row_id

PAGE: Final = 500
WANTING: Final = ("no_credentials", "credentials_refused")
"""Codes of holds that end when an organization gets a number."""
_NUMBER: Final = re.compile(r"[0-9]{1,32}")
_SECRET: Final = re.compile(r"[!-~]{1,4096}")


class WrongValue(OpsError):
    """An id, a number or a token that can't be one; the message names it."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A token as people see it."""

    id: str
    organization_id: UUID
    name: str
    made_by: str | None
    made_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class Link:
    """A group link in a list."""

    id: UUID
    organization_id: UUID
    enrolment_id: str
    flow: str
    status: str
    attempts: int
    max_attempts: int
    available_at: datetime | None
    last_error: str | None
    updated_at: datetime


@contextmanager
def opened(url: str) -> Iterator[Connection]:
    """A connection; what the database says is told as what to do. Raises OpsError."""
    with asking(url), connect(url, "group-links") as connection:
        yield connection


def uuid_of(text: str, what: str) -> UUID:
    """An id that was typed. Raises WrongValue."""
    canonical = canonical_row_id(text.strip())
    if canonical is None:
        raise WrongValue(f"{text!r} is no id of {what}: it must be a UUID.")
    return UUID(canonical)


# -- tokens


def add_token(connection: Connection, organization: str, name: str) -> Token:
    """A new token of an organization. Raises NotFound, WrongValue."""
    token = new_token()
    values = {
        "id": token.id,
        "organization_id": uuid_of(organization, "an organization"),
        "name": name,
        "secret_sha256": token.digest,
        "made_by": operator(),
    }
    if connection.execute(load("tokens_add"), values).fetchone() is None:
        raise NotFound(f"There is no organization {organization}.")
    return token


def tokens(connection: Connection, organization: str | None, *, revoked: bool) -> list[KnownToken]:
    """The tokens, newest first. Raises WrongValue."""
    of = uuid_of(organization, "an organization") if organization is not None else None
    rows = connection.execute(load("tokens_list"), {"organization_id": of, "revoked": revoked}).fetchall()
    return [KnownToken(*row) for row in rows]  # type: ignore[arg-type]  # the file says which columns


def revoke_token(connection: Connection, token_id: str) -> None:
    """End a token. Raises NotFound."""
    values = {"id": token_id, "revoked_by": operator()}
    if connection.execute(load("tokens_revoke"), values).fetchone() is None:
        raise NotFound(f"There is no token {token_id}; `rajada tokens ls --all` shows those there are.")


# -- numbers


def set_number(
    connection: Connection, seals: Seals, organization: str, phone_number_id: str, token: str
) -> None:
    """Set with which number an organization sends; no message tells the secret. It is stored sealed.

    Raises NotFound, WrongValue, NoSecretKey.
    """
    if not _NUMBER.fullmatch(phone_number_id):
        raise WrongValue(f"{phone_number_id!r} is no phone number id: it has digits alone.")
    if not _SECRET.fullmatch(token):
        raise WrongValue("That is no access token: it is empty, or holds blanks.")
    values = {
        "organization_id": uuid_of(organization, "an organization"),
        "phone_number_id": phone_number_id,
        "access_token": seals.seal(token),
        "set_by": operator(),
    }
    if connection.execute(load("whatsapp_number_set"), values).fetchone() is None:
        raise NotFound(f"There is no organization {organization}.")


def reseal(connection: Connection, seals: Seals) -> tuple[int, int]:
    """Seal all access tokens with the first key: how many were, how many no key opens. Raises NoSecretKey."""
    return reseal_numbers(connection, seals)


def numbers(connection: Connection) -> Sequence[tuple[object, ...]]:
    """Organization, phone number id, who set it, when."""
    return connection.execute(load("whatsapp_numbers")).fetchall()


def drop_number(connection: Connection, organization: str) -> None:
    """Forget an organization's number. Raises NotFound, WrongValue."""
    values = {"organization_id": uuid_of(organization, "an organization")}
    if connection.execute(load("whatsapp_number_drop"), values).fetchone() is None:
        raise NotFound(f"{organization} has no number of its own; `rajada whatsapp ls` shows who has.")


# -- group links


def links(connection: Connection, organization: str | None, statuses: Sequence[str], most: int) -> list[Link]:
    """Group links, those that changed last first. Raises WrongValue."""
    values = {
        "organization_id": uuid_of(organization, "an organization") if organization is not None else None,
        "statuses": list(statuses) or None,
        "most": most,
    }
    rows = connection.execute(load("group_links_list"), values).fetchall()
    return [Link(*row) for row in rows]  # type: ignore[arg-type]  # the file says which columns


def counts(connection: Connection, organization: str | None) -> dict[str, int]:
    """State → how many group links are in it."""
    of = uuid_of(organization, "an organization") if organization is not None else None
    rows = connection.execute(load("group_links_counts"), {"organization_id": of}).fetchall()
    return {str(status): int(str(links)) for status, links in rows}


def shown(connection: Connection, job: str) -> dict[str, object]:
    """One group link, by the names of its columns; `told` is what was last told of it. Raises NotFound."""
    values = {"id": uuid_of(job, "a group link"), "organization_id": None}
    cursor = connection.execute(load("group_link_show"), values)
    row = cursor.fetchone()
    if row is None:
        raise NotFound(f"There is no group link {job}; `rajada group-links ls` shows those there are.")
    return dict(zip(_SHOWN, row, strict=True))


_SHOWN: Final = (
    *("id", "organization", "enrolment", "flow", "phone", "template", "language", "status", "held"),
    *("attempts", "max_attempts", "available_at", "provider_message_id", "last_error", "created_at"),
    *("updated_at", "told"),
)


def held(connection: Connection, organization: str | None, codes: Sequence[str]) -> Iterator[UUID]:
    """Group links that are held, for one of these codes if any are named."""
    of = uuid_of(organization, "an organization") if organization is not None else None
    after = UUID(int=0)
    while True:
        values = {"organization_id": of, "after": after, "page": PAGE}
        rows = connection.execute(load("group_links_held"), values).fetchall()
        if not rows:
            return
        for job_id, _, _, told in rows:
            why = str(told or "").removeprefix("held:").partition(":")[0]
            if not codes or why in codes:
                yield UUID(str(job_id))
        after = UUID(str(rows[-1][0]))


def release_all(
    connection: Connection, settings: Settings, organization: str | None, codes: Sequence[str]
) -> int:
    """Order the release of those that are held; returns how many. Raises OpsError when Kafka is needed and
    not there."""
    orders: Orders | None = None
    released = 0
    for job_id in list(held(connection, organization, codes)):
        orders = orders or Orders(settings, bootstrap_of(settings), database_of(settings))
        try:
            orders.to_job(connection, "release", str(job_id), str(uuid4()), "group links were let go")
        except (Refused, NotFound):
            continue  # it ended meanwhile
        released += 1
    return released
