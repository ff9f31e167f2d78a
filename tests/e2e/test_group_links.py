"""From an enrolment to a WhatsApp template: the whole way, with real processes and a stand-in provider."""

from __future__ import annotations

import os
import signal
import time

import pytest

from db.sealing import new_key
from ops.clinic import Connection
from ops.whatsapp.scenario import Scenario
from ops.whatsapp.serving import WhatsAppBeside
from tests.e2e.conftest import MakeProcesses
from tests.e2e.group_links import PROCESSES, School, settings
from tests.e2e.waiting import until, value


def school(processes: MakeProcesses, connection: Connection, whatsapp: WhatsAppBeside, **more: str) -> School:
    made = processes(**settings(whatsapp, **more))
    made.start(*PROCESSES)
    return School.found(connection, made)


def test_the_way_of_a_group_link(
    processes: MakeProcesses, connection: Connection, whatsapp: WhatsAppBeside
) -> None:
    """Sent with its id; later when asked; again after a failure; or failed, with a letter and an alert."""
    of = school(processes, connection, whatsapp, GROUP_LINK_RETRY_DELAY_MS="300")
    sent = of.enrol(1)
    later = of.enrol(2, delayMs=3_000)
    asked_at = time.time()
    again = of.enrol(3)
    whatsapp.treat(Scenario(mode="error", code=131000, status=500, times=2), again)
    never = "+5511900000004"
    whatsapp.treat(Scenario(mode="error", code=131026), never)
    of.enrol(4)
    spent = "+5511900000005"
    whatsapp.treat(Scenario(mode="error", code=1, status=500), spent)
    of.enrol(5, maxAttempts=2)
    settled = of.enrol(7, delayMs=5_000)
    reminder = of.client.post("/sendreminder", json=of.body(7, settled, {"settleJob": True})).json()
    assert reminder["jobSettled"] is True
    slow = "+5511900000006"
    whatsapp.treat(Scenario(mode="error", code=130429, status=429, times=1), slow)
    of.enrol(6)

    of.becomes(sent, "sent")
    status, attempts, message_id, error = of.row(sent)
    assert (status, attempts, error) == ("sent", 1, None) and str(message_id).startswith("wamid.")
    of.becomes(later, "sent")
    assert whatsapp.messages(later)[0].at_ms / 1_000 >= asked_at + 2.9
    of.becomes(again, "sent")
    assert of.row(again)[1] == 3 and len(whatsapp.messages(again)) == 3
    of.becomes(never, "failed")
    assert of.row(never)[1] == 1 and str(of.row(never)[3]).startswith("whatsapp_131026")
    of.becomes(spent, "failed")
    assert of.row(spent)[1] == 2 and len(whatsapp.messages(spent)) == 2
    until(lambda: of.alerts("job_dead") == [(2, "open")])
    of.becomes(slow, "sent")
    assert of.row(slow)[1] == 1, "a rate limit spends no attempt"
    of.becomes(settled, "sent")
    assert of.row(settled)[1:3] == (0, reminder["providerMessageId"])
    time.sleep(max(asked_at + 7.0 - time.time(), 0))
    assert whatsapp.taken() == dict.fromkeys((sent, later, again, slow, settled), 1), (
        "the job is sent no more"
    )
    told = of.client.get(f"/jobs/{of.jobs[sent]}").json()
    assert (told["status"], told["providerMessageId"]) == ("sent", message_id)
    dead = of.processes.rajada("dlq", "ls", "--json").stdout
    assert '"letters":2' in dead
    shown = of.processes.rajada("group-links", "show", of.jobs[never])
    assert "failed" in shown.stdout and never not in shown.stdout


@pytest.mark.long
def test_without_credentials_links_are_held_with_one_alert_and_go_when_there_are_some(
    processes: MakeProcesses, connection: Connection, whatsapp: WhatsAppBeside
) -> None:
    of = school(processes, connection, whatsapp, WHATSAPP_ACCESS_TOKEN="", RAJADA_SECRET_KEYS=new_key())
    phones = [of.enrol(number) for number in range(3)]
    for phone in phones:
        of.becomes(phone, "held")
        assert of.row(phone)[1] == 0, "nothing is burnt"
    until(lambda: len(of.alerts("credentials_missing")) == 1)
    assert whatsapp.messages() == []
    done = of.processes.rajada("whatsapp", "set", str(of.organization_id), "2077", typed="stand-in-token\n")
    assert "3 group links were released" in done.stdout, done.stderr
    for phone in phones:
        of.becomes(phone, "sent")
    assert {one.phone_number_id for one in whatsapp.messages()} == {"2077"}


def killed_while_it_was_sent(of: School, whatsapp: WhatsAppBeside, number: int = 1) -> str:
    """A message that was taken, and whose worker died before it could write that down."""
    phone = f"+55119{number:08d}"
    whatsapp.treat(Scenario(mode="hang", times=1), phone)
    of.enrol(number)
    until(lambda: whatsapp.taken().get(phone) == 1)
    of.processes.kill("worker", signal.SIGKILL)
    of.processes.start("worker")
    return phone


@pytest.mark.long
def test_killed_between_the_send_and_its_record_it_is_held_with_an_alert(
    processes: MakeProcesses, connection: Connection, whatsapp: WhatsAppBeside
) -> None:
    of = school(processes, connection, whatsapp)
    first = killed_while_it_was_sent(of, whatsapp, 1)
    of.becomes(first, "held")
    until(lambda: of.alerts("job_unknown_outcome") == [(1, "open")])
    second = killed_while_it_was_sent(of, whatsapp, 2)
    of.becomes(second, "held")
    assert whatsapp.taken() == {first: 1, second: 1}
    # one click to close, one to send
    assert of.processes.rajada("group-links", "close", of.jobs[first]).returncode == 0
    of.becomes(first, "failed")
    assert of.processes.rajada("group-links", "retry", of.jobs[second]).returncode == 0
    of.becomes(second, "sent")
    assert whatsapp.taken() == {first: 1, second: 2}


@pytest.mark.long
def test_killed_between_the_send_and_its_record_it_is_sent_at_most_once_more_where_that_is_wanted(
    processes: MakeProcesses, connection: Connection, whatsapp: WhatsAppBeside
) -> None:
    of = school(
        processes, connection, whatsapp, GROUP_LINK_ON_UNKNOWN="resend", GROUP_LINK_RETRY_DELAY_MS="300"
    )
    phone = killed_while_it_was_sent(of, whatsapp)
    of.becomes(phone, "sent")
    assert whatsapp.taken() == {phone: 2}
    unlucky = "+5511900000002"
    whatsapp.treat(Scenario(mode="drop"), unlucky)
    of.enrol(2)
    of.becomes(unlucky, "held")
    assert whatsapp.taken()[unlucky] == 2, "the second doubt is a person's"


@pytest.mark.long
def test_a_graceful_stop_loses_no_link_and_doubles_none(
    processes: MakeProcesses, connection: Connection, whatsapp: WhatsAppBeside
) -> None:
    of = school(processes, connection, whatsapp)
    whatsapp.treat(Scenario(delay_ms=300))
    phones = [of.enrol(number) for number in range(60)]
    until(lambda: len(whatsapp.taken()) > 5)
    of.processes.kill("worker", signal.SIGTERM)
    of.processes.start("worker")
    until(lambda: all(of.row(phone)[0] in ("sent", "held") for phone in phones))
    assert set(whatsapp.taken().values()) == {1}
    assert of.processes.kill("web", signal.SIGTERM) == 0


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("students", [int(os.environ.get("RAJADA_TEST_STUDENTS", "500"))])
def test_enrolments_with_mixed_failures_all_end_with_the_right_count(
    processes: MakeProcesses, connection: Connection, whatsapp: WhatsAppBeside, students: int
) -> None:
    """Every tenth number is invalid, some fail at first, some ask for less, some connections break."""
    of = school(
        processes, connection, whatsapp,
        GROUP_LINK_RETRY_DELAY_MS="500", GROUP_LINK_WORKER_BATCH_SIZE="60",
        RAJADA_SESSION_TIMEOUT_S="30",  # a busy machine must not end the worker: its sends would be in doubt
    )  # fmt: skip
    for number in range(students):
        phone = f"+55119{number:08d}"
        if number % 10 == 0:
            whatsapp.treat(Scenario(mode="error", code=131026), phone)
        elif number % 10 == 1:
            whatsapp.treat(Scenario(mode="error", code=131000, status=500, times=2), phone)
        elif number % 50 == 2:
            whatsapp.treat(Scenario(mode="error", code=131056, status=429, times=1), phone)
        elif number % 50 == 3:
            whatsapp.treat(Scenario(mode="cut", times=1), phone)
    for number in range(students):
        of.enrol(number)
    failed, held = students // 10, students // 50
    sent = students - failed - held
    states = "SELECT count(*) FROM group_link_dispatch_queue WHERE status = %s"
    until(
        lambda: value(connection, states, "sent") == sent and value(connection, states, "failed") == failed,
        1_500,
        0.5,
    )
    # a connection that broke after the request was on its way: nobody knows
    assert value(connection, states, "pending") == held
    assert set(whatsapp.taken().values()) == {1} and len(whatsapp.taken()) == sent


def test_br_54_the_same_enrolment_at_once_reaches_the_student_once(
    processes: MakeProcesses, connection: Connection, whatsapp: WhatsAppBeside
) -> None:
    """The same students asked for again and again, by two callers, with two workers and one killed."""
    of = school(processes, connection, whatsapp)
    of.processes.commands["worker-2"] = of.processes.commands["worker"]
    of.processes.spawn("worker-2")
    whatsapp.treat(Scenario(delay_ms=20))
    for round_ in range(3):
        for number in range(100):
            of.enrol(number)
        if round_ == 0:
            of.processes.kill("worker", signal.SIGKILL)
            of.processes.spawn("worker")
    until(lambda: all(of.row(phone)[0] in ("sent", "held") for phone in of.jobs), 90)
    assert value(connection, "SELECT count(*) FROM group_link_dispatch_queue") == 100
    assert set(whatsapp.taken().values()) == {1}
