"""The products that run a program of a page on an engine of their own, which no package registry has."""

import json
import os
import subprocess
from pathlib import Path
from urllib.request import urlopen

from tests.integration.docs.compared import tools
from tests.integration.docs.compared.scene import Scene
from tests.servers import free_port
from tests.waiting import wait_until

KSML = "ksml-1.3.0", "KSML: /opt/ksml and /opt/graal are in the image of KSML 1.3.0"
INNGEST = "inngest-1.43.0", "the server of Inngest: `inngest` is in the release 1.43.0"
HATCHET = "hatchet-0.104.7", "the engine of Hatchet: hatchet-engine, -migrate and -admin are in its images of v0.104.7"
TENANT = "707d0855-80ab-4e1f-a156-f1c4546cbf52"
"""Of Hatchet, made with the database."""


def ksml(scene: Scene) -> None:
    """Runs the files of the folder."""
    folder = tools.brought(*KSML)
    java = [folder / "graal" / "bin" / "java", "--enable-native-access=ALL-UNNAMED"]
    scene.run("ksml", *java, "--sun-misc-unsafe-memory-access=allow", "-jar", folder / "ksml" / "ksml.jar")


def inngest(scene: Scene, app: str) -> str:
    """The server, for the app at this address. Returns its own. Its gateways for other apps, which nobody uses here,
    have ports of all interfaces."""
    server = tools.brought(*INNGEST) / "inngest"
    port = free_port()
    options = ["--host", "127.0.0.1", "--port", str(port), "--no-discovery", "--sdk-url", app]
    scene.run("inngest", "env", "DO_NOT_TRACK=1", server, "dev", *options)
    return f"http://127.0.0.1:{port}"


def functions(server: str) -> list[str]:
    """The functions that Inngest knows."""
    try:
        with urlopen(f"{server}/dev", timeout=5) as answer:
            return [function["name"] for function in json.load(answer)["functions"] or ()]
    except OSError:
        return []


def hatchet(scene: Scene, database: str) -> list[str]:
    """The engine on this empty PostgreSQL. Returns the settings for programs that use it."""
    folder, port = tools.brought(*HATCHET), free_port()
    settings = {
        "DATABASE_URL": f"{database}?sslmode=disable",
        "SERVER_AUTH_COOKIE_DOMAIN": "127.0.0.1",
        "SERVER_AUTH_COOKIE_INSECURE": "t",
        "SERVER_GRPC_BIND_ADDRESS": "127.0.0.1",
        "SERVER_GRPC_BROADCAST_ADDRESS": f"127.0.0.1:{port}",
        "SERVER_GRPC_INSECURE": "t",
        "SERVER_GRPC_PORT": str(port),
        "SERVER_HEALTHCHECK": "f",
        "SERVER_MSGQUEUE_KIND": "postgres",
        "SERVER_SECURITY_CHECK_ENABLED": "f",
        "SERVER_URL": "http://127.0.0.1:1",
    }

    def printed(program: str, *options: str) -> str:
        command = [str(folder / program), *options]
        environ = {"PATH": os.environ["PATH"], **settings}
        done = subprocess.run(
            command, cwd=scene.folder, env=environ, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    printed("hatchet-migrate")
    printed("hatchet-admin", "quickstart", "--skip", "certs", "--generated-config-dir", "config", "--overwrite=false")
    token = printed("hatchet-admin", "token", "create", "--config", "config", "--tenant-id", TENANT).split()[-1]
    words = [f"{name}={value}" for name, value in settings.items()]
    scene.run("engine", "env", *words, folder / "hatchet-engine", "--config", "config")
    return [f"HATCHET_CLIENT_TOKEN={token}", "HATCHET_CLIENT_TLS_STRATEGY=none"]


def logged(log: Path, text: str) -> None:
    """Waits until a program has said this."""
    wait_until(lambda: log.exists() and text in log.read_text(errors="replace"), 60, text)
