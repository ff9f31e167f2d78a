"""What becomes of a stuck WhatsApp instance (pure).

Rules: spec/reconciler.md, step 1. What is not understood is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Verdict = Literal["healthy", "unhealthy", "unreachable"]
"""What the provider says of an instance, or that it says nothing."""

PROVISIONING: Final = "provisioning"
DEPROVISIONING: Final = "deprovisioning"
CONNECTED: Final = "connected"
PROVISIONING_FAILED: Final = "provisioning_failed"
ARCHIVED: Final = "archived"


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance that we have a lease on, as it was when we got it."""

    id: str
    organization_id: str
    provider_ref: str | None
    """The provider's own name for it, for the probe; None: the id is."""
    state: str
    token: int
    """Fencing token of the lease."""


@dataclass(frozen=True, slots=True)
class Move:
    """Into which state, and why."""

    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Not touched, and why."""

    reason: str


def is_worth_asking(instance: Instance) -> bool:
    """Whether the provider's word could save it: `deprovisioning` always ends archived."""
    return instance.state == PROVISIONING


def decide(
    instance: Instance, verdict: Verdict | None, *, when_away: Literal["age", "leave"] = "age"
) -> Move | Leave:
    """What becomes of an instance that has been in its state for longer than its limit.

    Args:
        instance: as it was reserved.
        verdict: the provider's; None: it was not asked.
        when_away: without an answer its age alone decides, or it is left for a later run.
    """
    if instance.state == DEPROVISIONING:
        return Move(ARCHIVED, "deprovisioning_took_too_long")
    if instance.state != PROVISIONING:
        return Leave("unknown_state")
    match verdict:
        case "healthy":
            return Move(CONNECTED, "provider_says_healthy")
        case "unhealthy":
            return Move(PROVISIONING_FAILED, "provider_says_unhealthy")
        case "unreachable" if when_away == "leave":
            return Leave("provider_unreachable")
        case _:
            return Move(PROVISIONING_FAILED, "provisioning_took_too_long")


def asked_at_once(batch: int, *, concurrency: int, timeout_s: float, lease_s: float) -> int:
    """How many instances may be reserved when the provider is asked about each.

    Even if every answer takes its full time, half of the lease is left to write what was decided.
    """
    in_time = concurrency * int(lease_s / 2 / timeout_s)
    return max(1, min(batch, in_time))
