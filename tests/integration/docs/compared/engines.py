"""The products that run a program of a page on an engine of their own, which no package registry has."""

from tests.integration.docs.compared import tools
from tests.integration.docs.compared.scene import Scene

KSML = "ksml-1.3.0", "KSML: /opt/ksml and /opt/graal are in the image of KSML 1.3.0"


def ksml(scene: Scene) -> None:
    """Runs the files of the folder."""
    folder = tools.brought(*KSML)
    java = [folder / "graal" / "bin" / "java", "--enable-native-access=ALL-UNNAMED"]
    scene.run("ksml", *java, "--sun-misc-unsafe-memory-access=allow", "-jar", folder / "ksml" / "ksml.jar")
