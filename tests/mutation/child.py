"""One call of pytest in a process that was forked with the libraries already imported, and nothing of ours: a fifth of
the CPU time."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

LIBRARIES = [
    "confluent_kafka.admin",
    "hypothesis",
    "msgspec",
    "psutil",
    "pydantic",
    "pytest",
    "pytest_timeout",
    "redis",
    "rich",
    "sqlalchemy",
    "structlog",
    "typer",
    "xdist",
    "yaml",
]
OURS = ("tests", "sluicegate")

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(LIBRARIES)


def call(tree: Path, arguments: Sequence[str], seconds: float) -> tuple[int | None, str]:
    """Exit code (None: no end within so many seconds) and what was printed."""
    output = tree.with_name(f"{tree.name}.out")
    process = _context.Process(target=_pytest, args=(str(tree), list(arguments), str(output)))
    process.start()
    process.join(seconds)
    late = process.is_alive()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid or 0, signal.SIGKILL)  # it leads a group of its own
    process.join()
    return None if late else process.exitcode, output.read_text(errors="replace") if output.exists() else ""


def _pytest(tree: str, arguments: list[str], output: str) -> None:
    os.setsid()
    with open(output, "wb") as file, open(os.devnull, "rb") as nothing:
        for target, source in ((0, nothing), (1, file), (2, file)):
            os.dup2(source.fileno(), target)
    os.chdir(tree)
    sys.path[:] = [tree, *(place for place in sys.path if not Path(place or ".", "sluicegate").is_dir())]
    os.environ["PYTHONPATH"] = tree
    os.environ["SLUICEGATE_NATIVE"] = "off"  # the guards of Avro are those of Python
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]
    import pytest

    code = pytest.main(arguments)
    sys.stdout.flush()
    os._exit(code)
