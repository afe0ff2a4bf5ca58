"""Real servers for tests: `Kafka`, `Valkey` and the others say what they are, `Server` runs one, tests/conftest.py
hands them out."""

from tests.servers.kafka import Kafka
from tests.servers.mariadb import Mariadb
from tests.servers.mongodb import MongoDB
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import Postgres
from tests.servers.process import Server, free_port
from tests.servers.program import Place, Program, Unavailable
from tests.servers.proxy import Proxy
from tests.servers.valkey import Valkey

__all__ = [
    "Kafka",
    "Mariadb",
    "MongoDB",
    "PgBouncer",
    "Place",
    "Postgres",
    "Program",
    "Proxy",
    "Server",
    "Unavailable",
    "Valkey",
    "free_port",
]
