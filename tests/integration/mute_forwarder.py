"""A forwarder whose client hands out nothing of what the group gives it first: `python -m …`.

So does librdkafka after an answer for its offsets that it doesn't know what to do with (its issue 5586).
"""

import sys
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from ops.cli import main
from streams.delays import process
from streams.delays.intake import GroupIntake
from streams.delays.records import End, Record


class MuteIntake(GroupIntake):
    """Its partitions are silent until somebody assigns them anew."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._mute: set[tuple[str | None, int | None]] = set()
        super().__init__(*arguments, **named)

    def _on_assign(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        super()._on_assign(consumer, given)
        self._mute |= {(one.topic, one.partition) for one in given}

    def _rouse(self) -> None:
        before_s = self._rouse_at_s
        super()._rouse()
        if self._rouse_at_s != before_s:
            self._mute.clear()

    def _read(self, message: Message) -> Record | End | None:
        if (message.topic(), message.partition()) in self._mute:
            return None
        return super()._read(message)


if __name__ == "__main__":
    process.GroupIntake = MuteIntake
    sys.argv[1:] = ["delays"]
    main()
