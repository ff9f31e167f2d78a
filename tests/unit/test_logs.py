"""What a log line never holds, in either form and whoever writes it; and what it is bound to."""

from __future__ import annotations

import asyncio
import json
import logging
import logging.config
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import structlog
from structlog.contextvars import get_contextvars

from logs import configure_logging
from schemas.records import Job
from settings import Settings
from streams.calls import Calls
from streams.handlers.answers import Answer, Retry
from tests.unit.builders import uid

PHONE, EMAIL, TEXT, TOKEN = "+5511987654321", "ana@example.com", "my test was positive", "s3cr3t-t0ken"
PEOPLE = (PHONE, PHONE[1:], EMAIL, TEXT, TOKEN)
Form = Literal["json", "console"]


@pytest.fixture(params=["json", "console"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Sends the log into a file; gives what is in it."""
    form: Form = request.param
    before, configured = logging.getLogger().handlers[:], structlog.get_config()
    configure_logging(Settings(log_format=form, log_level="DEBUG"))
    # a logger that were kept as it is now would write there for ever, and `capture_logs` would not see it
    structlog.configure(cache_logger_on_first_use=False)
    file = (tmp_path / "log").open("w+")
    (handler,) = (one for one in logging.getLogger().handlers if isinstance(one, logging.StreamHandler))
    handler.setStream(file)

    def read() -> str:
        file.flush()
        return (tmp_path / "log").read_text()

    yield read
    logging.getLogger().handlers[:] = before
    structlog.configure(**configured)
    file.close()


def fail() -> None:
    payload = {"phone": PHONE, "text": TEXT}  # a local variable, as a handler has
    raise ValueError(f"Failing row contains ({len(payload)}, {PHONE}, {EMAIL}, password={TOKEN})")


def test_a_traceback_shows_where_it_was_and_nobody(written: Callable[[], str]) -> None:
    for log in (structlog.stdlib.get_logger("ours"), logging.getLogger("somebody.else")):
        try:
            fail()
        except ValueError:
            log.exception("defect")
    text = written()
    assert text.count("in fail") == 2 and "ValueError: Failing row contains" in text
    assert not [one for one in PEOPLE if one in text]


def test_a_traceback_that_is_text_already_is_looked_through(written: Callable[[], str]) -> None:
    structlog.stdlib.get_logger("ours").critical(
        "ending", exception=f"Trace\n  File x\nValueError: {PHONE}\n"
    )
    assert "ValueError: ***" in written() and PHONE not in written()


class Failing:
    kind = "inbound_turn"
    timeout_s = 1.0

    def __init__(self) -> None:
        self.bound: dict[str, Any] = {}

    async def run(self, job: Job, attempt: int, headers: object) -> Answer:
        self.bound = get_contextvars()
        raise ValueError(f"of {job.contact_id}, {job.payload}")


@pytest.mark.parametrize(
    ("contact", "shown"), [(uid("contact"), uid("contact")), (PHONE, None), (None, None)]
)
def test_a_handlers_lines_are_bound_to_their_job_and_to_no_phone(
    written: Callable[[], str], contact: str | None, shown: str | None
) -> None:
    job = Job(
        id=uid("job"), organization_id=uid("org"), contact_id=contact, kind="inbound_turn", seq=1, events=(),
        source_event_id=uid("event"), created_at_ms=0, run_after_ms=0, payload=PHONE, attempt=2,
    )  # fmt: skip
    handler = Failing()

    async def run() -> list[Answer | None]:
        calls = Calls({handler.kind: handler}, lambda: None)
        calls.begin(f"{uid('org')}:{PHONE}".encode(), 3, job, [])
        await calls.settle(5)
        return [one.answer for one in calls.answers]

    assert asyncio.run(run()) == [Retry("handler_failed: ValueError")]
    assert handler.bound == {"job_id": job.id, "attempt": 2, "partition": 3, "contact_id": shown}
    assert not get_contextvars(), "the next task starts anew"
    text = written()
    assert PHONE not in text and "handler_failed" in text
    if text.startswith("{"):
        line = json.loads(text.splitlines()[0])
        assert {name: line[name] for name in handler.bound} == handler.bound
