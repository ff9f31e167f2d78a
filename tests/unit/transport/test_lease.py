"""When a worker may still take itself for the owner."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from streams.transport import FenceRefused, lease
from streams.transport.lease import Lease, confirm, watch

OK, LOADING, MOVED, ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCING, DENIED = 0, 14, 16, 22, 25, 27, 30


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(at=1000.0)
    monkeypatch.setattr(lease, "monotonic", lambda: now.at)
    monkeypatch.setattr(lease, "BACKOFF", 0.0)
    return now


class Coordinator:
    """Answers from a script; an exception in it is raised."""

    group_id, member_id, generation = "group", "member", 7

    def __init__(self, *script, before_answer=None):
        self.script, self.sent, self.died, self.before_answer = list(script), [], 0, before_answer

    async def ensure_coordinator_known(self):
        """Known."""

    def coordinator_dead(self):
        self.died += 1

    async def _send_req(self, request):
        self.sent.append(request)
        answer = self.script.pop(0)
        if self.before_answer:
            self.before_answer()
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(error_code=answer)


async def test_a_static_member_that_was_replaced_does_not_take_its_name_back(clock):
    replaced = []
    coordinator = Coordinator(OK, OK, OK)
    watch(coordinator, Lease(session_timeout=10), lambda: replaced.append(True))
    join = JoinGroupRequest("group", 10, 10, "", "one", "consumer", [])
    coordinator.member_id = ""
    await coordinator._send_req(join)
    assert not replaced, "the first join is no replacement"
    coordinator.member_id = "member"
    await coordinator._send_req(SyncGroupRequest("group", 7, "member", "one", []))
    coordinator.member_id = ""  # the coordinator didn't know us
    await coordinator._send_req(join)
    assert replaced


async def test_the_lease_counts_from_the_sending_of_an_answered_heartbeat(clock):
    held = Lease(session_timeout=10)
    coordinator = Coordinator(OK, before_answer=lambda: setattr(clock, "at", clock.at + 3))
    watch(coordinator, held)
    assert not held.held(), "nothing was answered yet"
    await coordinator._send_req(HeartbeatRequest("group", 7, "member"))
    assert held.held()
    clock.at += held.duration - 3.1
    assert held.held()
    clock.at += 0.2
    assert not held.held()


@pytest.mark.parametrize("answer", [OK, REBALANCING])
async def test_a_member_in_a_rebalance_is_still_a_member(clock, answer):
    held = Lease(10)
    coordinator = Coordinator(answer)
    watch(coordinator, held)
    await coordinator._send_req(HeartbeatRequest("group", 7, "member"))
    assert held.held()


@pytest.mark.parametrize("answer", [ILLEGAL_GENERATION, UNKNOWN_MEMBER])
async def test_a_stranger_loses_the_lease_at_once_and_older_answers_do_not_give_it_back(clock, answer):
    held = Lease(10)
    coordinator = Coordinator(OK, answer)
    watch(coordinator, held)
    await coordinator._send_req(HeartbeatRequest("group", 7, "member"))
    sent_before = clock.at
    clock.at += 1
    await coordinator._send_req(HeartbeatRequest("group", 7, "member"))
    assert not held.held()
    held.renew(sent_before)
    assert not held.held()


async def test_leaving_gives_the_lease_up_before_the_request_is_sent(clock):
    held = Lease(10)
    held.renew(clock.at)
    coordinator = Coordinator(OK, before_answer=lambda: seen.append(held.held()))
    seen: list[bool] = []
    watch(coordinator, held)
    await coordinator._send_req(LeaveGroupRequest("group", "member"))
    assert seen == [False]


async def test_joining_begins_a_lease(clock):
    held = Lease(10)
    coordinator = Coordinator(REBALANCING, OK)
    watch(coordinator, held)
    request = SyncGroupRequest("group", 7, "member", None, [])
    await coordinator._send_req(request)
    assert not held.held(), "the join failed"
    await coordinator._send_req(request)
    assert held.held()


@pytest.mark.parametrize("answer", [OK, REBALANCING])
async def test_the_fence_passes_for_a_member_of_the_current_generation(answer):
    coordinator = Coordinator(answer)
    await confirm(coordinator, 7, timeout=1)
    (request,) = coordinator.sent
    assert (request._group, request._generation_id, request._member_id) == ("group", 7, "member")


@pytest.mark.parametrize("answer", [ILLEGAL_GENERATION, UNKNOWN_MEMBER, DENIED])
async def test_the_fence_refuses_when_the_coordinator_does(answer):
    with pytest.raises(FenceRefused):
        await confirm(Coordinator(answer), 7, timeout=1)


async def test_the_fence_refuses_an_older_generation_without_asking():
    coordinator = Coordinator()
    with pytest.raises(FenceRefused, match="generation 6 has passed, now it is 7"):
        await confirm(coordinator, 6, timeout=1)
    assert coordinator.sent == []


async def test_the_fence_asks_again_while_the_coordinator_moves(monkeypatch):
    monkeypatch.setattr(lease, "BACKOFF", 0.0)
    coordinator = Coordinator(MOVED, LOADING, KafkaConnectionError(), OK)
    await confirm(coordinator, 7, timeout=5)
    assert len(coordinator.sent) == 4
    assert coordinator.died == 2


async def test_the_fence_refuses_when_it_gets_no_answer_in_time():
    class Silent(Coordinator):
        async def _send_req(self, request):
            await asyncio.sleep(60)

    with pytest.raises(FenceRefused, match=r"not confirmed in 0\.1 s"):
        await confirm(Silent(), 7, timeout=0.1)
