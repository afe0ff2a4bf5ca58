"""What the compared products run in. What cannot be fetched ends the test: as a failure in CI, elsewhere as a skip."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.servers import Unavailable, environments, jars

HERE = Path(__file__).parent
REQUIREMENTS, BATCHES = HERE / "requirements.txt", HERE / "batches.txt"
JAVA = HERE / "java"


def fetched(fetch: Callable[[], Path]) -> Path:
    try:
        return fetch()
    except Unavailable as error:
        missing(error)
        raise


def brought(name: str, what: str) -> Path:
    """The folder of programs that no package registry has, if a person has put them beside the fetched servers.
    Without it the test is skipped, in CI too."""
    folder = jars.cache() / name
    if not folder.exists():
        pytest.skip(f"no package registry has {what}: copy it into {folder}")
    return folder


def python() -> Path:
    """The interpreter of Celery, Inngest and Hatchet."""
    return fetched(lambda: environments.python("compared", REQUIREMENTS))


def python_of_batches() -> Path:
    """The interpreter of celery-batches, and of a Celery that it takes."""
    return fetched(lambda: environments.python("batches", BATCHES))


def parallel_consumer() -> Path:
    """The folder of the jars of Parallel Consumer."""
    return fetched(lambda: jars.from_pom("Parallel Consumer", "parallel-consumer-0.5.3.3", JAVA / "pom.xml"))


def compiled(libraries: Path, folder: Path, main: str) -> list[str]:
    """The command that runs `main` of the folder java, with the classes of this folder beside it."""
    java = shutil.which("java")
    if java is None:
        missing(Unavailable("the compared products need java on the PATH: install a Java 17 runtime"))
        raise AssertionError
    path = os.pathsep.join([str(folder), *map(str, libraries.glob("*.jar"))])
    compiler = [java, "-m", "jdk.compiler/com.sun.tools.javac.Main"]  # a runtime has the module, and no javac
    files = [*map(str, folder.glob("*.java")), str(JAVA / f"{main}.java")]
    done = subprocess.run(
        [*compiler, "-cp", path, "-d", str(folder), *files], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [java, "-cp", path, main]
