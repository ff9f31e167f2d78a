"""Dead letters counted in groups, in one pass and in the memory of the groups alone (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Final, Literal, get_args

from ops.moments import local
from streams.letters import Letter

Field = Literal["reason", "kind", "organization", "stage", "day", "origin"]
FIELDS: Final[Sequence[Field]] = get_args(Field)
MOST_GROUPS: Final = 10_000
"""Groups that are told apart; what comes after them is counted together."""
MOST_ORGANIZATIONS: Final = 1_000
"""Organizations of a group that are told apart."""


@dataclass(slots=True)
class Group:
    """Letters that are alike in what they are grouped by."""

    values: tuple[str, ...]
    letters: int = 0
    closed: int = 0
    """Of them, those that were requeued or dropped."""
    oldest_ms: int = 0
    newest_ms: int = 0
    example: str = ""
    """The place of the newest."""
    organizations: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Groups:
    """All groups; `by` says what they are alike in."""

    by: Sequence[Field] = ("reason", "kind")
    zone: tzinfo | None = None
    """Of the days; None: the local one."""
    groups: dict[tuple[str, ...], Group] = field(default_factory=dict)

    def add(self, letter: Letter, *, closed: bool = False) -> None:
        """Count one letter."""
        values = tuple(self._value(letter, one) for one in self.by)
        group = self.groups.get(values)
        if group is None:
            if len(self.groups) >= MOST_GROUPS:
                values = ("…",) * len(self.by)
            group = self.groups.setdefault(values, Group(values, oldest_ms=letter.at_ms))
        group.letters += 1
        group.closed += closed
        group.oldest_ms = min(group.oldest_ms, letter.at_ms)
        if letter.at_ms >= group.newest_ms:
            group.newest_ms, group.example = letter.at_ms, str(letter.place)
        if letter.organization_id is not None and len(group.organizations) < MOST_ORGANIZATIONS:
            group.organizations.add(letter.organization_id)

    def sorted(self) -> list[Group]:
        """The groups, most letters first."""
        return sorted(self.groups.values(), key=lambda group: (-group.letters, group.values))

    @property
    def letters(self) -> int:
        """All letters."""
        return sum(group.letters for group in self.groups.values())

    def _value(self, letter: Letter, by: Field) -> str:
        match by:
            case "reason":
                return letter.reason
            case "kind":
                return letter.kind
            case "organization":
                return letter.organization_id or "unknown"
            case "stage":
                return letter.stage
            case "origin":
                return letter.origin or "unknown"
            case "day":
                return f"{local(letter.at_ms, self.zone):%Y-%m-%d}"


def fields_of(texts: Iterable[str]) -> tuple[Field, ...]:
    """What to group by, from texts such as `reason,kind`; raises ValueError that names what is known."""
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in FIELDS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is none of {', '.join(FIELDS)}")
    return tuple(one for one in FIELDS if one in names) or ("reason", "kind")
