"""Is this worker still the owner? The lease answers from memory, the fence asks the group coordinator.

The lease is a guess that is right as long as clocks run: a member whose heartbeat was answered less than
a session timeout ago can't have been replaced. The fence is proof: an answer to a request that carries our
member id and generation and was sent after the write became durable. Whoever owns the partition later was
assigned after that answer, and so reads the write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Protocol

from aiokafka import errors
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from .errors import FenceRefused

TRUST = 0.7
"""Share of the session timeout for which an answered heartbeat is trusted."""
BACKOFF = 0.1
"""Seconds between two questions to a coordinator that is moving or away."""

_MEMBER = (errors.NoError.errno, errors.RebalanceInProgressError.errno)
"""Answers to a heartbeat that are given only after the member id and the generation were checked."""
_STRANGER = (
    errors.UnknownMemberIdError.errno,
    errors.IllegalGenerationError.errno,
)
_AWAY = (
    errors.GroupCoordinatorNotAvailableError.errno,
    errors.NotCoordinatorForGroupError.errno,
    errors.GroupLoadInProgressError.errno,
)


def confirms(error_code: int) -> bool:
    """Whether an answer to a heartbeat says that its member and its generation are the group's."""
    return error_code in _MEMBER


class Coordinator(Protocol):
    """What is used of aiokafka's `GroupCoordinator`."""

    group_id: str
    generation: int
    member_id: str

    def ensure_coordinator_known(self) -> Awaitable[None]:
        """Wait until the coordinating broker is known."""

    def coordinator_dead(self) -> None:
        """Look the coordinating broker up again."""

    async def _send_req(self, request: Any) -> Any: ...


class Lease:
    """Remembers when the last answered sign of life was sent. Two threads use it: plain attributes only."""

    def __init__(self, session_timeout: float) -> None:
        self.duration = session_timeout * TRUST
        """Seconds for which an answered heartbeat is trusted."""
        self._sent_at = self._not_before = float("-inf")

    def renew(self, sent_at: float) -> None:
        """A heartbeat sent at `sent_at` (monotonic seconds) was answered: the session began no earlier."""
        if sent_at >= self._not_before:
            self._sent_at = max(self._sent_at, sent_at)

    def drop(self) -> None:
        """We left the group or were thrown out; answers to older requests say nothing any more."""
        self._not_before = monotonic()
        self._sent_at = float("-inf")

    def heard(self, error_code: int, sent_at: float) -> None:
        """A heartbeat sent at `sent_at` (monotonic seconds) was answered with this code of Kafka's."""
        if confirms(error_code):
            self.renew(sent_at)
        elif error_code in _STRANGER:
            self.drop()

    def silence(self) -> float:
        """Seconds since the last answered sign of life was sent."""
        return monotonic() - self._sent_at

    def held(self) -> bool:
        """Nobody else can own our partitions yet."""
        return self.silence() < self.duration


def watch(coordinator: Coordinator, lease: Lease, on_replaced: Callable[[], object] | None = None) -> None:
    """Let every request that this member sends to its coordinator keep the lease up to date.

    `on_replaced` is called when a static member learns that its name belongs to another process now. It
    must not join again: that would take the name back, and so on for ever.
    """
    send = coordinator._send_req
    was_member = False

    async def watched(request: Any) -> Any:
        """Send a request and learn from its answer."""
        nonlocal was_member
        if isinstance(request, LeaveGroupRequest):
            lease.drop()
        if isinstance(request, JoinGroupRequest) and was_member and not coordinator.member_id and on_replaced:
            on_replaced()
        sent_at = monotonic()
        response = await send(request)
        if isinstance(request, HeartbeatRequest):
            lease.heard(response.error_code, sent_at)
        elif isinstance(request, SyncGroupRequest) and response.error_code == errors.NoError.errno:
            was_member = True
            lease.renew(sent_at)  # the coordinator starts the session's clock anew when it answers
        return response

    coordinator._send_req = watched  # type: ignore[method-assign]  # aiokafka has no hook for heartbeats


async def confirm(coordinator: Coordinator, generation: int, timeout: float) -> None:
    """Return when the coordinator answered, without error, a heartbeat of `generation` sent after this call.

    A rebalance in progress is no error: the coordinator says so only to a member of the current generation,
    and hands its partitions out only after that member has rejoined or was thrown out.

    Raises FenceRefused when it doesn't know us, or when it could not be asked for `timeout` seconds.
    """
    deadline = monotonic() + timeout
    reason = "no answer"
    while (left := deadline - monotonic()) > 0:
        if coordinator.generation != generation:
            raise FenceRefused(f"generation {generation} has passed, now it is {coordinator.generation}")
        request = HeartbeatRequest(coordinator.group_id, generation, coordinator.member_id)
        try:
            async with asyncio.timeout(left):
                await coordinator.ensure_coordinator_known()
                response = await coordinator._send_req(request)
        except TimeoutError:
            break
        except errors.KafkaError as error:
            reason = repr(error)
        else:
            if confirms(response.error_code):
                return
            reason = errors.for_code(response.error_code).__name__
            if response.error_code not in _AWAY:
                raise FenceRefused(f"the coordinator refused generation {generation}: {reason}")
            coordinator.coordinator_dead()
        await asyncio.sleep(BACKOFF)
    raise FenceRefused(f"generation {generation} was not confirmed in {timeout:.1f} s: {reason}")
