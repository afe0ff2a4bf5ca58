"""`cluster`: one broker, and a way to it for those whom a test wants to disturb. `running`: starts workers of a file.
`built`: the distributions."""

from collections.abc import Callable, Iterator

import pytest

from tests.chaos.worker import COMMAND
from tests.conftest import missing
from tests.integration.supervised.run import Run
from tests.integration.wheels import builder, built, source_tree  # noqa: F401
from tests.servers import Unavailable, jars
from tests.servers.cluster import Cluster
from tests.servers.shared import own_folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    try:
        made = Cluster(own_folder(), size=1, ways=1).start()
    except Unavailable as error:
        missing(error)
    yield made
    made.close()


@pytest.fixture(params=jars.APICURIO)
def apicurio(request: pytest.FixtureRequest) -> str:
    """The version of Apicurio Registry."""
    return str(request.param)


@pytest.fixture
def running(file: str) -> Iterator[Callable[[], Run]]:
    """Starts a supervisor of the file of the test. Returns when a partition is claimed."""
    runs: list[Run] = []

    def start() -> Run:
        runs.append(Run(str(COMMAND), "run", file))
        runs[-1].wait("partition.claimed", 1, 60.0)
        return runs[-1]

    yield start
    for run in runs:
        run.close()
        print("\n".join(map(str, run.lines[-40:])), *run.noise[-20:])
