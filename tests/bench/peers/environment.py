"""What the peers run in, made at the first `make bench PEERS=1`: a virtual environment, and the jars of Kafka
Streams."""

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
    javac, java = shutil.which("javac"), shutil.which("java")
    if javac is None or java is None:
        raise Unavailable("Kafka Streams needs java and javac on the PATH: install a JDK of version 17 or newer")
    libraries = jars.from_pom("Kafka Streams", f"kafka-streams-bench-{jars.VERSION}", PROGRAMS / "pom.xml")
    subprocess.run([javac, "-cp", f"{libraries}/*", "-d", str(classes), str(PROGRAMS / f"{program}.java")], check=True)
    return [java, "-Xmx512m", "-cp", f"{classes}:{libraries}/*", program]


def versions() -> Mapping[str, str]:
    """Of all that is compared."""
    text = (
        "import importlib.metadata as m\nfor n in ('quixstreams', 'bytewax', 'faust-streaming'): print(n, m.version(n))"
    )
    found = subprocess.run([str(python()), "-c", text], capture_output=True, text=True, check=True).stdout
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]
    own = {"Python": sys.version.split()[0], "Apache Kafka and Kafka Streams": jars.VERSION, "Java": java}
    return own | dict(line.split() for line in found.splitlines())
