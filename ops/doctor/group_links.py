"""Whether group links can be asked for and sent: the HTTP API, its tokens, WhatsApp (docs/group-links.md)."""

from __future__ import annotations

from typing import Final

import httpx
import msgspec
from pydantic import SecretStr

from db.queries import load
from db.replication import Connection
from db.sealing import SealedElsewhere, Seals, is_sealed
from ops.doctor.findings import Check, Verdict, fail, ok, warn
from ops.endpoints import web_of, whatsapp_settings
from ops.numbers import several
from settings import Settings
from streams.handlers.http import Limits, trusted
from streams.handlers.http_faults import no_reply
from streams.handlers.whatsapp import Number
from streams.whatsapp_numbers import default_number

NAMES: Final = ("http api", "tokens", "whatsapp", "sealed tokens", "held links")
LOOK_S: Final = 5.0
MOST_ASKED: Final = 5
"""Numbers that the provider is asked about."""
_LIMITS: Final = Limits(LOOK_S, LOOK_S, LOOK_S)
UNUSED: Final = "not used: nobody holds a token. `rajada tokens add ORGANIZATION` makes one"
SET_A_NUMBER: Final = (
    "`rajada whatsapp set ORGANIZATION NUMBER` for one, WHATSAPP_PHONE_NUMBER_ID and "
    "WHATSAPP_ACCESS_TOKEN for all"
)
NO_QUEUE: Final = "not used: the database has no group_link_dispatch_queue"


def group_link_checks(connection: Connection, settings: Settings) -> dict[str, Check]:
    """The checks, by name; where nobody uses group links they are well, and say so."""
    told = whatsapp_settings(settings)

    def used() -> Verdict | None:
        there = connection.execute("SELECT to_regclass('group_link_dispatch_queue') IS NOT NULL").fetchone()
        if there != (True,):
            return ok(NO_QUEUE)
        return None if _asked(connection)[0] else ok(UNUSED)

    checks: dict[str, Check] = {
        NAMES[0]: lambda: used() or http_api(web_of(settings)),
        NAMES[1]: lambda: used() or tokens(*_asked(connection), default=default_number(told) is not None),
        NAMES[2]: lambda: used() or _whatsapp(connection, told),
        NAMES[3]: lambda: sealed(_stored(connection), Seals.of(told)),
        NAMES[4]: lambda: used() or held(_held(connection)),
    }
    return checks


def http_api(url: str) -> Verdict:
    """Whether the service answers, and can do its work."""
    try:
        with httpx.Client(trust_env=False, timeout=LOOK_S) as client:
            answer = client.get(f"{url}/readyz")
    except httpx.HTTPError:
        return warn(
            f"nobody answers at {url}, and somebody holds a token for it",
            "start it: `rajada web` or `rajada up`; if it runs elsewhere, set RAJADA_WEB_HOST and "
            "RAJADA_WEB_PORT",
        )
    if answer.status_code == 200:
        return ok(f"ready at {url}")
    try:
        why = str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return warn(
            f"somebody else answers at {url} ({answer.status_code})", "set RAJADA_WEB_PORT to a free one"
        )
    return fail(f"it is not ready at {url}: {why}", "see the message; `rajada logs web` tells more")


def tokens(count: int, without_number: int, *, default: bool) -> Verdict:
    """Whether whoever may ask for group links can have them sent."""
    found = f"{several(count, 'token')} can be used"
    if without_number and not default:
        return warn(
            f"{found}, but {several(without_number, 'organization')} with one can send with no WhatsApp "
            "number: their links are held",
            SET_A_NUMBER,
        )
    return ok(found)


def sealed(stored: list[tuple[str, str]], seals: Seals) -> Verdict:
    """Whether the access tokens in the database are sealed, and can be opened. `stored`: number, token."""
    plain = sum(not is_sealed(token) for _, token in stored)
    shut = sum(_opened(token, seals) is None for _, token in stored)
    if shut:
        return fail(
            f"{several(shut, 'WhatsApp number')} of organizations can't be used: RAJADA_SECRET_KEYS lacks "
            "the key that sealed the access token",
            "set RAJADA_SECRET_KEYS to all keys that are in use, or set these numbers again: `rajada "
            "whatsapp set`",
        )
    if plain:
        return warn(
            f"{several(plain, 'access token')} of WhatsApp numbers stand in the database in plain text",
            "`rajada whatsapp key` makes a key; set it as RAJADA_SECRET_KEYS everywhere, then `rajada "
            "whatsapp reseal`",
        )
    return ok(f"{several(len(stored), 'organization')} with a WhatsApp number of their own")


def held(count: int) -> Verdict:
    """Whether group links wait for a person."""
    if not count:
        return ok("none")
    return warn(
        f"{several(count, 'group link')} held, nothing is sent",
        "`rajada group-links ls --status held` shows them; send them with `rajada group-links retry`",
    )


def _whatsapp(connection: Connection, settings: Settings) -> list[Verdict]:
    """The provider's word about the settings' number and some of the organizations' own."""
    seals, default = Seals.of(settings), default_number(settings)
    numbers = [default] if default is not None else []
    for phone_number_id, stored in _stored(connection):
        token = _opened(stored, seals)
        if token is not None:
            numbers.append(Number(phone_number_id, token))
    if not numbers:
        return [
            warn(
                "there is no number to send with: links are held",
                SET_A_NUMBER,
            )
        ]
    return [ask(number, settings) for number in numbers[:MOST_ASKED]]


def ask(number: Number, settings: Settings) -> Verdict:
    """What the provider says of a number; a GET, by which nothing is sent."""
    base = f"{settings.whatsapp_url.rstrip('/')}/{settings.whatsapp_version}"
    headers = {"Authorization": f"Bearer {number.access_token.get_secret_value()}"}
    try:
        with httpx.Client(verify=trusted(settings.ca_file), trust_env=False, timeout=LOOK_S) as client:
            answer = client.get(f"{base}/{number.phone_number_id}?fields=id", headers=headers)
    except httpx.HTTPError as error:
        return fail(
            f"no answer from {settings.whatsapp_url}: {no_reply(error, _LIMITS, sent=True).reason}",
            "correct WHATSAPP_API_URL, or see to the way there; links wait and are tried again meanwhile",
        )
    return provider_verdict(number.phone_number_id, answer.status_code, answer.content)


def provider_verdict(number: str, status: int, body: bytes) -> Verdict:
    """What the provider's answer about a number (its id) means."""
    if status == 200:
        return ok(f"the provider knows number {number} and its token")
    code = _code(body)
    found = f"about number {number} the provider says {status}" + (
        f", error {code}" if code is not None else ""
    )
    if status in (401, 403) or code in (0, 10, 190):
        return fail(
            found,
            "its access token is no good: set a new one, WHATSAPP_ACCESS_TOKEN or `rajada whatsapp set`",
        )
    if status == 429 or status >= 500:
        return warn(found, "it is in trouble, or wants to be asked less; links wait and are tried again")
    return fail(found, "correct the number's id, WHATSAPP_API_URL or WHATSAPP_API_VERSION")


class _Error(msgspec.Struct):
    code: int | None = None


class _Answer(msgspec.Struct):
    error: _Error = msgspec.field(default_factory=_Error)


def _code(body: bytes) -> int | None:
    """The provider's own number of an error, if it names one."""
    try:
        return msgspec.json.decode(body, type=_Answer).error.code
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _asked(connection: Connection) -> tuple[int, int]:
    """Tokens that can be used, and organizations that have one but no WhatsApp number of their own."""
    row = connection.execute(load("doctor_group_links")).fetchone()
    return (int(str(row[0])), int(str(row[1]))) if row is not None else (0, 0)


def _stored(connection: Connection) -> list[tuple[str, str]]:
    rows = connection.execute(load("whatsapp_number_secrets")).fetchall()
    return [(str(phone_number_id), str(stored)) for _, phone_number_id, stored in rows]


def _held(connection: Connection) -> int:
    rows = connection.execute(load("group_links_counts"), {"organization_id": None}).fetchall()
    return sum(int(str(links)) for status, links in rows if status == "held")


def _opened(stored: str, seals: Seals) -> SecretStr | None:
    try:
        return seals.open(stored)
    except SealedElsewhere:
        return None
