"""The handler of group links against a stand-in provider, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from ops.whatsapp.scenario import Scenario
from ops.whatsapp.serving import WhatsAppBeside
from schemas.records import Job
from settings import Settings
from streams.handlers.answers import Answer, Dead, Done, Hold, Retry
from streams.handlers.group_link_template import GroupLinkTemplate
from streams.handlers.http import HttpClient
from streams.handlers.whatsapp import Number, WhatsApp
from streams.whatsapp_numbers import NumberSealed, NumbersUnknown
from tests.unit.job_worlds import job_of

PHONE = "+5511988887777"
NUMBER = Number("1055", SecretStr("stand-in-token"))


class Numbers:
    """Gives these numbers, the last one for ever."""

    def __init__(self, *numbers: Number | NumbersUnknown | NumberSealed | None) -> None:
        self.numbers = list(numbers)

    async def of(self, organization_id: str, *, fresh: bool = False) -> Number | None:
        if fresh and len(self.numbers) > 1:
            del self.numbers[0]
        number = self.numbers[0]
        if isinstance(number, (NumbersUnknown, NumberSealed)):
            raise number
        return number


def link(**payload: str) -> Job:
    given = {
        "phone": PHONE, "student_name": "Ana Souza", "group_link": "https://chat.whatsapp.com/x",
        "template_name": "welcome_group", "template_language": "pt_BR", **payload,
    }  # fmt: skip
    return job_of(1, kind="group_link_template", contact_id=None, payload=json.dumps(given))


class Bench:
    """Runs the handler."""

    def __init__(self, client: HttpClient, url: str) -> None:
        self._client, self._url = client, url

    async def run(
        self, *numbers: Number | NumbersUnknown | NumberSealed | None, job: Job | None = None
    ) -> Answer:
        settings = Settings.model_validate({"whatsapp_url": self._url, "whatsapp_timeout_s": 1.0})
        handler = GroupLinkTemplate(WhatsApp(self._client, settings), Numbers(*(numbers or (NUMBER,))))
        return await handler.run(job or link(), 1, ())


@pytest.fixture
async def bench(whatsapp: WhatsAppBeside) -> AsyncIterator[Bench]:
    client = HttpClient()
    yield Bench(client, whatsapp.url)
    await client.close()


async def test_it_is_sent_with_the_providers_id_and_names_its_job(
    bench: Bench, whatsapp: WhatsAppBeside
) -> None:
    answer = await bench.run()
    assert isinstance(answer, Done) and answer.result is not None
    assert str(answer.result["provider_message_id"]).startswith("wamid.")
    (got,) = whatsapp.messages()
    assert (got.phone, got.template, got.opaque) == (PHONE, "welcome_group", link().id)


@pytest.mark.parametrize(
    ("scenario", "kind", "code", "taken"),
    [
        (Scenario(mode="error", code=131026), Dead, "whatsapp_131026", 0),
        (Scenario(mode="error", code=131000, status=500), Retry, "whatsapp_131000", 0),
        (Scenario(mode="error", code=130429, status=429), Retry, "whatsapp_130429", 0),
        (Scenario(mode="error", code=190, status=401), Hold, "credentials_refused", 0),
        (Scenario(mode="hang"), Hold, "unknown_outcome", 1),
        (Scenario(mode="drop"), Hold, "unknown_outcome", 1),
        (Scenario(mode="cut"), Hold, "unknown_outcome", 0),
        (Scenario(mode="gateway"), Hold, "unknown_outcome", 0),
    ],
)
async def test_what_goes_wrong(
    bench: Bench, whatsapp: WhatsAppBeside, scenario: Scenario, kind: type, code: str, taken: int
) -> None:
    whatsapp.treat(scenario)
    answer = await bench.run()
    assert isinstance(answer, kind) and isinstance(answer, (Dead, Retry, Hold))
    assert answer.code == code
    assert len(whatsapp.messages()) == 1, "never repeated by the handler"
    assert whatsapp.taken().get(PHONE, 0) == taken


async def test_a_provider_that_is_not_there_took_nothing(whatsapp: WhatsAppBeside) -> None:
    client = HttpClient()
    answer = await Bench(client, "http://127.0.0.1:1").run()
    await client.close()
    assert isinstance(answer, Retry) and answer.code == "connection_refused" and answer.spends


async def test_without_credentials_it_is_held_and_nothing_is_sent(
    bench: Bench, whatsapp: WhatsAppBeside
) -> None:
    answer = await bench.run(None)
    assert isinstance(answer, Hold) and answer.code == "no_credentials"
    answer = await bench.run(NumbersUnknown("Postgres is away."))
    assert isinstance(answer, Retry) and answer.code == "credentials_unreadable" and not answer.spends
    answer = await bench.run(NumberSealed("RAJADA_SECRET_KEYS lacks its key."))
    assert isinstance(answer, Hold) and answer.code == "no_credentials" and "SECRET_KEYS" in answer.reason
    assert whatsapp.messages() == []


async def test_a_token_that_was_replaced_meanwhile_is_used(bench: Bench, whatsapp: WhatsAppBeside) -> None:
    old = Number("1055", SecretStr("expired"))
    answer = await bench.run(old, NUMBER)
    assert isinstance(answer, Done)
    again = await bench.run(old, old)
    assert isinstance(again, Hold) and "expired" not in again.reason
    assert whatsapp.taken() == {PHONE: 1}


@pytest.mark.parametrize("payload", ["", "[]", "{}", '{"phone": 5}'])
async def test_a_payload_that_is_no_group_link_is_dead(bench: Bench, payload: str) -> None:
    answer = await bench.run(job=job_of(1, kind="group_link_template", payload=payload))
    assert isinstance(answer, Dead) and answer.code == "bad_payload"


async def test_a_numbers_rate_is_kept(bench: Bench, whatsapp: WhatsAppBeside) -> None:
    client = HttpClient()
    settings = Settings.model_validate({"whatsapp_url": whatsapp.url, "whatsapp_rate_per_s": 20})
    handler = GroupLinkTemplate(WhatsApp(client, settings, share=lambda: 0.5), Numbers(NUMBER))
    begun = time.monotonic()
    for _ in range(6):
        assert isinstance(await handler.run(link(), 1, ()), Done)
    assert time.monotonic() - begun >= 0.5, "10 a second"
    await client.close()
    assert len(whatsapp.messages()) == 6


async def test_whatever_the_number_of_workers_a_number_sends_no_faster_than_its_rate(
    whatsapp: WhatsAppBeside,
) -> None:
    """Each worker has the share of its partitions; the shares of all are the whole, whoever owns what."""
    client = HttpClient()
    settings = Settings.model_validate({"whatsapp_url": whatsapp.url, "whatsapp_rate_per_s": 40})
    owned = (1, 3, 4)  # of 8 partitions

    def worker_of(partitions: int) -> GroupLinkTemplate:
        return GroupLinkTemplate(WhatsApp(client, settings, share=lambda: partitions / 8), Numbers(NUMBER))

    workers = [worker_of(partitions) for partitions in owned]
    begun = time.monotonic()

    async def work(worker: GroupLinkTemplate, messages: int) -> None:
        for _ in range(messages):
            assert isinstance(await worker.run(link(), 1, ()), Done)

    await asyncio.gather(*(work(worker, 5 * part + 1) for worker, part in zip(workers, owned, strict=True)))
    took_s = time.monotonic() - begun
    await client.close()
    # a message each at once, then 40 more at 40 a second, each worker in its own share of the time
    assert len(whatsapp.messages()) == 43
    assert took_s >= 0.95
