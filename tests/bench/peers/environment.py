"""What the peers run in, made at the first `make bench PEERS=1`: a virtual environment, and the jars of Kafka Streams
and of Flink."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.servers import environments, jars
from tests.servers.program import Unavailable

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements.txt"
PROGRAMS = HERE / "programs"
KAFKA_STREAMS, FLINK = "4.4.0", "2.3.0"
FLINK_OPENED = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "util", "time")]
"""Options of a JVM that runs Flink."""


def python() -> Path:
    """The interpreter of the peers in Python. Raises Unavailable."""
    return environments.python("peers", REQUIREMENTS)


def kafka_streams(classes: Path, program: str = "J1") -> list[str]:
    """The command that runs this program of `programs`, which is compiled into this folder. Raises Unavailable."""
    name, version = f"kafka-streams-bench-{KAFKA_STREAMS}", f"-Dstreams.version={KAFKA_STREAMS}"
    libraries = jars.from_pom("Kafka Streams", name, PROGRAMS / "pom.xml", version)
    return _compiled(libraries, classes, PROGRAMS / f"{program}.java", "-Xmx512m")


def flink(classes: Path) -> list[str]:
    """The command that runs FlinkJ1, which is compiled into this folder. Raises Unavailable."""
    return _compiled(flink_libraries(), classes, PROGRAMS / "flink" / "FlinkJ1.java", "-Xmx1g", *FLINK_OPENED)


def flink_libraries() -> Path:
    """The folder of the jars of Flink with RocksDB and its connector of Kafka. Raises Unavailable."""
    pom = PROGRAMS / "flink" / "pom.xml"
    return jars.from_pom("Flink", f"flink-bench-{FLINK}", pom, f"-Dflink.version={FLINK}")


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
    output = subprocess.run([str(python()), "-c", text], capture_output=True, text=True, check=True).stdout
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    own = {"Python": sys.version.split()[0], "Apache Kafka": jars.VERSION, "Java": java}
    own |= {"Kafka Streams": KAFKA_STREAMS, "Flink": FLINK}
    return own | dict(line.split() for line in output.splitlines())
