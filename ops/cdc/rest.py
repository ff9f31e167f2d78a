"""Kafka Connect's REST interface, as far as it is needed here."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Final, Literal, Self

import httpx

from ops.errors import NotYet, OpsError, Unreachable

_TIMEOUT_S: Final = 30.0
"""A worker that just joins its group holds a request until it has."""
_POLL_S: Final = 0.1
_CONFLICT: Final = 409
_NOT_FOUND: Final = 404

State = Literal["RUNNING", "PAUSED", "STOPPED", "FAILED", "UNASSIGNED", "RESTARTING", "ABSENT"]


class ConnectAway(Unreachable):
    """Kafka Connect does not answer; the message says where it was looked for."""


class ConnectRefused(OpsError):
    """Kafka Connect refused a request; the message has its reason."""

    exit_code: ClassVar[int] = 3


@dataclass(frozen=True, slots=True)
class Condition:
    """How a connector fares: the worst of its own state and its task's, and why it failed."""

    state: str
    reason: str = ""
    """The first line of a failed part's trace, without what a row might have left in it."""
    tasks: int = 0

    @property
    def running(self) -> bool:
        """Whether it does its work, as far as Kafka Connect knows."""
        return self.state == "RUNNING" and self.tasks > 0


class Connect:
    """Requests to one installation of Kafka Connect; a context that holds its connection.

    Every method raises ConnectAway when nobody answers and ConnectRefused for what is not taken.
    """

    def __init__(self, url: str, timeout_s: float = _TIMEOUT_S) -> None:
        self.url = url.rstrip("/")
        # no proxy of the environment's: this is a neighbour
        self._client = httpx.Client(base_url=self.url, timeout=timeout_s, trust_env=False)

    def wait_up(self, timeout_s: float) -> None:
        """Until its workers take requests. Raises ConnectAway."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self.names()
            except (ConnectAway, ConnectRefused):
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)
            else:
                return

    def names(self) -> list[str]:
        """Names of all connectors, in order."""
        return sorted(str(name) for name in _list(self._ask("GET", "/connectors")))

    def condition(self, name: str) -> Condition:
        """How a connector fares; state ABSENT when there is none."""
        told = self._ask("GET", f"/connectors/{name}/status", absent=True)
        if told is None:
            return Condition("ABSENT")
        own = _dict(_dict(told).get("connector"))
        tasks = [_dict(task) for task in _list(_dict(told).get("tasks"))]
        for part in (own, *tasks):
            if part.get("state") == "FAILED":
                return Condition("FAILED", _reason(str(part.get("trace", ""))), len(tasks))
        states = {str(part.get("state")) for part in (own, *tasks)}
        worst = next(
            (state for state in ("UNASSIGNED", "RESTARTING", "PAUSED", "STOPPED") if state in states), ""
        )
        return Condition(worst or str(own.get("state")), "", len(tasks))

    def config(self, name: str) -> dict[str, str] | None:
        """A connector's configuration; None when there is no such connector."""
        told = self._ask("GET", f"/connectors/{name}/config", absent=True)
        return None if told is None else {str(key): str(value) for key, value in _dict(told).items()}

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Make a connector, or change it."""
        self._ask("PUT", f"/connectors/{name}/config", dict(config))

    def stop(self, name: str) -> None:
        """Stop a connector for good, so that its offsets can be changed; its configuration stays."""
        self._ask("PUT", f"/connectors/{name}/stop")

    def resume(self, name: str) -> None:
        """Let a stopped or paused connector run."""
        self._ask("PUT", f"/connectors/{name}/resume")

    def restart_failed(self, name: str) -> None:
        """Start what failed of a connector anew."""
        self._ask("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")

    def remove(self, name: str) -> bool:
        """Delete a connector; returns whether there was one. Its offsets stay."""
        return self._ask("DELETE", f"/connectors/{name}", absent=True) is not None

    def position(self, name: str) -> int | None:
        """The WAL position up to which Kafka has everything, as a number; None = none was noted yet."""
        told = self._ask("GET", f"/connectors/{name}/offsets", absent=True)
        offsets = _list(_dict(told).get("offsets")) if told is not None else []
        found = [_dict(_dict(one).get("offset")) for one in offsets]
        known = [one.get("lsn_commit") or one.get("lsn") for one in found]
        return max((int(str(lsn)) for lsn in known if lsn is not None), default=None)

    def forget_position(self, name: str) -> None:
        """Delete the offsets of a stopped connector."""
        self._ask("DELETE", f"/connectors/{name}/offsets")

    def wait_for(self, name: str, state: State, timeout_s: float) -> None:
        """Until a connector has come into a state. Raises NotYet, with the state it is in and why."""
        deadline = time.monotonic() + timeout_s
        while True:
            now = self.condition(name)
            if now.state == state and (state != "RUNNING" or now.running):
                return
            if time.monotonic() > deadline:
                raise NotYet(
                    f"{name} is {now.state} after {timeout_s:.0f} s, not {state}"
                    f"{': ' + now.reason if now.reason else ''}. `rajada connector status` tells more."
                )
            time.sleep(_POLL_S)

    def wait_position(self, name: str, timeout_s: float) -> None:
        """Until a connector has noted a position. Raises NotYet."""
        deadline = time.monotonic() + timeout_s
        while self.position(name) is None:
            if time.monotonic() > deadline:
                raise NotYet(
                    f"{name} runs, but has noted no position after {timeout_s:.0f} s. `rajada connector "
                    "status` tells whether it has failed since."
                )
            time.sleep(_POLL_S)

    def _ask(self, method: str, path: str, body: object = None, *, absent: bool = False) -> object:
        """The answer's content ({} when it has none); None for what is not there, with `absent`."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                answer = self._client.request(method, path, json=body)
            except httpx.HTTPError as error:
                raise ConnectAway(
                    f"Kafka Connect does not answer at {self.url} ({type(error).__name__}). Start it, e.g. "
                    "with `rajada up --with-debezium`, or set RAJADA_CONNECT_URL."
                ) from error
            # while its workers agree on who does what they refuse everything
            if answer.status_code == _CONFLICT and time.monotonic() < deadline:
                time.sleep(_POLL_S)
                continue
            break
        if answer.status_code == _NOT_FOUND and absent:
            return None
        if not answer.is_success:
            raise ConnectRefused(f"Kafka Connect refused {method} {path}: {_message(answer)}")
        return answer.json() if answer.content else {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()


def _message(answer: httpx.Response) -> str:
    try:
        told = _dict(answer.json()).get("message")
    except ValueError:
        told = None
    return str(told or f"status {answer.status_code}")[:1000]


def _reason(trace: str) -> str:
    """The deepest cause of a Java trace, in one line; a cause's own words may quote a row after a newline."""
    lines = [line.strip() for line in trace.splitlines() if not line.startswith(("\t", " "))]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or [""])[-1][:300]


def _dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
