"""The products that run a program of a page on an engine of their own, which no package registry has."""

import json
from urllib.request import urlopen

from tests.integration.docs.compared import tools
from tests.integration.docs.compared.scene import Scene
from tests.servers import free_port

KSML = "ksml-1.3.0", "KSML: /opt/ksml and /opt/graal are in the image of KSML 1.3.0"
INNGEST = "inngest-1.43.0", "the server of Inngest: `inngest` is in the release 1.43.0"


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
