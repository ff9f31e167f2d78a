"""A Kafka and a Postgres that let nobody in without TLS, a password and the right to what is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import psycopg
import trustme
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from psycopg.conninfo import make_conninfo

from ops.embedded.kafka import EmbeddedKafka
from ops.embedded.ports import HOST
from ops.embedded.postgres import USER, EmbeddedPostgres
from ops.embedded.postgres_place import give

ADMIN = "admin"
MECHANISM = "SCRAM-SHA-512"
PASSWORD = "let-me-in"


class LockedKafka(EmbeddedKafka):
    """An embedded broker that takes SASL_SSL with SCRAM alone, and where a login may do what it was allowed.

    Set `users` and `authority` before it starts. The user `admin` may do everything.
    """

    users: tuple[str, ...] = ()
    authority: trustme.CA

    @property
    def ca(self) -> Path:
        """PEM file with the authority that signed its certificate."""
        return self._file("ca.pem")

    def access(self, user: str, password: str = PASSWORD) -> dict[str, str]:
        """The variables by which a process is told of it."""
        return {
            "KAFKA_BOOTSTRAP_SERVERS": self.bootstrap,
            "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "KAFKA_SASL_MECHANISM": MECHANISM,
            "KAFKA_SASL_USERNAME": user,
            "KAFKA_SASL_PASSWORD": password,
            "KAFKA_SSL_CA": str(self.ca),
        }

    def client(self, user: str, password: str = PASSWORD) -> dict[str, str | int]:
        """What librdkafka's clients take."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.ca),
            "log_level": 0,
        }

    def answers(self) -> bool:
        try:
            return bool(AdminClient(self.client(ADMIN)).list_topics(timeout=1).brokers)
        except KafkaException:
            return False

    def _prepare(self) -> None:
        key = self._file("key.pem")
        if not key.exists():
            self.authority.cert_pem.write_to_path(self.ca)
            issued = self.authority.issue_cert(HOST)
            # Java reads a key in PKCS 8 alone
            private = load_pem_private_key(issued.private_key_pem.bytes(), None).private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
            )
            key.write_bytes(private + b"".join(one.bytes() for one in issued.cert_chain_pems))
        super()._prepare()

    def _layout(self) -> list[str]:
        users = [f"{MECHANISM}=[name={name},password={PASSWORD}]" for name in (ADMIN, *self.users)]
        return [*super()._layout(), *(word for one in users for word in ("--add-scram", one))]

    def _properties(self, data: Path) -> str:
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        lines = {
            "listeners": f"SASL_SSL://{HOST}:{self._port},CONTROLLER://{HOST}:{self._controller_port}",
            "advertised.listeners": f"SASL_SSL://{HOST}:{self._port}",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "SASL_SSL",
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": (
                f'{login} username="{ADMIN}" password="{PASSWORD}";'
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._file("key.pem")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            # who comes by the controller's listener, which is the broker itself, has no name
            "super.users": f"User:{ADMIN};User:ANONYMOUS",
        }
        kept = [
            line for line in super()._properties(data).splitlines() if line.partition("=")[0] not in lines
        ]
        return "\n".join([*kept, *(f"{name}={value}" for name, value in lines.items())]) + "\n"


class LockedPostgres(EmbeddedPostgres):
    """An embedded Postgres that takes TLS and a password alone, but from its superuser; it is for tests."""

    authority: ClassVar[trustme.CA] = trustme.CA()

    def __init__(self, folder: Path, *, options: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, durable=False, options={**(options or {}), "ssl": "on"})
        self.ca = folder.parent / "postgres-ca.pem"

    def url_as(self, user: str, database: str, **more: str) -> str:
        """A connection string with TLS and everything checked; `more` changes it, None-like "" leaves out."""
        given = {
            "host": HOST, "port": self.listens.rpartition(":")[2], "dbname": database, "user": user,
            "password": PASSWORD, "sslmode": "verify-full", "sslrootcert": str(self.ca), **more,
        }  # fmt: skip
        return make_conninfo(**{name: value for name, value in given.items() if value})

    def lock(self) -> None:
        """From now on nobody but the superuser comes in without TLS."""
        lines = [f"host all {USER} {HOST}/32 trust", "hostssl all all 127.0.0.1/32 scram-sha-256"]
        (self.data / "pg_hba.conf").write_text("\n".join(lines) + "\n")
        with psycopg.connect(self.url) as connection:
            connection.execute("SELECT pg_reload_conf()")

    def _prepare(self) -> None:
        super()._prepare()
        key, certificate = self.data / "server.key", self.data / "server.crt"
        if key.exists():
            return
        self.authority.cert_pem.write_to_path(self.ca)
        issued = self.authority.issue_cert(HOST)
        issued.private_key_pem.write_to_path(key)
        certificate.write_bytes(b"".join(one.bytes() for one in issued.cert_chain_pems))
        key.chmod(0o600)
        for file in (key, certificate):
            give(file, self.identity)
