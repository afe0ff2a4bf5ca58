"""What every test may ask for: `kafka`, `redis_url`, `ns`, `own_server`, `make_topic`, `proxy`.

Servers that only differ by the names used in them are shared by the whole run (`ns` gives a name of the test's own);
a test that kills, pauses or configures a server asks for its own.
"""

import gc
import os
import re
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.selection import NOT_BEGUN, is_over, select
from tests.servers import Program, Proxy, Server, Unavailable
from tests.servers.shared import HINT, Household, Shared, find, own_folder
from tests.waiting import wait_until

LOGS = Path(__file__).resolve().parents[1] / ".server-logs"
FIXTURES = {
    "kafka": "kafka",
    "redis_url": "valkey",
    "postgres_url": "postgres",
    "mariadb_url": "mariadb",
    "mongodb_url": "mongodb",
}
MARKS = {"integration": "integration", "servers": "integration", "chaos": "chaos", "soak": "chaos"}

for _name in ("streams", "connectors", "schemas"):
    # The folder of the repository is on the path, so these would import a second copy of the product, which no test
    # means.
    sys.modules[_name] = None  # type: ignore[assignment]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores SIGINT in what it starts with `&`, and so would the processes that tests stop by SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# By default structlog draws each traceback with rich, which is slow.
structlog.configure(
    [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)

household = pytest.StashKey[Household]()
used = pytest.StashKey[dict[str, Shared]]()
failed = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[used] = {}
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        config.stash[household] = Household()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    home = session.config.stash.get(household, None)
    if home is not None and exitstatus not in (0, 5):
        home.keep_logs(LOGS)


def pytest_unconfigure(config: pytest.Config) -> None:
    if home := config.stash.get(household, None):
        home.close()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    select(config, items)
    for item in items:
        for folder, mark in MARKS.items():
            if f"tests/{folder}/" in item.nodeid:
                item.add_marker(mark)


def pytest_collection_finish(session: pytest.Session) -> None:
    """The collector of Python passes over what the collection of the tests made, and runs less often: it took a tenth
    of the time of the unit tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if is_over():
        pytest.skip(NOT_BEGUN)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.failed:
        item.stash[failed] = True
        for name in FIXTURES.keys() & set(getattr(item, "fixturenames", ())):
            shared = item.config.stash[used].get(FIXTURES[name])
            if shared and shared.log and Path(shared.log).exists():
                report.sections.append(
                    (f"end of the log of {name}", "\n".join(Path(shared.log).read_text().splitlines()[-15:]))
                )
    return report


def missing(error: Unavailable) -> None:
    """A server that cannot be had is a failure in CI and a skip elsewhere."""
    if os.environ.get("CI"):
        pytest.fail(str(error), pytrace=False)
    pytest.skip(str(error))


def shared_url(config: pytest.Config, name: str) -> str:
    known = config.stash[used]
    if name not in known:
        try:
            known[name] = find(name)
        except Unavailable as error:
            missing(error)
    return known[name].url


@pytest.fixture(scope="session")
def kafka(pytestconfig: pytest.Config) -> str:
    """`bootstrap.servers` of the run's broker."""
    return shared_url(pytestconfig, "kafka")


@pytest.fixture(scope="session")
def redis_url(pytestconfig: pytest.Config) -> str:
    """The run's Redis (or Valkey), synced before every reply; never flush it, use `ns` in every key."""
    return shared_url(pytestconfig, "valkey")


@pytest.fixture(scope="session")
def postgres_url(pytestconfig: pytest.Config) -> str:
    """The run's PostgreSQL; its tables are shared by all tests."""
    return shared_url(pytestconfig, "postgres")


@pytest.fixture(scope="session")
def mariadb_url(pytestconfig: pytest.Config) -> str:
    """The run's MariaDB; its tables are shared by all tests."""
    return shared_url(pytestconfig, "mariadb")


@pytest.fixture(scope="session")
def mongodb_url(pytestconfig: pytest.Config) -> str:
    """The run's MongoDB, a replica set of one; its collections are shared by all tests."""
    return shared_url(pytestconfig, "mongodb")


@pytest.fixture(scope="session")
def run_file(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Callable[[str, Callable[[], str]], str]:
    """`run_file(name, make)`: a text that one worker of the run made and the others read."""
    folder = tmp_path_factory.getbasetemp()

    def text(name: str, make: Callable[[], str]) -> str:
        file = (folder if worker_id == "master" else folder.parent) / name
        with file.open("a+") as opened:
            flock(opened, LOCK_EX)  # the others wait for the first one
            if not file.read_text():
                opened.write(make())
        return file.read_text()

    return text


@pytest.fixture
def ns() -> str:
    """A name that no other test uses: for topics, groups, key prefixes, apps."""
    return "t" + uuid.uuid4().hex[:12]


@pytest.fixture
def own_server(request: pytest.FixtureRequest) -> Iterator[Callable[..., Server]]:
    """`own_server(Kafka, **settings)`: a started server of the test's own, to kill, pause or configure."""
    made: list[Server] = []

    def make(kind: Callable[..., Program], **settings: Any) -> Server:
        made.append(Server(kind(**settings), own_folder()))
        try:
            return made[-1].start()
        except Unavailable as error:
            missing(Unavailable(f"{error}\n{HINT}"))
            raise

    yield make
    for number, server in enumerate(made):
        if request.node.stash.get(failed, False) and server.log.exists():
            LOGS.mkdir(exist_ok=True)
            name = re.sub(r"[^A-Za-z0-9_.-]+", "-", request.node.name)[:80]
            (LOGS / f"{name}-{number}-{server.program.name}.log").write_bytes(server.log.read_bytes())
        server.destroy()


@pytest.fixture
def make_topic(request: pytest.FixtureRequest) -> Callable[..., str]:
    """`make_topic(name, partitions=1, bootstrap=None, **config)`: the topic, there and with leaders, on the run's
    broker or on another; `_` in the name of a setting stands for `.`, as in `retention_ms=1000`."""

    def make(name: str, partitions: int = 1, bootstrap: str | None = None, **config: Any) -> str:
        create_topic(bootstrap or request.getfixturevalue("kafka"), name, partitions, config)
        return name

    return make


def create_topic(bootstrap: str, name: str, partitions: int, config: dict[str, Any], copies: int = 1) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    settings = {setting.replace("_", "."): str(value) for setting, value in config.items()}
    admin.create_topics([NewTopic(name, partitions, copies, config=settings)])[name].result(30)

    def led() -> bool:
        topic = admin.list_topics(name, timeout=10).topics[name]
        return len(topic.partitions) == partitions and all(part.leader >= 0 for part in topic.partitions.values())

    wait_until(led, 30, f"a leader for each partition of {name}")


@pytest.fixture
def proxy() -> Iterator[Callable[..., Proxy]]:
    """`proxy(url, listen_port=0)`: a Proxy of the test's own before a Redis URL or host:port."""
    made: list[Proxy] = []

    def make(url: str, listen_port: int = 0) -> Proxy:
        made.append(Proxy.before(url, listen_port))
        return made[-1]

    yield make
    for store in made:
        store.close()
