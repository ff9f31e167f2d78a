"""How every Kafka client of ours reaches the brokers: one function, for all that librdkafka connects.

The layer of settings: it imports nothing else of ours.
"""

from __future__ import annotations

from typing import TypeAlias

from settings import RajadaError, Settings, get_settings


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
