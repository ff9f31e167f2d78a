"""One function says how our clients reach Kafka, and all of them ask it."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

import pytest

from kafka_access import NoAccess, kafka_client, nobody_listens
from settings import Settings
from streams.transport import credentials
from streams.transport.security import SASL, TLS, for_librdkafka

ROOT = Path(__file__).parents[2]
GIVEN = "kafka.example:9093"


def settings(**more):
    return Settings(_env_file=None, kafka_bootstrap_servers=GIVEN, **more)


def test_without_security_it_is_the_address_alone():
    assert kafka_client(GIVEN, settings()) == {"bootstrap.servers": GIVEN}


def test_a_login_over_tls_for_the_given_kafka_and_not_for_the_embedded_one(tmp_path):
    ca = tmp_path / "ca.pem"
    ca.write_text("")
    chosen = settings(
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism="SCRAM-SHA-512",
        kafka_sasl_username="rajada",
        kafka_sasl_password="not-to-be-seen",
        kafka_ssl_ca=ca,
    )
    assert kafka_client(GIVEN, chosen) == {
        "bootstrap.servers": GIVEN,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "rajada",
        "sasl.password": "not-to-be-seen",
        "ssl.ca.location": str(ca),
    }
    assert kafka_client("127.0.0.1:19092", chosen) == {"bootstrap.servers": "127.0.0.1:19092"}
    assert "not-to-be-seen" not in repr(chosen)


@pytest.mark.parametrize(
    ("more", "missing"),
    [
        ({"kafka_security_protocol": "SASL_SSL"}, "KAFKA_SASL_USERNAME"),
        ({"kafka_security_protocol": "SASL_PLAINTEXT", "kafka_sasl_username": "u"}, "KAFKA_SASL_PASSWORD"),
        ({"kafka_security_protocol": "SSL", "kafka_ssl_key": "/k"}, "KAFKA_SSL_CERTIFICATE"),
        ({"kafka_security_protocol": "SSL", "kafka_ssl_ca": "/no/such/file"}, "no file /no/such/file"),
    ],
)
def test_half_a_login_is_told_with_what_is_missing(more, missing):
    with pytest.raises(NoAccess, match=missing):
        kafka_client(GIVEN, settings(**more))


def test_the_names_are_the_ones_that_the_field_knows(monkeypatch):
    monkeypatch.setenv("KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    monkeypatch.setenv("KAFKA_SASL_USERNAME", "rajada")
    monkeypatch.setenv("KAFKA_SASL_PASSWORD", "secret")
    assert kafka_client(GIVEN, settings())["sasl.password"] == "secret"


def test_the_transport_tells_both_of_its_clients_the_same():
    config = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256",
              "sasl.username": "u", "sasl.password": "p"}  # fmt: skip
    made = credentials(config)
    assert isinstance(made, SASL)
    assert (made.username, made.password, made.mechanism.value) == ("u", "p", "SCRAM-SHA-256")
    assert made.protocol.value == "SASL_SSL"
    assert made.ssl_context.check_hostname
    assert for_librdkafka(made) == config
    assert isinstance(credentials({"security.protocol": "SSL"}), TLS)
    assert credentials({}) is None
    assert for_librdkafka(None) == {}


def test_what_could_not_be_honoured_is_refused_not_ignored():
    with pytest.raises(ValueError, match="oauthbearer"):
        credentials({"security.protocol": "SASL_SSL", "sasl.oauthbearer.config": "x"})
    with pytest.raises(ValueError, match="for both clients"):
        for_librdkafka(object())


def test_no_client_of_ours_finds_its_own_way():
    elsewhere = {
        "kafka_access.py": "the function itself",
        "streams/transport/producer.py": "the transport is told by the app",
        "ops/embedded": "an embedded broker, which asks for no login",
    }
    strays = []
    for folder in ("streams", "sinks", "db", "schemas", "ops", "web"):
        for path in (ROOT / folder).rglob("*.py"):
            name = str(path.relative_to(ROOT))
            if not name.startswith(tuple(elsewhere)) and re.search(
                r"[\"']bootstrap.servers[\"']", path.read_text()
            ):
                strays.append(name)
    assert strays == [], "begin a client's configuration with **kafka_client(bootstrap)"


def test_that_nobody_listens_is_known_at_once_and_only_when_all_refuse() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_server(("127.0.0.1", 0)) as closing,
    ):
        there, gone = (f"127.0.0.1:{one.getsockname()[1]}" for one in (listening, closing))
        closing.close()
        begun = time.monotonic()
        assert nobody_listens(gone) and nobody_listens(f"{gone}, {gone}")
        assert not nobody_listens(there) and not nobody_listens(f"{gone},{there}")
        assert not nobody_listens("no-such-host.invalid:9092"), "its client says what is wrong with the name"
        assert not nobody_listens("nonsense")
        assert time.monotonic() - begun < 5
