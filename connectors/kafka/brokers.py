"""The features of brokers. Each broker tells a client the requests that it takes, each up to a version.

librdkafka has no call for that. It logs the list when `debug: feature` is set.
"""

import logging
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from sluicegate.connectors.kafka import problems, settings

PAUSE = 0.05
"""Seconds between two looks at the log."""
_LINE = re.compile(r"ApiKey \S+ \((\d+)\) Versions \d+\.\.(\d+)$")

Requests = Mapping[int, int]
"""The highest version of each request that a broker takes, by the request's number in Kafka's protocol."""

RELEASES = (("4.4", 28, 6), ("4.3", 35, 5), ("4.2", 8, 10), ("4.1", 0, 13), ("4.0", 0, 12), ("3.9", 1, 17))
"""By release, newest first: the number of a request and the version that this release was the first to take. Compared
with these brokers."""


class BrokerNeed(NamedTuple):
    """A request with its lowest version, and what is lacking without it. `always`: no app runs without it. `setting`:
    else the setting that needs it."""

    request: int
    version: int
    lack: str
    always: bool = False
    setting: str = ""


NEEDS = (
    BrokerNeed(22, 0, "no idempotent producer: results cannot be sent exactly once", always=True),
    BrokerNeed(68, 0, "no consumer groups of KIP-848", setting="group.protocol"),
    BrokerNeed(24, 0, "no transactions", setting="delivery"),
    BrokerNeed(28, 0, "no offsets in transactions", setting="delivery"),
    BrokerNeed(23, 2, "no leader epochs: a log that was cut is noticed only when the offset lies behind its end"),
    BrokerNeed(3, 10, "no ids of topics: a topic that was deleted and made again is not noticed"),
    BrokerNeed(32, 0, "no settings of topics: sizes, retention and replicas are not checked"),
    BrokerNeed(19, 0, "no creation of topics: `sluicegate topics --create` fails"),
)


def versions(kafka: Mapping[str, Any], timeout: float) -> Requests:
    """The versions of the first broker that answers; empty if librdkafka logs no list. Raises SystemNotReady, and
    ConfigurationError."""
    lines = _Lines()
    wanted = {**settings.admin(kafka), "debug": "feature", "log_level": 7, "logger": lines.logger}
    client, deadline = problems.client(AdminClient, wanted), time.monotonic() + timeout
    try:
        client.list_topics(timeout=timeout)
    except KafkaException as error:
        raise problems.not_ready("listing the topics failed", error) from error
    while not lines.complete and time.monotonic() < deadline:
        client.poll(PAUSE)
    return lines.versions


def release(versions: Requests) -> str:
    """The newest release of Kafka whose requests these brokers take; empty for a release older than all of RELEASES."""
    return next((name for name, number, version in RELEASES if versions.get(number, -1) >= version), "")


def lacking(versions: Requests) -> Iterator[BrokerNeed]:
    return (need for need in NEEDS if versions.get(need.request, -1) < need.version)


class _Lines(logging.Handler):
    """Reads the list in the log of one client."""

    def __init__(self) -> None:
        super().__init__()
        self.versions: dict[int, int] = {}
        self.complete = False
        self.logger = logging.Logger("sluicegate.connectors.kafka.brokers")
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if (match := _LINE.search(text)) is not None:
            self.versions[int(match[1])] = int(match[2])
        elif self.versions:
            self.complete = True
