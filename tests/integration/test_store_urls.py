"""Passwords with any character, and sockets in place of hosts, on real servers; what the commands print."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import psycopg
import pymysql
import pytest
import redis

from sluicegate.connectors import open_store
from tests.contracts.sql import database
from tests.servers import MongoDB, Postgres, Server, Valkey

SLUICEGATE = Path(sys.executable).with_name("sluicegate")
PASSWORD = "t\u00f6p@s3cret/w\u0444o?x#y%40:z"
PIECES = ("s3cret", "w\u0444o", "t\u00f6p", "%40", quote(PASSWORD, safe=""))
REFUSED = "has an @ that does not end user and password; write %40 for @"
FILE = """\
app: {app}
kafka: {{bootstrap.servers: "127.0.0.1:1"}}
store: '{store}'
start_timeout: 300ms
dead_letters: dead
agents: {{a: {{from: in, aggregate: {{count: 2}}, to: {{topic: out}}}}}}
"""


def done(folder: Path, store: str, *command: str) -> tuple[int, str]:
    """Exit code and all that the command printed, with the password in the environment."""
    file = folder / "app.yaml"
    file.write_text(FILE.format(app="urls", store=store))
    environ = os.environ | {"STORE_PW": PASSWORD, "SLUICEGATE_LOG_LEVEL": "debug", "PYTHONUTF8": "1"}
    arguments = [str(SLUICEGATE), command[0], str(file), *command[1:]]
    run = subprocess.run(arguments, env=environ, capture_output=True, text=True, timeout=90)
    return run.returncode, run.stdout + run.stderr


@pytest.fixture
def mariadb_user(mariadb_url: str, ns: str) -> Iterator[str]:
    """A URL, without a password, of a user whose password is PASSWORD, and of a database of the user's own."""
    url = database(mariadb_url, ns)
    rest = url.rpartition("@")[2]
    host, port = rest.partition("/")[0].split(":")
    with closing(pymysql.connect(host=host, port=int(port), user="root", charset="utf8mb4")) as admin:
        admin.cursor().execute(f"create user {ns}@'%%' identified by %s", (PASSWORD,))
        admin.cursor().execute(f"grant all on `{rest.partition('/')[2]}`.* to {ns}@'%'")
        yield f"mariadb://{ns}:${{STORE_PW}}@{rest}"
        admin.cursor().execute(f"drop user {ns}@'%'")


@pytest.fixture
def redis_user(own_server: Callable[..., Server]) -> str:
    server = own_server(Valkey)
    with redis.Redis.from_url(server.url) as admin:
        admin.execute_command("ACL", "SETUSER", "worker", "on", f">{PASSWORD}", "~*", "&*", "+@all")
    return server.url.replace("redis://", "redis://worker:${STORE_PW}@")


@pytest.mark.parametrize("user", ["mariadb_user", "redis_user"])
def test_a_password_of_any_characters_lets_in_and_comes_out_of_no_command(
    user: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = request.getfixturevalue(user)
    code, text = done(tmp_path, store, "migrate")
    assert code == 0, text
    code, connected = done(tmp_path, store, "check", "--connect")
    assert code == 3  # Kafka is not there
    assert "level durable" in connected
    for piece in PIECES:
        assert piece not in text + connected


@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "redis", "mongodb"])
@pytest.mark.parametrize("user", ["me:${STORE_PW}", f"me:{PASSWORD}"])
def test_no_piece_of_a_password_is_printed_or_looked_up(scheme: str, user: str, tmp_path: Path) -> None:
    """The first goes to a port where nobody answers, the second stands in the file as it is and is refused."""
    written = f"{scheme}://{user}@127.0.0.1:1/{'0' if scheme == 'redis' else 'db'}"
    for command in (["migrate"], ["check", "--connect"], ["status"]):
        code, text = done(tmp_path, written, *command)
        if "${" in written:
            assert (code, "127.0.0.1" in text) == (3, True), text
        else:
            assert code == 2
            text = text.replace(REFUSED, "")
            assert "app.yaml:3:1: store: " in text
        for piece in PIECES:
            assert piece not in text, command


@pytest.fixture
def sockets() -> Iterator[Path]:
    """The path of a socket has at most 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="s", dir="/tmp"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def usable(store: str, folder: Path) -> None:
    code, text = done(folder, store, "migrate")
    assert code == 0, text
    assert done(folder, store, "status")[0] == 3  # Kafka is not there
    with closing(open_store(store)) as opened:
        assert opened.level().name == "durable"


@pytest.mark.parametrize("form", ["postgres@/postgres?host={}&port={}", "postgres@%2F{}:{}/postgres"])
def test_a_socket_of_postgresql(form: str, own_server: Callable[..., Server], sockets: Path, tmp_path: Path) -> None:
    server = own_server(Postgres, args=[f"unix_socket_directories={sockets}"])
    with psycopg.connect(server.url) as direct:
        assert direct.execute("show unix_socket_directories").fetchone() == (str(sockets),)
    path = str(sockets) if "?" in form else quote(str(sockets)[1:], safe="")
    usable(f"postgresql://{form.format(path, server.port)}", tmp_path)


def test_a_socket_of_mongodb(own_server: Callable[..., Server], sockets: Path, tmp_path: Path) -> None:
    server = own_server(MongoDB, sockets=sockets)
    path = quote(f"{sockets}/mongodb-{server.port}.sock", safe="")
    usable(f"mongodb://{path}/sluicegate?directConnection=true", tmp_path)
