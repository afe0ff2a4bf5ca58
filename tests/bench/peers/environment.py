"""What the peers run in, made at the first `make bench PEERS=1`: a virtual environment, and the jars of Kafka Streams
and of Flink."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.servers import jars
from tests.servers.program import Unavailable

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements.txt"
PROGRAMS = HERE / "programs"
KAFKA_STREAMS, FLINK = "4.4.0", "2.3.0"


def python() -> Path:
    """The interpreter of the peers in Python. Raises Unavailable."""
    made = hashlib.blake2b(REQUIREMENTS.read_bytes(), digest_size=6).hexdigest()
    return jars.kept(f"peers-{made}", _install) / "bin" / "python"


def _install(folder: Path) -> None:
    """A virtual environment names its own folder only in its scripts, which nobody calls here: it may be renamed."""
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", str(folder)], [*pip, "--requirement", str(REQUIREMENTS)]):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(f"the peers could not be installed:\n{(done.stdout + done.stderr)[-2000:]}")


def kafka_streams(classes: Path, program: str = "J1") -> list[str]:
    """The command that runs this program of `programs`, which is compiled into this folder. Raises Unavailable."""
    name, version = f"kafka-streams-bench-{KAFKA_STREAMS}", f"-Dstreams.version={KAFKA_STREAMS}"
    libraries = jars.from_pom("Kafka Streams", name, PROGRAMS / "pom.xml", version)
    return _compiled(libraries, classes, PROGRAMS / f"{program}.java", "-Xmx512m")


def flink(classes: Path) -> list[str]:
    """The command that runs FlinkJ1, which is compiled into this folder. Raises Unavailable."""
    pom = PROGRAMS / "flink" / "pom.xml"
    libraries = jars.from_pom("Flink", f"flink-bench-{FLINK}", pom, f"-Dflink.version={FLINK}")
    opened = [f"--add-opens=java.base/java.{each}=ALL-UNNAMED" for each in ("lang", "util", "time")]
    return _compiled(libraries, classes, PROGRAMS / "flink" / "FlinkJ1.java", "-Xmx1g", *opened)


def _compiled(libraries: Path, classes: Path, program: Path, *options: str) -> list[str]:
    javac, java = shutil.which("javac"), shutil.which("java")
    if javac is None or java is None:
        raise Unavailable("the peers in Java need java and javac on the PATH: install a JDK of version 17 or newer")
    subprocess.run([javac, "-cp", f"{libraries}/*", "-d", str(classes), str(program)], check=True)
    return [java, *options, "-cp", f"{classes}:{libraries}/*", program.stem]


def versions() -> Mapping[str, str]:
    """Of all that is compared."""
    text = (
        "import importlib.metadata as m\nfor n in ('quixstreams', 'bytewax', 'faust-streaming'): print(n, m.version(n))"
    )
    found = subprocess.run([str(python()), "-c", text], capture_output=True, text=True, check=True).stdout
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    own = {"Python": sys.version.split()[0], "Apache Kafka": jars.VERSION, "Java": java}
    own |= {"Kafka Streams": KAFKA_STREAMS, "Flink": FLINK}
    return own | dict(line.split() for line in found.splitlines())
