"""Each system with TLS and a user `worker`, as a test meets it: how it is reached, and how it comes to show a
certificate that ended."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pymongo
import pymysql
import redis

from tests.servers import Mariadb, MongoDB, Postgres, Server, Valkey
from tests.servers.certificates import Authority, Certificate
from tests.servers.postgres import NOBODY

RIGHT = "r1ght-canary"
WRONG = "wr0ng-canary"

Start = Callable[..., Server]
"""The fixture own_server."""


@dataclass(frozen=True)
class Store:
    """A started server. `url(password, host, authority)` is the store's URL with everything checked; `unchecked` turns
    that off."""

    port: int
    scheme: str
    path: str
    trusts: str
    unchecked: str
    expire: Callable[[], None]
    changed: Callable[[str], None]
    """Gives the user another password, and ends the connections that the old one made."""

    def url(self, authority: Path, password: str = RIGHT, host: str = "localhost") -> str:
        return f"{self.scheme}://worker:{password}@{host}:{self.port}/{self.path}{self.trusts.format(authority)}"

    def trusting(self, password: str = RIGHT) -> str:
        return f"{self.scheme}://worker:{password}@127.0.0.1:{self.port}/{self.path}{self.unchecked}"


def _redis(start: Start, signed: Authority) -> Store:
    server = start(Valkey, tls=(shown := signed.certified("server")))
    admin = redis.Redis.from_url(server.url)

    def expire() -> None:
        signed.certified("server", days=-1)
        admin.execute_command("CONFIG", "SET", "tls-cert-file", str(shown.cert), "tls-key-file", str(shown.key))

    def changed(password: str) -> None:
        admin.execute_command("ACL", "SETUSER", "worker", "on", "resetpass", f">{password}", "~*", "&*", "+@all")
        admin.execute_command("CLIENT", "KILL", "USER", "worker")

    changed(RIGHT)
    unchecked = "?ssl_cert_reqs=none&ssl_check_hostname=false"
    return Store(server.place.inner_port, "rediss", "0", "?ssl_ca_certs={}", unchecked, expire, changed)


def _postgresql(start: Start, signed: Authority) -> Store:
    owner = NOBODY if os.geteuid() == 0 else None
    server = start(Postgres, tls=signed.certified("server", user=owner))

    def run(text: str) -> None:
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute(text.encode())

    def expire() -> None:
        signed.certified("server", days=-1, user=owner)
        run("select pg_reload_conf()")

    def changed(password: str) -> None:
        run(f"alter user worker password '{password}'")
        run("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'worker'")

    run(f"create user worker superuser password '{RIGHT}'")
    trusts = "?sslmode=verify-full&sslrootcert={}"
    return Store(server.port, "postgresql", "postgres", trusts, "?sslmode=require", expire, changed)


def _mariadb(start: Start, signed: Authority) -> Store:
    server = start(Mariadb, tls=signed.certified("server"))

    def run(*texts: str) -> list[Any]:
        with (
            pymysql.connect(host="127.0.0.1", port=server.port, user="root", autocommit=True) as admin,
            admin.cursor() as cursor,
        ):
            for text in texts:
                cursor.execute(text)
            return list(cursor.fetchall())

    def expire() -> None:
        signed.certified("server", days=-1)
        run("flush ssl")

    def changed(password: str) -> None:
        run(f"alter user worker@'127.0.0.1' identified by '{password}'")
        for (number,) in run("select id from information_schema.processlist where user = 'worker'"):
            run(f"kill {number}")

    run(
        f"create user worker@'127.0.0.1' identified by '{RIGHT}' require ssl",
        "grant all on test.* to worker@'127.0.0.1'",
    )
    off = "&ssl_verify_cert=false&ssl_verify_identity=false"
    return Store(server.port, "mysql", "test", "?ssl_ca={}", f"?ssl_ca={signed.cert}{off}", expire, changed)


def _mongodb(start: Start, signed: Authority) -> Store:
    """It neither starts with a certificate that ended nor takes one later: here the authority's own ends."""
    server = start(MongoDB, tls=signed.certified("server"))
    admin: pymongo.MongoClient[Any] = pymongo.MongoClient(server.url)

    def changed(password: str) -> None:
        admin.sluicegate.command("updateUser", "worker", pwd=password)

    admin.sluicegate.command("createUser", "worker", pwd=RIGHT, roles=["dbOwner"])
    trusts, unchecked = "&tls=true&tlsCAFile={}", "&tls=true&tlsInsecure=true"
    return Store(server.port, "mongodb", "sluicegate?directConnection=true", trusts, unchecked, signed.end, changed)


STORES: Mapping[str, Callable[[Start, Authority], Store]] = {
    "redis": _redis,
    "postgresql": _postgresql,
    "mariadb": _mariadb,
    "mongodb": _mongodb,
}


@dataclass(frozen=True)
class Mutual:
    """A store that wants to see a certificate of the same authority. `bare` is its URL without one, `shows` what names
    one in it, `unlocks` the password of its key."""

    bare: str
    shows: str
    unlocks: str

    def showing(self, ours: Certificate, password: str = "") -> str:
        return self.bare + self.shows.format(ours) + (self.unlocks + password if password else "")


def _mutual_redis(start: Start, signed: Authority) -> Mutual:
    server = start(Valkey, tls=signed.certified("server"), args=["--tls-auth-clients", "yes"])
    bare = f"rediss://localhost:{server.place.inner_port}/0?ssl_ca_certs={signed.cert}"
    return Mutual(bare, "&ssl_certfile={0.cert}&ssl_keyfile={0.key}", "&ssl_password=")


def _mutual_postgresql(start: Start, signed: Authority) -> Mutual:
    server = start(Postgres, tls=signed.certified("server", user=NOBODY if os.geteuid() == 0 else None))
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f"create user shown superuser password '{RIGHT}'".encode())
    bare = f"postgresql://shown:{RIGHT}@localhost:{server.port}/postgres?sslmode=verify-full&sslrootcert={signed.cert}"
    return Mutual(bare, "&sslcert={0.cert}&sslkey={0.key}", "&sslpassword=")


def _mutual_mariadb(start: Start, signed: Authority) -> Mutual:
    server = start(Mariadb, tls=signed.certified("server"))
    with (
        pymysql.connect(host="127.0.0.1", port=server.port, user="root", autocommit=True) as admin,
        admin.cursor() as cursor,
    ):
        cursor.execute(f"create user shown@'127.0.0.1' identified by '{RIGHT}' require x509")
        cursor.execute("grant all on test.* to shown@'127.0.0.1'")
    bare = f"mysql://shown:{RIGHT}@localhost:{server.port}/test?ssl_ca={signed.cert}"
    return Mutual(bare, "&ssl_cert={0.cert}&ssl_key={0.key}", "&ssl_key_password=")


def _mutual_mongodb(start: Start, signed: Authority) -> Mutual:
    server = start(MongoDB, tls=signed.certified("server"), mutual=True)
    bare = f"mongodb://localhost:{server.port}/sluicegate?directConnection=true&tls=true&tlsCAFile={signed.cert}"
    return Mutual(bare, "&tlsCertificateKeyFile={0.both}", "&tlsCertificateKeyFilePassword=")


MUTUAL: Mapping[str, Callable[[Start, Authority], Mutual]] = {
    "redis": _mutual_redis,
    "postgresql": _mutual_postgresql,
    "mariadb": _mutual_mariadb,
    "mongodb": _mutual_mongodb,
}

__all__ = ["MUTUAL", "RIGHT", "STORES", "WRONG", "Authority", "Certificate", "Mutual", "Start", "Store"]
