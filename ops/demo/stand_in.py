"""The stand-in engine of the demo's stack, spoken to over HTTP as a person would with curl."""

from __future__ import annotations

from typing import Final
from urllib.parse import urljoin

import httpx
import msgspec

from ops.engine.scenario import Scenario
from ops.errors import Unreachable
from ops.stand_in import DEFAULT

_ANSWER_S: Final = 5.0


class StandIn:
    """Tells the engine how to treat whom, and asks it what it did. Every method raises Unreachable."""

    def __init__(self, url: str) -> None:
        """`url` is where turns are POSTed to."""
        self.url = url

    def treat(self, scenario: Scenario, who: str = DEFAULT) -> None:
        """Treat a contact (its id), or everybody else, so from now on."""
        self._ask("PUT", f"/scenarios/{who}", msgspec.json.encode(scenario))

    def effects(self) -> dict[str, int]:
        """Idempotency key, which is a job's id → how often that turn was really answered."""
        return msgspec.json.decode(self._ask("GET", "/effects"), type=dict[str, int])

    def _ask(self, method: str, path: str, content: bytes | None = None) -> bytes:
        try:
            with httpx.Client(trust_env=False, timeout=_ANSWER_S) as client:
                answer = client.request(method, urljoin(self.url, path), content=content)
                answer.raise_for_status()
                return answer.content
        except httpx.HTTPError as error:
            raise Unreachable(
                f"The demo's stand-in engine at {self.url} does not answer ({error}). Look at engine.log in "
                "the demo's logs."
            ) from error
