"""The jars of the Kafka broker, fetched once through Maven (`make setup-servers`, or when a test first needs them)."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from tests.servers.program import Unavailable

POM = Path(__file__).with_name("pom.xml")
GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
VERSION = "4.2.1"


def cache() -> Path:
    """The folder where fetched servers are kept between runs."""
    return Path(os.environ.get("SLUICEGATE_SERVERS_CACHE") or POM.parents[2] / ".servers").resolve()


def kafka() -> Path:
    """The folder of Kafka's jars, fetched now if need be; many processes may ask at once. Raises Unavailable."""
    folder = cache() / f"kafka-{VERSION}"
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("Kafka's jars are not there and Maven is not on the PATH: install maven, then `make setup-servers`")
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    done = subprocess.run(
        [maven, "-q", "-B", "-f", str(POM), GOAL, f"-DoutputDirectory={partial}"], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode != 0 or not partial.exists():
        raise Unavailable(f"Maven could not fetch Kafka's jars (`make setup-servers` tries again):\n{(done.stdout + done.stderr)[-2000:]}")
    partial.rename(folder)
