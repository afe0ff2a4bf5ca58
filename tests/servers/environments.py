"""Virtual environments for programs that need other packages than ours, made once and kept beside the servers."""

import hashlib
import subprocess
import sys
from pathlib import Path

from tests.servers import jars
from tests.servers.program import Unavailable


def python(name: str, requirements: Path) -> Path:
    """The interpreter of an environment with these requirements, installed now if need be. Raises Unavailable."""
    digest = hashlib.blake2b(requirements.read_bytes(), digest_size=6).hexdigest()
    return jars.kept(f"{name}-{digest}", lambda folder: _install(folder, requirements)) / "bin" / "python"


def _install(folder: Path, requirements: Path) -> None:
    """A virtual environment names its own folder only in its scripts, which nobody calls here: it may be renamed."""
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", str(folder)], [*pip, "--requirement", str(requirements)]):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(f"{requirements.name} could not be installed:\n{(done.stdout + done.stderr)[-2000:]}")
