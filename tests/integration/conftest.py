"""`cluster`: one broker, and a way to it for those whom a test wants to disturb. `built`: the distributions."""

from collections.abc import Iterator

import pytest

from tests.conftest import missing
from tests.integration.wheels import builder, built, source_tree  # noqa: F401
from tests.servers import Unavailable
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
