"""Whether the schema registry, where one is in use, is there and knows our schemas (docs/schemas.md)."""

from __future__ import annotations

from ops.doctor.findings import Finding, Verdict, examine, fail, ok
from ops.registered import check
from schemas.registry import RegistryAway, registry_of
from settings import Settings


def registry_findings(settings: Settings) -> list[Finding]:
    """The registry, from this machine."""
    return examine("machine", {"registry": lambda: registry_verdict(settings)})


def registry_verdict(settings: Settings) -> Verdict:
    """Whether what writers and readers need of it is there."""
    registry = registry_of(settings)
    if registry is None:
        return ok("not used: records say by themselves which schema they have")
    try:
        standings = check(registry)
    except RegistryAway as error:
        return fail(str(error), "what is known goes on; new schemas can't be read until it is back")
    finally:
        registry.close()
    wrong = [one for one in standings if one.problem]
    if wrong:
        first = wrong[0]
        return fail(
            f"{len(wrong)} of {len(standings)} schemas are not as they must be: {first.subject}, "
            f"{first.record} {first.version}: {first.problem}",
            "run `rajada schemas register`; processes don't start without",
        )
    return ok(f"has our {len(standings)} schemas ({registry.url})")
