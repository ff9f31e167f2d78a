"""The stages in skipped time, with decisions on a real database and the sink's real writer."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from db.pool import AsyncPool
from schemas.records import Outcome
from settings import Settings
from sinks.batch import Taken, batch_of
from sinks.writer import Writer
from streams.decide import Decision
from streams.decider import DatabaseDecider
from streams.facts import FactReader
from streams.question import Question
from tests.unit.worlds import Worker, World


class Life(Worker):
    """A worker that decides on the database as it is."""

    def __init__(self, world: World, pool: AsyncPool) -> None:
        super().__init__(world)
        self.decider = DatabaseDecider(FactReader(pool), Settings())

    async def decide(self, questions: Sequence[Question]) -> list[Decision]:
        return await self.decider.decide(questions)


def tell(writer: Writer, outcomes: Sequence[Outcome]) -> None:
    """Write these outcomes in one batch; every call is a topic of its own."""
    topic_id = uuid.uuid4().hex
    batch = [Taken(0, n, outcome) for n, outcome in enumerate(outcomes, 1)]
    writer.write(topic_id, batch_of(batch), writer.positions(topic_id, "t", [0]))
