"""What is measured: the tuned loop, and `sluicegate run FILE` with each store."""

import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sluicegate.connectors import open_store
from tests.bench import several
from tests.bench.load import create, delete
from tests.bench.processes import Measured
from tests.servers import Mariadb, MongoDB, Postgres, Program, Valkey
from tests.servers.shared import open_server

LOOP = "loop"
SERVERS: dict[str, type[Program]] = {"redis": Valkey, "postgresql": Postgres, "mariadb": Mariadb, "mongodb": MongoDB}
STORES = ("memory", "sqlite", *SERVERS)

HEAD = """\
app: {app}
kafka:
  bootstrap.servers: {bootstrap}
store: {store}
dead_letters: {app}.dead
http: {{port: 0}}
agents:
  bench:
    from: {topic}
"""
FILE = (
    HEAD
    + """\
{where}{delivery}    aggregate:
      count: {count}
{hot}      {ending}
      compute:
{compute}
    to: {{topic: {app}.out}}
"""
)
NUMBERS = {"n": "count", "sum": "{sum: amount}", "max": "{max: amount}"}
ROWS = {"n": "count", "rows": "collect"}


@dataclass(frozen=True)
class Work:
    """Every `count` records of a key of `topic` become one result: their number, sum and maximum, or (`rows`) the
    records. The product is told to take those for which `where` is true, which are all. A group that stays smaller ends
    `after` seconds after its first record, or as `ending` says. `hot`: groups of a
    partition that the product keeps in memory, 0 for its default."""

    bootstrap: str
    topic: str
    count: int = 100
    rows: bool = False
    low_latency: bool = False
    where: str = ""
    after: int = 600
    ending: str = ""
    delivery: str = ""
    workers: int = 1
    hot: int = 0


@dataclass(frozen=True)
class Running:
    """A system at work; its results come in `out`, its dead letters, if any, in `dead`. `server` is the process of its
    store, 0 for none."""

    process: Measured
    out: str
    dead: str
    server: int = 0


@contextmanager
def running(system: str, work: Work) -> Iterator[Running]:
    """Start the system with topics and store of its own; see `started`."""
    app = f"bench-{system}-{uuid.uuid4().hex[:8]}"
    with ExitStack() as cleaning:
        store, server = ("", 0) if system == LOOP else opened(system, cleaning)

        def command(out: str, folder: Path) -> list[str]:
            if system == LOOP:
                return loop(work, out, app)
            return [*product(file_of(work, app, store), folder), "--workers", str(work.workers)]

        yield replace(cleaning.enter_context(started(system, work.bootstrap, app, command)), server=server)


@contextmanager
def started(
    system: str, bootstrap: str, app: str, command: Callable[[str, Path], list[str]], **environment: str
) -> Iterator[Running]:
    """`command` (of an output topic and a folder, both new) runs; at the end it is ended and all is removed. Raises
    RuntimeError when a clean end takes too long or is none."""
    with ExitStack() as cleaning:
        folder = Path(tempfile.mkdtemp(prefix="sluicegate-"))
        cleaning.callback(shutil.rmtree, folder, ignore_errors=True)
        out, dead = f"{app}.out", f"{app}.dead"
        create(bootstrap, out, dead)
        cleaning.callback(delete, bootstrap, out, dead)
        process = Measured(command(out, folder), folder, **environment)
        try:
            yield Running(process, out, dead)
        except BaseException:
            process.stop(5.0)
            raise
        if code := process.stop():
            raise RuntimeError(f"{system} ended with {code}:\n{process.tail()}")


def loop(work: Work, out: str, group: str) -> list[str]:
    """The command that runs the loop."""
    command = [sys.executable, "-m", "tests.bench.loop", work.bootstrap, work.topic, out, group]
    command += ["--count", str(work.count), *["--rows"] * work.rows, *["--low-latency"] * work.low_latency]
    return command if work.workers == 1 else several.command([command] * work.workers)


def file_of(work: Work, app: str, store: str) -> str:
    """The file of the product for this work."""
    compute = "\n".join(f"        {name}: {reducer}" for name, reducer in (ROWS if work.rows else NUMBERS).items())
    where = f"    where: {work.where}\n" if work.where else ""
    delivery = f"    delivery: {work.delivery}\n" if work.delivery else ""
    hot = f"      hot_groups: {work.hot}\n" if work.hot else ""
    ending = work.ending or f"timeout: {{after: {work.after}s, since: first}}"
    settings = {"bootstrap": work.bootstrap, "topic": work.topic, "count": work.count, "ending": ending, "hot": hot}
    return FILE.format(app=app, store=store, compute=compute, where=where, delivery=delivery, **settings)


def product(text: str, folder: Path) -> list[str]:
    """The command that runs the product with this file."""
    file = folder / "bench.yaml"
    file.write_text(text)
    return [str(Path(sys.executable).with_name("sluicegate")), "run", str(file)]


def opened(system: str, cleaning: ExitStack) -> tuple[str, int]:
    """The store's URL, migrated, and its process; a server of this run's own, which syncs before every reply, ends with
    it."""
    if system in SERVERS:
        server = open_server(SERVERS[system]())
        cleaning.callback(server.destroy)
        store = open_store(str(server.url))
        store.migrate()
        store.close()
        return str(server.url), int(getattr(server, "pid", 0))
    return {"memory": "memory://", "sqlite": "sqlite:///bench.db"}[system], 0
