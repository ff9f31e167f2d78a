"""A shadow looks when a window opens and when it closes, and the decision carries both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ops.shadow.ours import window_of
from schemas.records import EventOutcome, Outcome
from streams.decide import Decision, Emptied, Enqueue, Fail, Stop, WaitForMedia
from streams.facts import ReadFailure
from streams.first_looks import FirstLooks, WithoutOutcomes
from streams.question import AskedEvent, DatabaseAway, Facts, Question
from tests.unit.asking import FINE


def question(event: str = "e1") -> Question:
    return Question("o", "v", "c", "s", (AskedEvent(event, "m", 1),), 10, 10)


class Scripted:
    """Answers as it is told, and remembers what it was asked."""

    def __init__(self, *answers: Decision | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[Question] = []

    async def decide(self, questions: Sequence[Question]) -> list[Decision]:
        self.asked += questions
        answers = [self.answers.pop(0) for _ in questions]
        for one in answers:
            if isinstance(one, Exception):
                raise one
        return [one for one in answers if not isinstance(one, Exception)]


async def decided(*answers: Decision | Exception) -> Decision:
    looks = FirstLooks(Scripted(*answers))
    looks.ask(question())
    await looks.look()
    (told,) = await looks.decide([question()])
    return told


async def test_the_decision_tells_what_it_would_have_been_at_first() -> None:
    assert (await decided(Enqueue("e1"), Stop("x"))).warnings == ("first_look:job",)
    assert (await decided(Stop("x"), Enqueue("e1", warnings=("w",)))).warnings == ("w", "first_look:x")


async def test_at_first_neither_a_newer_message_nor_a_file_that_is_read_counts() -> None:
    scripted = Scripted(WaitForMedia(100), Enqueue("e1"))
    looks = FirstLooks(scripted)
    looks.ask(question())
    await looks.look()
    assert scripted.asked[0].again, "stop 5 is asked when the window closes"
    (told,) = await looks.decide([question()])
    assert told.warnings == ("first_look:job",)


async def test_a_window_that_waited_for_a_file_says_so_once_it_is_decided() -> None:
    looks = FirstLooks(Scripted(WaitForMedia(100), Enqueue("e1"), Enqueue("e1")))
    (waits,) = await looks.decide([question()])
    assert isinstance(waits, WaitForMedia) and not waits.warnings
    (told,) = await looks.decide([question()])
    assert told.warnings == ("waited_for_media",)
    (another,) = await looks.decide([question()])
    assert not another.warnings, "it is forgotten with the decision"


async def test_without_a_first_look_the_decision_is_as_it_is() -> None:
    assert (await decided(DatabaseAway("away"), Stop("x"))).warnings == ()
    assert (await decided(Fail("e", "m"), Stop("x"))).warnings == ()
    assert (await decided(Enqueue("e1"), Emptied())).warnings == ()


async def test_a_shadow_has_no_stop_0() -> None:
    known = replace(FINE, known={"e1": "job"})

    class Reader:
        async def read(self, questions: Sequence[Question]) -> list[Facts | ReadFailure]:
            return [known, ReadFailure("sqlstate_x", "m", True)]

    read, failed = await WithoutOutcomes(Reader()).read([question(), question("e2")])
    assert isinstance(read, Facts) and read.known == {} and isinstance(failed, ReadFailure)


def test_the_report_reads_it_from_the_outcome() -> None:
    told = Outcome(
        organization_id="o",
        contact_id="c",
        at_ms=50,
        stage="decide",
        events=(EventOutcome(event_id="e1", seq=1),),
        status="done",
        outcome="x",
        facts='{"conversation_id":"v","opened_ms":1,"deadline_ms":9,'
        '"warnings":["waited_for_media","first_look:job"]}',
    )
    ours = window_of(told)
    assert ours is not None
    assert (ours.first_look, ours.waited, ours.opened_ms, ours.decided_ms) == ("job", True, 1, 50)
    pending = Outcome(organization_id="o", at_ms=1, stage="decide", events=told.events, status="pending")
    assert window_of(pending) is None
