"""The client of a schema registry that speaks Confluent's API: Confluent's, Apicurio's, Karapace's.

It is asked once for each schema; what it said is kept, also in a file beside the process' data, so that a
process goes on, and starts again, while the registry is away. Only `rajada schemas register` writes to it.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

import httpx
import msgspec
import structlog

from schemas.history import fingerprint, versions
from schemas.topic_names import CONTROL, GROUP_LINKS, JOBS, OUTCOMES, SOURCE
from settings import RajadaError, Settings

log = structlog.get_logger(__name__)

TOPICS: Final[Mapping[str, tuple[str, ...]]] = {
    "Job": (JOBS,),
    "Outcome": (OUTCOMES,),
    "Command": (CONTROL,),
    "DispatchRequested": (SOURCE, GROUP_LINKS),
}
"""Record → the topics whose values it is; each has a subject of its own, named after it."""
COMPATIBILITY: Final = "BACKWARD_TRANSITIVE"
"""As `schemas.evolution` asks for: the newest version reads what any older one wrote."""
ANSWER_S: Final = 2.0
"""How long one answer may take: a worker waits for it between two heartbeats."""
AWAY_S: Final = 10.0
"""A registry that gave no answer isn't asked for schemas again for so long."""
REFUSED_S: Final = 1.0
"""The same after an id that it doesn't know: bytes of somebody else name any number of them."""


class RegistryAway(RajadaError):
    """The registry gave no answer, or none that can be used."""


class NotRegistered(RajadaError):
    """The registry doesn't know a schema of ours, or an id that a record names."""


class Incompatible(RajadaError):
    """The registry refused a schema, since what older ones wrote could not be read with it."""


class Known(msgspec.Struct):
    """What a registry has said so far; the file of it."""

    url: str
    ids: dict[str, int] = {}
    """Subject and fingerprint of a schema of ours → its id."""
    schemas: dict[int, str] = {}
    """Id → schema, as JSON text."""


Answer = TypeVar("Answer")


class _Id(msgspec.Struct):
    id: int


class _Schema(msgspec.Struct, rename="camel"):
    schema: str
    schema_type: str | None = None


class _Version(msgspec.Struct):
    id: int
    schema: str


class _Verdict(msgspec.Struct):
    is_compatible: bool
    messages: list[str] | None = None
    """What Confluent's says is wrong."""
    reason: str | None = None
    """What Apicurio says is wrong."""


class _Level(msgspec.Struct, rename="camel"):
    compatibility_level: str | None = None


class _Trouble(msgspec.Struct):
    message: str = ""


def registry_of(settings: Settings) -> SchemaRegistry | None:
    """The registry that the settings name; None without SCHEMA_REGISTRY_URL."""
    if settings.schema_registry_url is None:
        return None
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    if settings.ca_file is not None:
        context.load_verify_locations(settings.ca_file)
    login = None
    if settings.schema_registry_username is not None:
        password = settings.schema_registry_password
        login = (settings.schema_registry_username, password.get_secret_value() if password else "")
    return SchemaRegistry(
        settings.schema_registry_url,
        settings.topic,
        login=login,
        trusted=context,
        kept_in=settings.home / "schema-registry.json",
    )


class SchemaRegistry:
    """One registry, as one process knows it."""

    def __init__(
        self,
        url: str,
        topic: Callable[[str], str] = str,
        *,
        login: tuple[str, str] | None = None,
        trusted: ssl.SSLContext | bool = True,
        kept_in: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`topic` gives a topic's full name in this installation; `kept_in`: the file of what is known."""
        self.url = url.rstrip("/")
        self._topic = topic
        self._kept_in = kept_in
        self._clock = clock
        self._not_before = 0.0
        self._client = httpx.Client(
            base_url=self.url, auth=login, verify=trusted, timeout=ANSWER_S, trust_env=False
        )
        self.known = _read(kept_in, self.url)

    # -- what the codec asks (schemas.framing.Ids)
    def id_of(self, record: str) -> int:
        """The id of a record's newest version, asked now; what was known only where no answer comes.

        Raises NotRegistered, RegistryAway.
        """
        subject = self.subjects_of(record)[0]
        newest = versions(record)[-1].fingerprint
        name = f"{subject} {newest.hex()}"
        try:
            found = self.find(subject, newest)
        except RegistryAway as away:
            known = self.known.ids.get(name)
            if known is None:
                raise
            log.warning("schema_registry_away", used_from_file=subject, error=str(away))
            return known
        if found is None:
            raise NotRegistered(
                f"{self.url} has no schema of {record}, version {versions(record)[-1].number}, under "
                f"{subject}: run `rajada schemas register` first (docs/schemas.md)."
            )
        if self.known.ids.get(name, found) != found:
            self.known.schemas.clear()  # another registry answers at this address: its ids are others
        self.known.ids[name] = found
        self._keep()
        return found

    def schema_of(self, schema_id: int) -> str:
        """The schema with this id, as JSON text; raises NotRegistered, RegistryAway.

        Called in the middle of a batch, so it doesn't wait for a registry that was away a moment ago.
        """
        known = self.known.schemas.get(schema_id)
        if known is not None:
            return known
        if self._clock() < self._not_before:
            raise RegistryAway(f"{self.url} had no answer a moment ago; it is asked again soon")
        try:
            answer = self._ask("GET", f"/schemas/ids/{schema_id}", _Schema)
        except RegistryAway:
            self._not_before = self._clock() + AWAY_S
            raise
        if answer is None or (answer.schema_type or "AVRO") != "AVRO":
            self._not_before = self._clock() + REFUSED_S
            raise NotRegistered(f"{self.url} has no Avro schema with the id {schema_id}")
        self.known.schemas[schema_id] = answer.schema
        self._keep()
        return answer.schema

    # -- what `rajada schemas` asks
    def subjects_of(self, record: str) -> tuple[str, ...]:
        """The subjects under which a record's schema stands: one a topic, by its full name."""
        return tuple(f"{self._topic(topic)}-value" for topic in TOPICS[record])

    def find(self, subject: str, wanted: bytes) -> int | None:
        """The id of the schema with this fingerprint under a subject, whatever its words and blanks are."""
        under = f"/subjects/{quote(subject)}/versions"
        for number in sorted(self._ask("GET", under, list[int]) or (), reverse=True):
            version = self._ask("GET", f"{under}/{number}", _Version)
            if version is not None and _fingerprint(version.schema) == wanted:
                return version.id
        return None

    def problems(self, subject: str, schema: str) -> list[str]:
        """Why the registry would refuse a schema under a subject; empty when it would not."""
        path = f"/compatibility/subjects/{quote(subject)}/versions?verbose=true"
        verdict = self._ask("POST", path, _Verdict, {"schema": schema})
        if verdict is None or verdict.is_compatible:
            return []
        return verdict.messages or [verdict.reason or "incompatible"]

    def register(self, subject: str, schema: str) -> int:
        """Put a schema under a subject; gives its id. Raises Incompatible, RegistryAway."""
        made = self._ask("POST", f"/subjects/{quote(subject)}/versions", _Id, {"schema": schema})
        if made is None:
            raise RegistryAway(f"{self.url} has no subjects: correct SCHEMA_REGISTRY_URL.")
        return made.id

    def demand(self, subject: str) -> None:
        """Let the registry refuse what could not read what older versions wrote; raises RegistryAway."""
        self._ask("PUT", f"/config/{quote(subject)}", dict[str, object], {"compatibility": COMPATIBILITY})

    def demanded(self, subject: str) -> str | None:
        """Which compatibility a subject asks for; None: the registry's own."""
        level = self._ask("GET", f"/config/{quote(subject)}", _Level)
        return None if level is None else level.compatibility_level

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def _ask(
        self, method: str, path: str, answer: type[Answer], body: Mapping[str, str] | None = None
    ) -> Answer | None:
        """What it answers; None: it knows no such thing. Raises Incompatible, RegistryAway."""
        try:
            response = self._client.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise RegistryAway(
                f"{self.url} gives no answer ({type(error).__name__}): start it, or correct "
                "SCHEMA_REGISTRY_URL."
            ) from error
        status = response.status_code
        if status == 404:
            return None
        if status in (401, 403):
            raise RegistryAway(
                f"{self.url} refuses us ({status}): set SCHEMA_REGISTRY_USERNAME and _PASSWORD."
            )
        try:
            if status in (409, 422):
                raise Incompatible(msgspec.json.decode(response.content, type=_Trouble).message)
            if response.is_success:
                return msgspec.json.decode(response.content, type=answer)
        except msgspec.DecodeError as error:
            raise RegistryAway(
                f"{self.url} does not speak Confluent's API ({error}): SCHEMA_REGISTRY_URL must name "
                "its root (Apicurio's is /apis/ccompat/v7)."
            ) from error
        raise RegistryAway(f"{self.url} answers {status} to {method} {path}: look at its log.")

    def _keep(self) -> None:
        if self._kept_in is None:
            return
        draft = self._kept_in.with_suffix(".new")
        try:
            self._kept_in.parent.mkdir(parents=True, exist_ok=True)
            draft.write_bytes(msgspec.json.encode(self.known))
            draft.replace(self._kept_in)
        except OSError as error:  # it only helps a start without the registry
            log.info("schema_ids_not_kept", error=str(error))


def _read(file: Path | None, url: str) -> Known:
    """What the file says of this registry; nothing if it is another's, or no such file."""
    try:
        known = msgspec.json.decode(file.read_bytes(), type=Known) if file is not None else Known(url)
    except (OSError, msgspec.DecodeError):
        return Known(url)
    return known if known.url == url else Known(url)


def _fingerprint(schema: str) -> bytes | None:
    try:
        return fingerprint(schema)
    except Exception:  # whatever the library raises at what is no Avro schema
        return None
