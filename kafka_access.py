"""How every Kafka client of ours reaches the brokers, and what all of them have in common with librdkafka.

The layer of settings: it imports nothing else of ours.
"""

from __future__ import annotations

import gc
import operator
import socket
import time
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message

from settings import RajadaError, Settings, get_settings

ANSWER_S: Final = 10.0
"""How long a question to Kafka is asked again before it counts as away."""

PASSING: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError._TIMED_OUT,
    }
)
"""Errors of a coordinator or leader that is only just moving, as of a topic that was made a moment ago: ask
again."""
_AGAIN_S: Final = 0.1

Answer = TypeVar("Answer")


class NoAccess(RajadaError):
    """The settings for logging in to Kafka contradict each other; the message names what is missing."""


Configuration: TypeAlias = dict[str, str | int | float | bool]
"""What librdkafka's clients take."""


def kafka_client(bootstrap: str, settings: Settings | None = None) -> Configuration:
    """What the configuration of any client begins with, in librdkafka's names: brokers, TLS and login.

    TLS and login are those of the given Kafka (`KAFKA_SECURITY_PROTOCOL` and the rest, in `settings`, else
    those of the process); the embedded one listens on loopback and asks for neither.
    Raises NoAccess.
    """
    return {"bootstrap.servers": bootstrap, **kafka_security(settings or get_settings(), bootstrap)}


def kafka_security(settings: Settings, bootstrap: str) -> dict[str, str]:
    """TLS and login alone, in librdkafka's names; empty when there are none. Raises NoAccess."""
    protocol = settings.kafka_security_protocol
    if protocol == "PLAINTEXT" or bootstrap != settings.kafka_bootstrap_servers:
        return {}
    config: dict[str, str] = {"security.protocol": protocol}
    if protocol.startswith("SASL_"):
        if not settings.kafka_sasl_username or settings.kafka_sasl_password is None:
            raise NoAccess(
                f"KAFKA_SECURITY_PROTOCOL={protocol} needs a login: set KAFKA_SASL_USERNAME and "
                "KAFKA_SASL_PASSWORD."
            )
        config["sasl.mechanism"] = settings.kafka_sasl_mechanism
        config["sasl.username"] = settings.kafka_sasl_username
        config["sasl.password"] = settings.kafka_sasl_password.get_secret_value()
    if protocol.endswith("SSL"):
        if (settings.kafka_ssl_certificate is None) != (settings.kafka_ssl_key is None):
            raise NoAccess(
                "A client certificate is two files: set KAFKA_SSL_CERTIFICATE and KAFKA_SSL_KEY, or none."
            )
        files = {
            "ssl.ca.location": settings.kafka_ssl_ca,
            "ssl.certificate.location": settings.kafka_ssl_certificate,
            "ssl.key.location": settings.kafka_ssl_key,
        }
        for name, path in files.items():
            if path is not None:
                if not path.is_file():
                    raise NoAccess(
                        f"There is no file {path} for Kafka's {name}: correct the KAFKA_SSL_… setting."
                    )
                config[name] = str(path)
    return config


def group_member(bootstrap: str, group: str, session_timeout_s: float) -> Configuration:
    """What the configuration of a consumer begins with that shares partitions out in a group.

    Where it reads on is its owner's to say: nothing is committed or stored by itself, and a position that is
    out of range is told, not jumped over. Args: Kafka's host:port list; the group's full name; s.
    """
    return {
        **kafka_client(bootstrap),
        "group.id": group,
        "session.timeout.ms": int(session_timeout_s * 1000),
        "heartbeat.interval.ms": max(300, int(session_timeout_s * 1000 / 4)),
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        # Ends of transactions and aborted records take offsets, too: the end says that they are passed.
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
        "topic.metadata.refresh.interval.ms": 5_000,
        # A partition whose reading was stopped goes on without the client's second of waiting.
        "fetch.queue.backoff.ms": 20,
        "reconnect.backoff.max.ms": 2_000,
    }


def asker(bootstrap: str) -> Configuration:
    """What the configuration of a client begins with that lives for long and only asks.

    Most questions go to one broker, which the client has chosen: when that one dies, it learns only from
    fresh metadata whom to ask instead, and by itself it would fetch those every five minutes. What it can't
    do is raised; its own lines would only repeat it.
    """
    return {**kafka_client(bootstrap), "topic.metadata.refresh.interval.ms": 2_000, "log_level": 2}


_HEADERS: Final = operator.methodcaller("headers")


def keyed_sender(bootstrap: str, client_id: str, delivery_s: float) -> Configuration:
    """What the configuration of a producer begins with that writes keyed records into our topics.

    A key has the partition that every client gives it; a record is on all replicas, or it is told within
    `delivery_s` seconds that it isn't. That is raised by its owner: the client's own lines would repeat it.
    """
    return {
        **kafka_client(bootstrap),
        "client.id": client_id,
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "message.timeout.ms": int(delivery_s * 1000),
        "log_level": 2,
    }


def nobody_listens(bootstrap: str, within_s: float = 1.0) -> bool:
    """Whether each of the brokers' addresses refuses a connection at once: a person need not wait for more.

    Kafka's client goes on trying until its time is over. All else (silence, an unknown name) it tells better.
    """
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), within_s).close()
        except ConnectionRefusedError:
            continue
        except (OSError, ValueError):
            return False
        return False
    return True


def patiently(ask: Callable[[], Answer], for_s: float = ANSWER_S) -> Answer:
    """The answer, asked for again while a coordinator or leader is only just moving.

    Raises KafkaException: what is wrong is no passing thing, or has not passed within `for_s`.
    """
    deadline = time.monotonic() + for_s
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in PASSING or time.monotonic() > deadline:
                raise
        time.sleep(_AGAIN_S)


def headers_of(message: Message) -> list[tuple[str, bytes | None]] | None:
    """The headers of a record that was read, in their order; None: a name in them is no text.

    At such a name the client returns pairs with a hole where the name would be, and an error at once. Python
    looks for that at an ordinary call, but not at one that it has made quicker (a hot `message.headers()`);
    and asked again, the client gives the pairs alone. To touch a hole ends the process, so it is looked for
    from outside.
    """
    try:
        pairs = _HEADERS(message) or []
    except (UnicodeDecodeError, SystemError):  # the latter around the former, as the client raises it
        return None
    if isinstance(pairs, list) and len(gc.get_referents(*gc.get_referents(pairs))) < 2 * len(pairs):
        return None
    items = pairs.items() if isinstance(pairs, dict) else pairs
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in items]
