"""The instructions of deploy/Dockerfile, without a container engine: what it copies is installed by its RUN line into
an empty environment, and its health check tells a live run from a dead one."""

import http.server
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
LINES = (PROJECT / "deploy" / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
HOME = "/opt/sluicegate"


def instructions(name: str) -> list[str]:
    return [line.removeprefix(f"{name} ") for line in LINES if line.startswith(f"{name} ")]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is in HOME in the image. `python` is the interpreter of these tests."""
    source, home = tmp_path_factory.mktemp("src"), tmp_path_factory.mktemp("opt") / "sluicegate"
    for line in instructions("COPY"):
        *names, target = line.split()
        for name in () if "--from" in line else names:
            if (PROJECT / name).is_dir():
                shutil.copytree(PROJECT / name, source / target, symlinks=True)
            else:
                shutil.copy(PROJECT / name, source / target / Path(name).name)
    extras = dict(line.split("=", 1) for line in instructions("ARG") if "=" in line)
    [run] = [line for line in instructions("RUN") if "venv" in line]
    run = run.replace(HOME, str(home)).replace("python -m venv", f"{sys.executable} -m venv")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environ |= extras
    done = subprocess.run(["sh", "-c", run], cwd=source, env=environ, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stdout + done.stderr
    return home


DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("base", "builds"),
    [
        (f"python:3.11-slim@{DIGEST}", True),
        (f"registry.example:5000/base/python@{DIGEST}", True),
        ("python:3.11-slim", False),
        ("python:3.11-slim@sha256:", False),
        (f"python:3.11-slim@{DIGEST[:-1]}", False),
        (f"python@{DIGEST}:latest", False),
        ("", False),
    ],
)
def test_a_build_ends_where_the_base_image_has_no_digest(base: str, builds: bool) -> None:
    first = [line for line in LINES if line.split(" ")[0] in ("FROM", "COPY", "RUN")][:2]
    assert first[0] == "FROM ${BASE} AS build"
    check = first[1].removeprefix("RUN ")
    done = subprocess.run(["sh", "-c", check], env={**os.environ, "BASE": base}, capture_output=True, text=True)
    assert (done.returncode == 0) is builds, done.stderr
    assert builds or "name the base image by its digest" in done.stderr
    assert {line for line in LINES if line.startswith("FROM ")} == {"FROM ${BASE} AS build", "FROM ${BASE}"}


def test_the_command_of_the_image_runs_with_every_store(image: Path, tmp_path: Path) -> None:
    [entry] = json.loads(instructions("ENTRYPOINT")[0])
    for store in ("sqlite:///s.db", "redis://localhost", "postgresql://u@localhost/d", "mongodb://localhost/d"):
        file = tmp_path / "app.yaml"
        text = f'app: a\nkafka: {{bootstrap.servers: "localhost:9092"}}\nstore: "{store}"\ndead_letters: dead\n'
        file.write_text(text + "agents:\n  b: {from: in, aggregate: {count: 2}, to: {topic: out}}\n")
        done = subprocess.run(
            [image / "bin" / entry, "check", file], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert "pip install" not in done.stdout + done.stderr


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (None, 1)])
def test_the_health_check_tells_a_live_run_from_others(status: int | None, code: int) -> None:
    class Livez(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status or 0)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Livez) as server:
        if status:
            threading.Thread(target=server.handle_request, daemon=True).start()
        else:
            server.socket.close()
        command = json.loads(re.sub(r"^.*?CMD ", "", instructions("HEALTHCHECK")[0]))
        environ = {**os.environ, "HEALTH": f"http://127.0.0.1:{server.server_address[1]}/livez"}
        command[0] = sys.executable
        done = subprocess.run(command, env=environ, capture_output=True, timeout=30)
    assert min(done.returncode, 1) == code, done.stderr


def test_the_health_check_asks_the_port_that_is_exposed() -> None:
    [port] = instructions("EXPOSE")
    environ = dict(word.split("=", 1) for word in shlex.split(instructions("ENV")[0]))
    assert environ["HEALTH"] == f"http://127.0.0.1:{port}/livez"
    assert environ["PATH"].startswith(f"{HOME}/bin:")
