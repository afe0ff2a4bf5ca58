"""A secret of the file is in nothing that comes out: words, JSON, logs down to debug, tracebacks, status, metrics, dead
letters."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluicegate.connectors import _OPENERS

SLUICEGATE = Path(sys.executable).with_name("sluicegate")
NOBODY = "127.0.0.1:1"
COMMANDS = [
    ["check"],
    ["check", "--connect"],
    ["check", "--connect", "--json"],
    ["migrate"],
    ["migrate", "--dry-run"],
    ["status"],
    ["status", "--json"],
    ["topics"],
    ["run"],
]
EACH = [["check", "--connect", "--json"], ["run"]]  # of every scheme; the others do with the store what these do
KAFKA_SECRETS = ("sasl.password", "ssl.key.password", "ssl.keystore.password", "sasl.oauthbearer.client.secret")
REST = {"redis+sentinel": "/main/0", "rediss+sentinel": "/main/0", "redis+cluster": "", "rediss+cluster": ""}
SCHEMES = sorted(_OPENERS.keys() - {"memory", "sqlite", "mongodb+srv"})  # the last one asks a name server


@pytest.fixture
def canary() -> str:
    return f"c4n4ry{uuid.uuid4().hex[:10]}"


def document(name: str, store: str, bootstrap: str, canary: str, **more: object) -> dict[str, object]:
    """A file whose secrets all hold the canary."""
    kafka = {"bootstrap.servers": bootstrap, "sasl.username": "u"} | {
        name: f"{canary}-{name}" for name in KAFKA_SECRETS
    }
    rule = {"from": f"{name}.in", "aggregate": {"count": 2}, "to": {"topic": f"{name}.out"}}
    rest = {
        "app": name,
        "kafka": kafka,
        "store": store,
        "start_timeout": "300ms",
        "dead_letters": f"{name}.dead",
        "agents": {"a": rule},
    }
    return rest | {"http": {"port": 0, "token": canary + "-token"}} | more


def said(command: list[str], file: Path) -> tuple[int, str]:
    """Exit code and everything that it printed, at debug level."""
    arguments = [str(SLUICEGATE), command[0], str(file), *command[1:]]
    environ = os.environ | {"SLUICEGATE_LOG_LEVEL": "debug"}
    done = subprocess.run(arguments, env=environ, capture_output=True, text=True, timeout=90)
    return done.returncode, done.stdout + done.stderr


def address(scheme: str, user: str, host: str) -> str:
    return f"{scheme}://{user}@{host}{REST.get(scheme, '/0' if scheme.startswith('redis') else '/db')}"


def quiet_about(canary: str, file: Path, commands: list[list[str]]) -> None:
    """Each of the commands ends with 3 and says why, but not the canary."""
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda command: said(command, file), commands)
    for command, (code, output) in zip(commands, results, strict=True):
        assert canary not in output, command
        assert code == (0 if command == ["check"] else 3), (command, output[-2000:])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_store_that_nobody_answers_for_is_named_without_its_password(
    scheme: str, tmp_path: Path, canary: str
) -> None:
    file = tmp_path / "app.yaml"
    file.write_text(json.dumps(document("shop", address(scheme, f"user:{canary}", NOBODY), NOBODY, canary)))
    quiet_about(canary, file, COMMANDS if scheme == "redis" else EACH)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    "spoil",
    [lambda url: url.replace(":1/", ":port/").replace(":1", ":port"), lambda url: url.replace("@", "@ ")],
    ids=["port", "host"],
)
def test_a_store_url_that_cannot_be_read_is_refused_without_its_password(
    scheme: str, spoil: Callable[[str], str], tmp_path: Path, canary: str
) -> None:
    file = tmp_path / "app.yaml"
    file.write_text(json.dumps(document("shop", spoil(address(scheme, f"user:{canary}", NOBODY)), NOBODY, canary)))
    for command in (["check", "--json"], ["run"]):
        code, output = said(command, file)
        assert code == 2, output
        assert canary not in output


SERVED = {"redis": "redis_url", "postgresql": "postgres_url", "mariadb": "mariadb_url", "mongodb": "mongodb_url"}


@pytest.mark.parametrize("scheme", SERVED)
def test_a_refused_password_is_not_said(
    scheme: str, request: pytest.FixtureRequest, tmp_path: Path, canary: str
) -> None:
    """Of a user that no server here knows."""
    host = str(request.getfixturevalue(SERVED[scheme])).partition("://")[2].rpartition("@")[2].partition("/")[0]
    file = tmp_path / "app.yaml"
    file.write_text(json.dumps(document("shop", address(scheme, f"nobody:{canary}", host), NOBODY, canary)))
    quiet_about(canary, file, [["check", "--connect"], ["run"]])
