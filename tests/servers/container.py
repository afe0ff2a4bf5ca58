"""The same servers from a Docker engine, through testcontainers (whose reaper removes what a killed run leaves
behind)."""

import shutil
from pathlib import Path

from tests.servers.process import await_answer, free_port, new_folder
from tests.servers.program import Place, Program


def engine_answers() -> bool:
    """Whether a Docker engine answers within 3 s."""
    try:
        import docker
    except ImportError:
        return False
    try:
        client = docker.from_env(timeout=3)
        return bool(client.ping())
    except docker.errors.DockerException:
        return False


class Container:
    """A server in a container, on the same port inside and outside, so that it can tell clients where it is."""

    def __init__(self, program: Program, root: Path | None = None) -> None:
        self.program = program
        self.place = Place(root or new_folder(), free_port(), free_port())
        self.place.root.mkdir(exist_ok=True)
        self.log = self.place.root / f"{program.name}.log"
        self._container = None

    @property
    def url(self) -> str:
        return self.program.address.format(port=self.place.port)

    def start(self, timeout: float = 120.0) -> "Container":
        """Start it and wait for its first answer. Raises RuntimeError, also when the image cannot be had."""
        import docker
        from testcontainers.core.container import DockerContainer

        image = self.program.image(self.place)
        container = DockerContainer(image.name).with_bind_ports(self.place.port, self.place.port)
        for name, value in image.environment.items():
            container.with_env(name, value)
        if image.command:
            container.with_command(list(image.command))
        try:
            self._container = container.start()
            await_answer(self.program, self.url, self.place.port, timeout, self._runs)
        except (docker.errors.DockerException, TimeoutError) as error:
            self.destroy()
            raise RuntimeError(f"{self.program.name} in a container: {error}") from error
        return self

    def destroy(self) -> None:
        """End it and remove its folder."""
        if self._container is not None:
            self._container.stop()
        shutil.rmtree(self.place.root, ignore_errors=True)

    def _runs(self) -> bool:
        wrapped = self._container.get_wrapped_container()
        wrapped.reload()
        self.log.write_bytes(wrapped.logs())
        return wrapped.status in ("created", "running")
