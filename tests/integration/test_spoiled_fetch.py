"""A bit of a record that flips on its way from the broker: its checksum tells, and it is read again."""

from collections.abc import Callable

from tests.chaos.conftest import scene, store_url  # noqa: F401
from tests.chaos.scene import Scene
from tests.servers.cluster import Cluster
from tests.waiting import wait_until

MakeScene = Callable[..., Scene]
TIMES = 3


def test_records_with_a_flipped_bit_are_read_again_and_end_no_process(cluster: Cluster, scene: MakeScene) -> None:  # noqa: F811
    app = scene("sqlite", bootstrap=cluster.url)
    [[wire]] = cluster.ways
    worker = app.run(bootstrap=cluster.bootstrap(0))
    app.feed.start()
    for times in range(1, TIMES + 1):
        app.flowing()
        wire.spoil("to-client", b'{"v": ')
        wait_until(lambda times=times: wire.spoiled == times, 30, "a flipped bit")  # type: ignore[misc]
    app.flowing()
    verdict = app.verdict()
    assert verdict.clean, verdict
    events = worker.events("partition.unavailable")
    assert [event["error"].count("failed CRC32C check") for event in events] == [1] * TIMES
    assert len(worker.events("worker.started")) == 1
    worker.terminate()
    assert worker.exit_code() == 0
