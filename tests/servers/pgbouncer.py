"""PgBouncer before a PostgreSQL, in one of its modes."""

import os
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.servers.postgres import NOBODY, Postgres
from tests.servers.program import Image, Place, Unavailable


@dataclass(frozen=True)
class PgBouncer:
    """`server` is the port of the PostgreSQL, `args` are further settings, `name = value`."""

    server: int
    mode: str = "transaction"
    args: Sequence[str] = ()
    name: ClassVar[str] = "pgbouncer"
    variable: ClassVar[str] = "PGBOUNCER_URL"
    address: ClassVar[str] = Postgres.address
    end_signal: ClassVar[signal.Signals] = signal.SIGKILL

    @property
    def user(self) -> int | None:
        """PgBouncer refuses to be root."""
        return NOBODY if os.geteuid() == 0 else None

    def prepare(self, place: Place) -> Sequence[Sequence[str]]:
        users = place.root / "users"
        users.write_text('"postgres" ""\n')
        settings = [
            "[databases]",
            f"* = host=127.0.0.1 port={self.server}",
            "[pgbouncer]",
            "listen_addr = 127.0.0.1",
            f"listen_port = {place.port}",
            "unix_socket_dir =",
            "auth_type = trust",
            f"auth_file = {users}",
            f"pool_mode = {self.mode}",
            *self.args,
        ]
        (place.root / "pgbouncer.ini").write_text("\n".join(settings) + "\n")
        return ()

    def command(self, place: Place) -> Sequence[str]:
        program = shutil.which("pgbouncer", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))
        if program is None:
            raise Unavailable("there is no pgbouncer: install the package pgbouncer")
        return [program, str(Path(place.root, "pgbouncer.ini"))]

    def probe(self, url: str) -> None:
        import psycopg

        with psycopg.connect(url, connect_timeout=2, autocommit=True) as connection:
            connection.execute("select 1")

    def image(self, place: Place) -> Image:
        raise Unavailable("PgBouncer is started as a process only")
