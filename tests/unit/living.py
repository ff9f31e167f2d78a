"""What drives a small world in skipped time: events are written, time passes, the worker works."""

from __future__ import annotations

from tests.unit.builders import event, row_bytes
from tests.unit.worlds import Record, Worker, World


def publish(
    world: World,
    name: str,
    *,
    contact: str = "ana",
    conversation: str = "c1",
    age_ms: int = 0,
    **columns: object,
) -> None:
    """Append an event to the log, written so long ago; `columns` are those of its `event_log` row."""
    one = event(name, contact=contact, conversation=conversation)
    payload = {
        "conversation_id": one.conversation_id,
        "contact_id": one.contact_id,
        "channel_session_id": one.session_id,
        "inbound_message_id": one.message_id,
    }
    value = row_bytes(name, **{"payload": payload, **columns})
    world.log.append(Record(one.key, value, len(world.log), world.now_ms - age_ms))


async def pass_time(world: World, worker: Worker, ms: int, step_ms: int = 1_000) -> None:
    """Let the worker do its work now and after every step, until so much time has passed."""
    await work(worker)
    for _ in range(0, ms, step_ms):
        world.now_ms += step_ms
        await work(worker)


async def work(worker: Worker) -> None:
    """Let the worker do all that there is to do now."""
    await worker.collect(1_000)
    await worker.commit()
    while await worker.flusher.step():
        pass
