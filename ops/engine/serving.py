"""The stand-in engine beside tests and the demo, in a thread."""

from __future__ import annotations

from pathlib import Path

from ops.engine.app import Engine
from ops.engine.journal import Asked, Journal
from ops.engine.scenario import Scenario
from ops.stand_in import DEFAULT, Beside

TURNS = "/turns"
"""Where turns are POSTed to; the stand-in takes them anywhere."""


class EngineBeside(Beside[Engine]):
    """An engine in a thread of this process: `with EngineBeside() as engine: … engine.url …`.

    Args:
        default: how everybody is treated that has no scenario of their own.
        honours_keys, token: see `ops.engine.app.Engine`.
        log: where requests are written as JSON lines; None: nowhere.
    """

    name = "engine"
    path = TURNS

    def __init__(
        self,
        default: Scenario | None = None,
        *,
        honours_keys: bool = True,
        token: str | None = None,
        log: Path | None = None,
    ) -> None:
        super().__init__()
        self._default, self._honours_keys, self._token, self._log = default, honours_keys, token, log

    def _make(self) -> Engine:
        return Engine(Journal(self._log), self._default, honours_keys=self._honours_keys, token=self._token)

    def _close(self, stand_in: Engine) -> None:
        stand_in.journal.close()

    def treat(self, scenario: Scenario, who: str = DEFAULT) -> None:
        """Treat a job or a contact (its id), or everybody else, so from now on."""
        self._running.scenarios.set(who, scenario)

    def requests(self, *, job_id: str | None = None, contact_id: str | None = None) -> list[Asked]:
        """Requests so far, in the order they came."""
        return self._running.journal.requests(job_id=job_id, contact_id=contact_id)

    def effects(self) -> dict[str, int]:
        """Idempotency key → how often its work was done."""
        return dict(self._running.journal.effects)

    def forget(self) -> None:
        """Forget requests, keys and scenarios; everybody is treated well."""
        self._running.forget()
        self._running.scenarios.set(DEFAULT, Scenario())
