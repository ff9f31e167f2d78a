"""Asks the provider whether an instance is well, before it is condemned (spec/reconciler.md, step 1).

`GET` to the URL of the settings. 2xx with `{"healthy": true}` or `false` is an answer, and so is 404 or 410:
the provider has no such instance. Anything else is none: then the age decides. A provider that is away is not
asked again and again: after some silences in a row the rest of the run does without it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self, cast
from urllib.parse import quote

import httpx

from settings import WrongSetting
from streams.handlers.guarded import GuardedTransport
from streams.handlers.http import trusted
from streams.handlers.names import Names
from streams.handlers.outgoing import Outgoing
from streams.reconcile.instances import Instance, Verdict

KEPT_BYTES: Final = 64 * 1024
SILENCES: Final = 16
"""After so many calls in a row without an answer the provider counts as away."""
GONE: Final = frozenset({404, 410})


@dataclass(frozen=True, slots=True)
class Provider:
    """How the provider is asked.

    Args:
        url: with `{id}` or `{provider_ref}` in it, perhaps `{organization_id}`.
        token: bearer token, or None.
        timeout_s: for one call, all in all.
        concurrency: calls at a time.
        ca_file: certificate authorities that are trusted besides the usual ones.
        outgoing: where calls may go.

    Raises:
        WrongSetting: the URL names no instance.
    """

    url: str
    token: str | None = None
    timeout_s: float = 5.0
    concurrency: int = 16
    ca_file: Path | None = None
    outgoing: Outgoing = field(default_factory=Outgoing)

    def __post_init__(self) -> None:
        if "{id}" not in self.url and "{provider_ref}" not in self.url:
            raise WrongSetting(
                "WHATSAPP_PROBE_URL: it must hold {id} or {provider_ref}, where an instance's name is put in."
            )

    def url_of(self, instance: Instance) -> str:
        """Where this instance is asked about."""
        values = {
            "{id}": instance.id,
            "{provider_ref}": instance.provider_ref or instance.id,
            "{organization_id}": instance.organization_id,
        }
        url = self.url
        for place, value in values.items():
            url = url.replace(place, quote(value, safe=""))
        return url


class Probe:
    """The calls of one run; use it as a context, in one event loop."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._headers = {"User-Agent": "rajada", "Accept": "application/json", "Accept-Encoding": "identity"}
        if provider.token:
            self._headers["Authorization"] = f"Bearer {provider.token}"
        self._names = Names()
        # the transport alone: no cookies, no redirects, no proxy of the environment
        self._transport = GuardedTransport(
            trusted(provider.ca_file),
            httpx.Limits(max_connections=None, max_keepalive_connections=None),
            provider.outgoing,
            self._names,
        )
        self._free = asyncio.Semaphore(provider.concurrency)
        self._silences = 0
        self.answers = 0
        """Calls that were answered."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._names.close()
        await self._transport.aclose()

    @property
    def away(self) -> bool:
        """Whether the provider counts as away for the rest of this run."""
        return self._silences >= SILENCES

    async def ask(self, instances: Sequence[Instance]) -> dict[str, Verdict]:
        """Id → what the provider says; never raises but CancelledError."""
        verdicts = await asyncio.gather(*(self._ask(instance) for instance in instances))
        return {instance.id: verdict for instance, verdict in zip(instances, verdicts, strict=True)}

    async def _ask(self, instance: Instance) -> Verdict:
        async with self._free:
            if self.away:
                return "unreachable"
            try:
                async with asyncio.timeout(self._provider.timeout_s):
                    verdict = await self._call(self._provider.url_of(instance))
            except Exception:  # whatever it was: there is no answer
                verdict = "unreachable"
            if verdict == "unreachable":
                self._silences += 1
            else:
                self._silences = 0
                self.answers += 1
            return verdict

    async def _call(self, url: str) -> Verdict:
        phase = dict.fromkeys(("connect", "read", "write"), self._provider.timeout_s)
        request = httpx.Request(
            "GET", url, headers=self._headers, extensions={"timeout": {**phase, "pool": None}}
        )
        response = await self._transport.handle_async_request(request)
        try:
            if response.status_code in GONE:
                return "unhealthy"
            if not 200 <= response.status_code < 300:
                return "unreachable"
            body = bytearray()
            async with aclosing(cast("AsyncGenerator[bytes]", response.aiter_raw())) as chunks:
                async for chunk in chunks:
                    body += chunk
                    if len(body) > KEPT_BYTES:
                        return "unreachable"
        finally:
            await response.aclose()
        return _verdict(bytes(body))


def _verdict(body: bytes) -> Verdict:
    told = json.loads(body)
    healthy = told.get("healthy") if isinstance(told, dict) else None
    if healthy is True:
        return "healthy"
    return "unhealthy" if healthy is False else "unreachable"
