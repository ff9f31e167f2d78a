"""Our schemas and the registry: what is there, what would be refused, and putting there what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from schemas.evolution import problems as evolution_problems
from schemas.history import CURRENT_FILES, Version, current_text, versions
from schemas.registry import COMPATIBILITY, Incompatible, SchemaRegistry

BAD: Final = 10
"""Exit code when a schema is missing or refused."""


class Standing(msgspec.Struct, frozen=True):
    """How one version of a record stands under one subject."""

    subject: str
    record: str
    version: int
    id: int | None
    """Its id; None: it is not there."""
    made: bool = False
    """It was registered just now."""
    problem: str = ""
    """What is wrong and what to do; empty when nothing is."""


def check(registry: SchemaRegistry) -> list[Standing]:
    """Every committed version under every subject; changes nothing. Raises RegistryAway."""
    found = []
    for subject, version in _all(registry):
        schema_id = registry.find(subject, version.fingerprint)
        found.append(
            Standing(
                subject, version.record, version.number, schema_id, problem=_wrong(registry, subject, version)
            )
            if schema_id is None
            else Standing(subject, version.record, version.number, schema_id)
        )
    return found


def _wrong(registry: SchemaRegistry, subject: str, version: Version) -> str:
    """Why a version that is not there is not: it would be refused, or nobody has registered it."""
    refused = registry.problems(subject, version.text)
    if refused:
        return f"the registry would refuse it: {'; '.join(refused)}"
    return "not registered: run `rajada schemas register`"


def register(registry: SchemaRegistry) -> list[Standing]:
    """Put there what is missing, oldest first, so that the registry checks each against those before.

    What it refuses is told, and the rest goes on. Raises RegistryAway.
    """
    done: list[Standing] = []
    for subject, version in _all(registry):
        schema_id = registry.find(subject, version.fingerprint)
        made, problem = False, ""
        if schema_id is None:
            try:
                schema_id, made = registry.register(subject, version.text), True
            except Incompatible as error:
                problem = f"refused: {error}"
        if registry.demanded(subject) != COMPATIBILITY and schema_id is not None:
            registry.demand(subject)
        done.append(Standing(subject, version.record, version.number, schema_id, made, problem))
    return done


def our_own_problems() -> list[str]:
    """What is wrong with the committed versions by themselves (schemas.evolution)."""
    return [
        problem
        for record in CURRENT_FILES
        for problem in evolution_problems(record, current_text(record), versions(record))
    ]


def _all(registry: SchemaRegistry) -> Iterator[tuple[str, Version]]:
    for record in CURRENT_FILES:
        for subject in registry.subjects_of(record):
            for version in versions(record):
                yield subject, version
