"""MariaDB with every commit synced, so that a kill -9 is a real crash."""

import os
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.servers import jars
from tests.servers.certificates import Certificate
from tests.servers.program import Image, Place


@dataclass(frozen=True)
class Mariadb:
    """`args` are further command line options; of an option given twice the later counts."""

    args: Sequence[str] = ()
    tls: Certificate | None = None
    name: ClassVar[str] = "mariadb"
    variable: ClassVar[str] = "MARIADB_URL"
    address: ClassVar[str] = "mariadb://root@127.0.0.1:{port}/test"
    end_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def prepare(self, place: Place) -> Sequence[Sequence[str]]:
        install, place_options = _program("mariadb-install-db", "scripts")
        options = [f"--datadir={place.data}", "--auth-root-authentication-method=normal", *_as_root()]
        return [[*install, "--no-defaults", *place_options, *options]]

    def command(self, place: Place) -> Sequence[str]:
        server, place_options = _program("mariadbd", "bin")
        own = [
            f"--datadir={place.data}",
            f"--socket={place.root / 'socket'}",
            f"--pid-file={place.root / 'pid'}",
            f"--tmpdir={place.root}",
        ]
        return [
            *server,
            "--no-defaults",
            *place_options,
            *own,
            "--bind-address=127.0.0.1",
            *_as_root(),
            *self._options(place.port),
        ]

    def probe(self, url: str) -> None:
        import pymysql
        from sqlalchemy import make_url

        target = make_url(url)
        pymysql.connect(
            host=target.host, port=target.port, user=target.username, database=target.database, connect_timeout=2
        ).close()

    def image(self, place: Place) -> Image:
        names = {"MARIADB_ALLOW_EMPTY_ROOT_PASSWORD": "1", "MARIADB_ROOT_HOST": "%", "MARIADB_DATABASE": "test"}
        return Image("mariadb:11.4", self._options(place.port), names)

    def _options(self, port: int) -> list[str]:
        # Without --skip-ssl it makes a key at every start: seconds of CPU time.
        return [
            f"--port={port}",
            *self._tls(),
            "--skip-name-resolve",
            "--innodb-buffer-pool-size=64M",
            "--innodb-log-file-size=48M",
            *self.args,
        ]

    def _tls(self) -> list[str]:
        if self.tls is None:
            return ["--skip-ssl"]
        return [f"--ssl-cert={self.tls.cert}", f"--ssl-key={self.tls.key}", f"--ssl-ca={self.tls.authority}"]


def _as_root() -> list[str]:
    return ["--user=root"] if os.geteuid() == 0 else []


def _program(name: str, folder: str) -> tuple[list[str], list[str]]:
    """A command and the options that tell it where its other files are: what is installed, else what was fetched."""
    program = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))
    if program is not None:
        return [program], []
    root: Path = jars.mariadb()
    return [str(root / folder / name)], [f"--basedir={root}"]
