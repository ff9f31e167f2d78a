"""Where calls may go: hosts and addresses that are taken, and those that are refused in words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settings import Settings, WrongSetting, get_settings
from streams.handlers.answers import Hold, Retry
from streams.handlers.outgoing import Outgoing, Refused, networks_of
from streams.handlers.replies import NoReply, answer_to
from streams.handlers.whatsapp_replies import NotSent, read_reply

USUAL = Outgoing()


@pytest.fixture(autouse=True)
def unread() -> Iterator[None]:
    get_settings.cache_clear()
    yield
    get_settings.cache_clear()


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("engine.example", "93.184.216.34"),
        ("engine.example", "2606:2800:220:1::1"),
        ("engine.example", "64:ff9b::5db8:d822"),  # the same, seen through NAT64
        ("127.0.0.1", "127.0.0.1"),
        ("10.1.2.3", "10.1.2.3"),
        ("::1", "::1"),
        ("LocalHost", "127.0.0.1"),
        ("localhost", "::1"),
    ],
)
def test_what_is_public_or_spelled_out_is_called(host: str, address: str) -> None:
    USUAL.check_host(host)
    USUAL.check_address(host, address)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("engine", "10.0.0.7"),
        ("engine.example", "127.0.0.1"),
        ("engine.example", "192.168.1.1"),
        ("engine.example", "100.64.0.1"),
        ("engine.example", "169.254.169.254"),
        ("engine.example", "0.0.0.0"),
        ("engine.example", "224.0.1.1"),
        ("engine.example", "::1"),
        ("engine.example", "fc00::1"),
        ("engine.example", "fe80::1"),
        ("engine.example", "::ffff:10.0.0.7"),
        ("engine.example", "64:ff9b::a00:7"),
        ("engine.example", "2002:0a00:0007::1"),
        ("localhost", "10.0.0.7"),  # a resolver that lies about it
        ("2130706433", "127.0.0.1"),  # an address only to some
        ("0x7f.1", "127.0.0.1"),
        ("169.254.169.254", "169.254.169.254"),  # where clouds hand out credentials: never by itself
        ("::ffff:169.254.169.254", "::ffff:169.254.169.254"),
        ("0.0.0.0", "0.0.0.0"),
    ],
)
def test_what_a_name_leads_to_inside_is_not_called_unless_its_network_is_named(
    host: str, address: str
) -> None:
    with pytest.raises(Refused, match=r"^address_refused: .* RAJADA_OUTGOING_NETWORKS"):
        USUAL.check_address(host, address)
    Outgoing(networks=networks_of("0.0.0.0/0,::/0")).check_address(host, address)


def test_private_is_the_usual_networks_and_no_clouds_metadata() -> None:
    private = Outgoing(networks=networks_of("private"))
    for address in ("10.0.0.7", "172.18.0.2", "192.168.1.1", "fc00::1", "127.0.0.1", "::ffff:10.0.0.7"):
        private.check_address("engine", address)
    for address in ("169.254.169.254", "fe80::1", "0.0.0.0"):
        with pytest.raises(Refused):
            private.check_address("engine", address)


@given(st.ip_addresses())
def test_an_address_under_a_name_is_called_only_if_the_whole_world_could(address: object) -> None:
    try:
        USUAL.check_address("engine.example", str(address))
    except Refused:
        return
    assert not getattr(address, "is_loopback", True) and not getattr(address, "is_link_local", True)
    mapped = getattr(address, "ipv4_mapped", None) or address
    assert mapped.is_global and not mapped.is_multicast  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("host", "fits"),
    [("engine.example", True), ("ENGINE.example.", True), ("a.clinic.example", True), ("10.0.0.7", True),
     ("clinic.example", False), ("evilclinic.example", False), ("engine.example.evil", False), ("::1", True)],
)  # fmt: skip
def test_hosts_are_whole_names_or_lie_below_a_domain(host: str, fits: bool) -> None:
    outgoing = Outgoing(
        Settings(outgoing_hosts=" Engine.example, *.clinic.example,10.0.0.7,[::1]").outgoing_hosts
    )
    if fits:
        outgoing.check_host(host)
    else:
        with pytest.raises(Refused, match=r"^host_refused: "):
            outgoing.check_host(host)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("RAJADA_OUTGOING_HOSTS", "http://engine.example"),
        ("RAJADA_OUTGOING_HOSTS", "engine.example/x"),
        ("RAJADA_OUTGOING_HOSTS", "*"),
        ("RAJADA_OUTGOING_NETWORKS", "10.0.0.0/33"),
        ("RAJADA_OUTGOING_NETWORKS", "any"),
        ("RAJADA_OUTGOING_NETWORKS", "10.0.0.1/8"),
    ],
)
def test_what_is_no_host_or_network_is_told_at_the_start(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(WrongSetting, match=variable):
        get_settings()


def test_an_engine_that_is_named_and_not_allowed_is_told_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AGENT_ENGINE_URL", "http://engine:8080/turns")
    monkeypatch.setenv("RAJADA_OUTGOING_HOSTS", "graph.facebook.com")
    with pytest.raises(
        WrongSetting, match="RAJADA_OUTGOING_HOSTS: it lacks engine, which AGENT_ENGINE_URL names"
    ):
        get_settings()
    monkeypatch.setenv("RAJADA_OUTGOING_HOSTS", "graph.facebook.com,engine")
    assert get_settings().outgoing_hosts == "graph.facebook.com,engine"


@pytest.mark.parametrize("code", ["host_refused", "address_refused"])
def test_a_refused_call_holds_its_job_and_spends_nothing(code: str) -> None:
    refused = NoReply(f"{code}: engine leads to 10.0.0.7", may_have_arrived=False)
    assert isinstance(answer_to(refused, kind="inbound_turn", attempt=1, now_ms=0), Hold)
    link = read_reply(refused, 0)
    assert isinstance(link, NotSent) and link.verdict == "hold"
    away = NoReply("connection_refused: nobody listens there", may_have_arrived=False)
    assert isinstance(answer_to(away, kind="inbound_turn", attempt=1, now_ms=0), Retry)
