"""The sink can't import the stages, so what both call by name is compared here."""

from sinks import apply
from streams import freezing


def test_deduplicated_is_called_alike() -> None:
    assert apply.DEDUPLICATED == freezing.DEDUPLICATED
