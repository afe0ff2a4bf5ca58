"""A run is stopped while its brokers do not answer: it ends by itself, and in time."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.bench.results import reader
from tests.integration.supervised.run import Run
from tests.servers.cluster import Cluster
from tests.waiting import wait_until

FILE = """\
app: shop
kafka: {{bootstrap.servers: "{bootstrap}"}}
store: sqlite:///{folder}/state.db
http: {{port: 0}}
dead_letters: dead
agents:
  pairs:
    from: orders
    aggregate: {{count: 2, compute: {{total: {{sum: amount}}}}}}
    to: {{topic: sums}}
"""


def results(messages: Any, many: int) -> bool:
    return len(messages.consume(many, 0.1)) == many


def test_a_stop_ends_in_time_while_the_brokers_are_silent(
    cluster: Cluster, tmp_path: Path, make_topic: Callable[..., str]
) -> None:
    """A row waits for its report until the time to drain is over. The next run sends it."""
    for topic in ("orders", "sums", "dead"):
        make_topic(topic, 1, cluster.url)
    file = tmp_path / "app.yaml"
    file.write_text(FILE.format(bootstrap=cluster.bootstrap(0), folder=tmp_path))
    run = Run(str(Path(sys.executable).with_name("sluicegate")), "run", str(file))
    feed, sums = Producer({"bootstrap.servers": cluster.url, "log_level": 0}), reader(cluster.url, "sums")
    [[proxy]] = cluster.ways
    try:
        give(feed)
        wait_until(lambda: results(sums, 1), 120, "the first result")
        proxy.hold("to-server", b"sums")
        give(feed)
        wait_until(lambda: proxy.held, 60, "a row on its way")
        run.signal(signal.SIGTERM)
        assert run.exit_code(timeout=100) == 0
        assert run.events("supervisor.killing") == []
        run.close()
        file.write_text(FILE.format(bootstrap=cluster.url, folder=tmp_path))
        run = Run(str(Path(sys.executable).with_name("sluicegate")), "run", str(file))
        wait_until(lambda: results(sums, 1), 120, "the second result")
    finally:
        run.close()
        sums.close()


def give(feed: Producer) -> None:
    for _ in range(2):
        feed.produce("orders", b'{"amount": 1}', b"k")
    assert feed.flush(20) == 0
