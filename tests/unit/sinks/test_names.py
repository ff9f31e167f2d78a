"""The sink can't import the stages, so what both call by name is compared here."""

from sinks import apply, outcomes
from streams import closing, topics


def test_the_sink_reads_and_writes_the_topics_of_the_table() -> None:
    assert outcomes.OUTCOMES == topics.OUTCOMES
    assert outcomes.DEAD_LETTERS == topics.DEAD


def test_deduplicated_is_called_alike() -> None:
    assert apply.DEDUPLICATED == closing.DEDUPLICATED
