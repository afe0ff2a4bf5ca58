"""Apicurio Registry, which speaks the protocol of Confluent's schema registry. Its schemas are in a file, which it
finds again after kill -9."""

import shutil
import signal
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tests.servers import jars
from tests.servers.program import Image, Place, Unavailable


@dataclass(frozen=True)
class Apicurio:
    name: ClassVar[str] = "apicurio"
    variable: ClassVar[str] = "SCHEMA_REGISTRY_URL"
    address: ClassVar[str] = "http://127.0.0.1:{port}/apis/ccompat/v7"
    end_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def prepare(self, place: Place) -> Sequence[Sequence[str]]:
        return []

    def command(self, place: Place) -> Sequence[str]:
        java = shutil.which("java")
        if java is None:
            raise Unavailable("Apicurio Registry needs java on the PATH: install a Java 17 runtime")
        [jar] = jars.apicurio().glob("**/*-runner.jar")
        small = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
        http = ("-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={place.port}", "-Dquarkus.log.level=WARN")
        kept = f"-Dquarkus.datasource.jdbc.url=jdbc:h2:file:{place.data / 'registry'}"
        return [java, *small, *http, kept, f"-Djava.io.tmpdir={place.root}", "-jar", str(jar)]

    def probe(self, url: str) -> None:
        with urllib.request.urlopen(f"{url}/subjects", timeout=2) as answer:
            answer.read()

    def image(self, place: Place) -> Image:
        version = jars.APICURIO
        return Image(f"apicurio/apicurio-registry-mem:{version}", [], {"QUARKUS_HTTP_PORT": str(place.port)})
