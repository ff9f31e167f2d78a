"""The board: what is known of every message so far, and what became of it and of its job (pure).

Bubbles of a chat are gathered on a card as they are written; when an outcome tells which events were decided
together, the card becomes what the pipeline made of them. So the board never knows better than the system.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, assert_never

from ops.demo.fates import Fate
from ops.demo.happenings import (
    Broke,
    Buried,
    Decided,
    FateState,
    Finished,
    Happening,
    JobBuried,
    MediaRead,
    Moved,
    Noted,
    Resent,
    RowSeen,
    SentNoise,
    Wrote,
)
from ops.demo.steps import Chat

State = Literal["open", "retry", "job", "stop", "dead"]
JOB = "job"


@dataclass(slots=True)
class Card:
    """Messages of one chat that belong together, as far as is known. Times: seconds, monotonic."""

    chat: Chat
    messages: list[Wrote]
    state: State = "open"
    outcome: str = ""
    """`job`, the reason of a stop, or the error."""
    fate: Fate | None = None
    """Of its job, if there is one."""
    attempts: int = 0
    """Of its decision."""
    decided_at: float | None = None
    row_at: float | None = None

    @property
    def deadline(self) -> float:
        """When the window of its first message ends."""
        return self.messages[0].at + self.messages[0].window_ms / 1000

    @property
    def beyond_ms(self) -> float | None:
        """From the first message's commit to the job's row, less the window; ms."""
        return None if self.row_at is None else (self.row_at - self.deadline) * 1000

    @property
    def ended(self) -> bool:
        """Nothing more happens to its messages."""
        return self.fate.ended if self.fate is not None else self.state in ("stop", "dead")

    @property
    def with_media(self) -> bool:
        """Whether a photo or audio is among them, for whose reading a window waits."""
        return any(message.kind != "text" for message in self.messages)


@dataclass(slots=True)
class Board:
    """Everything that was told, in order."""

    cards: list[Card] = field(default_factory=list)
    messages: int = 0
    resent: int = 0
    noise: set[tuple[int, int]] = field(default_factory=set)
    buried: dict[tuple[int, int], Buried] = field(default_factory=dict)
    """Dead letters of events by the partition and offset of their originals: one that comes twice counts
    once."""
    buried_jobs: dict[str, JobBuried] = field(default_factory=dict)
    """Those of jobs, by the job."""
    notes: list[Noted] = field(default_factory=list)
    finished: bool = False
    """All that is played was written."""
    interrupted: bool = False
    """Somebody stopped the run: what has no end yet was on its way."""
    error: Exception | None = None
    _unread: set[str] = field(default_factory=set)
    _by_event: dict[str, Wrote] = field(default_factory=dict)
    _by_job: dict[str, Card] = field(default_factory=dict)
    _rows: dict[str, float] = field(default_factory=dict)
    _fates: dict[str, Fate] = field(default_factory=dict)

    def tell(self, happening: Happening) -> Card | None:
        """Take in what happened; returns the card that it changed, if one."""
        match happening:
            case Wrote():
                return self._wrote(happening)
            case MediaRead(event_id=event_id):
                self._unread.discard(event_id)
            case Resent():
                self.resent += 1
            case SentNoise(partition=partition, offset=offset):
                self.noise.add((partition, offset))
            case Noted():
                self.notes.append(happening)
            case Decided():
                return self._decided(happening)
            case RowSeen(at=at, job_id=job_id):
                self._rows.setdefault(job_id, at)
                card = self._by_job.get(job_id)
                if card is not None and card.row_at is None:
                    card.row_at = at
                    return card
            case Moved(job_id=job_id):
                fate = self._fates.setdefault(job_id, Fate(job_id))
                return self._by_job.get(job_id) if fate.move(happening) else None
            case Buried(origin=origin):
                self.buried.setdefault(origin, happening)
            case JobBuried(job_id=job_id):
                self.buried_jobs.setdefault(job_id, happening)
            case Finished():
                self.finished = True
            case Broke(error=error):
                self.error = error
            case _ as never:
                assert_never(never)
        return None

    def waits_for_media(self, card: Card, now: float) -> bool:
        """Whether a card is past its window because something on it is still being read."""
        return (
            card.state == "open"
            and now > card.deadline
            and any(message.event_id in self._unread for message in card.messages)
        )

    @property
    def pending(self) -> int:
        """Messages of which nothing final is known."""
        return sum(len(card.messages) for card in self.cards if not card.ended)

    @property
    def settled(self) -> bool:
        """Whether everything that was sent is accounted for, as far as the topics and rows tell."""
        return (
            self.finished
            and not self.pending
            and all(card.row_at is not None for card in self.jobs)
            and self.noise <= self.buried.keys()
            and self._dead <= {letter.event_id for letter in self.buried.values()}
            and self._dead_jobs <= self.buried_jobs.keys()
        )

    @property
    def _dead(self) -> set[str]:
        """Events that died; each has a dead letter to come."""
        return {message.event_id for card in self.cards if card.state == "dead" for message in card.messages}

    @property
    def _dead_jobs(self) -> set[str]:
        return {fate.job_id for fate in self.fates if fate.state == "dead"}

    @property
    def jobs(self) -> list[Card]:
        """Cards that became a job."""
        return [card for card in self.cards if card.state == "job"]

    @property
    def fates(self) -> list[Fate]:
        """What became of the jobs."""
        return [card.fate for card in self.cards if card.fate is not None]

    @property
    def in_state(self) -> Counter[FateState]:
        """State → number of jobs in it."""
        return Counter(fate.state for fate in self.fates)

    @property
    def letters(self) -> Counter[str]:
        """Reason → number of dead letters of this run."""
        ours = [letter.reason for one, letter in self.buried_jobs.items() if one in self._by_job]
        return Counter([*(letter.reason for letter in self.buried.values()), *ours])

    def counted(self, state: State) -> Counter[str]:
        """Reason → number of cards in a state."""
        return Counter(card.outcome for card in self.cards if card.state == state)

    def messages_in(self, state: State) -> Counter[str]:
        """Reason → number of messages on cards in a state."""
        found: Counter[str] = Counter()
        for card in self.cards:
            if card.state == state:
                found[card.outcome] += len(card.messages)
        return found

    def latencies_ms(self) -> list[float]:
        """Commit to row beyond the window, of jobs whose window waited for nothing but its end; sorted."""
        return sorted(
            card.beyond_ms for card in self.jobs if card.beyond_ms is not None and not card.with_media
        )

    # -- what happened

    def _wrote(self, wrote: Wrote) -> Card:
        self.messages += 1
        self._by_event[wrote.event_id] = wrote
        if wrote.kind != "text":
            self._unread.add(wrote.event_id)
        for card in reversed(self.cards):
            if card.chat is wrote.chat and card.state == "open":
                if wrote.at <= card.deadline or self.waits_for_media(card, wrote.at):
                    card.messages.append(wrote)
                    return card
                break
        card = Card(wrote.chat, [wrote])
        self.cards.append(card)
        return card

    def _decided(self, decided: Decided) -> Card | None:
        """Put the events of an outcome onto one card; those that the guess had put beside them move off."""
        mine = [self._by_event[one] for one in decided.event_ids if one in self._by_event]
        if not mine:
            return None  # of an earlier run in the same topics
        card = self._card_of(mine)
        if card.state not in ("open", "retry"):
            return None  # told again
        card.attempts = decided.attempts
        card.outcome = decided.outcome or decided.last_error or ""
        if decided.status == "pending":
            card.state = "retry"
            return card
        card.decided_at = decided.at
        if decided.status == "dead":
            card.state = "dead"
        elif decided.outcome == JOB and decided.job_id is not None:
            card.state = "job"
            card.fate = self._fates.setdefault(decided.job_id, Fate(decided.job_id))
            self._by_job[decided.job_id] = card
            card.row_at = self._rows.get(decided.job_id)
        else:
            card.state = "stop"
        return card

    def _card_of(self, messages: list[Wrote]) -> Card:
        """The card with exactly these messages, made by moving what belongs elsewhere."""
        wanted = {message.event_id for message in messages}
        home = next(card for card in self.cards if messages[0] in card.messages)
        if home.state not in ("open", "retry"):
            return home
        others = [message for message in home.messages if message.event_id not in wanted]
        for card in self.cards:
            if card is not home:
                card.messages = [one for one in card.messages if one.event_id not in wanted]
        home.messages = sorted(messages, key=lambda message: message.at)
        if others:
            self.cards.insert(self.cards.index(home) + 1, Card(home.chat, others))
        self.cards = [card for card in self.cards if card.messages]
        return home


def percentile(ranked: list[float], share: float) -> float | None:
    """Nearest rank of a sorted list; None of an empty one."""
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))] if ranked else None
