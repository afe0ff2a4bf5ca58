"""A broker inside this process (librdkafka's mock cluster), for the demo, development and quick tests."""

import ctypes
from collections.abc import Mapping
from typing import Any

from confluent_kafka import cimpl

from sluicegate.streams.errors import SystemNotReady

PRODUCER = 0
TEXT = 512


class EmbeddedBroker:
    """One broker with these topics on a free loopback port, until `close` or the end of the process.

    It runs in a thread of librdkafka, which confluent_kafka has loaded, and keeps everything in memory. As tested with
    librdkafka 2.16:

    - A partition holds about 5 MiB of record batches as they were sent (compressed or not). Beyond that the broker
      silently drops the oldest batches: the low offset moves. Producers must stay close to their consumers.
    - Groups (eager, cooperative, KIP-848), committed offsets with metadata, topic ids, idempotent producers and
      session timeouts of any length work. The first rebalance of a group does not wait.
    - Topics are created here, or by the first request for an unknown name (4 partitions). Admin requests that create
      topics or read settings are not supported. A search by time finds nothing, as if every record were older.
    - Transactions leave no markers: aborted records are read.
    """

    def __init__(self, topics: Mapping[str, int]) -> None:
        """`topics` maps names to numbers of partitions. Raises SystemNotReady when the library has no mock cluster."""
        try:
            self._library = _library()
        except (OSError, AttributeError) as error:
            raise SystemNotReady(
                "embedded broker: this build of confluent_kafka has none; give kafka.bootstrap.servers a real one"
            ) from error
        text = ctypes.create_string_buffer(TEXT)
        conf = self._library.rd_kafka_conf_new()
        self._library.rd_kafka_conf_set(conf, b"log_level", b"0", text, TEXT)
        client = self._library.rd_kafka_new(PRODUCER, conf, text, TEXT)
        if client is None:
            raise SystemNotReady(f"embedded broker: {text.value.decode(errors='replace')}")
        self._client = client
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, 1)
        self._library.rd_kafka_mock_set_controller_id(self._cluster, 1)  # without one, admin requests wait for ever
        self._library.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, 0)
        for name, partitions in topics.items():
            code = self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1)
            if code != 0:
                raise SystemNotReady(
                    f"embedded broker: topic {name} with {partitions} partitions cannot be made (error {code})"
                )
        self.bootstrap: str = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def close(self) -> None:
        """Stop the broker and drop its data. Connected clients lose their connection."""
        if self._cluster is not None:
            self._library.rd_kafka_mock_cluster_destroy(self._cluster)
            self._library.rd_kafka_destroy(self._client)
            self._cluster = self._client = None


SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "rd_kafka_conf_new": (ctypes.c_void_p, []),
    "rd_kafka_conf_set": (
        ctypes.c_int,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t],
    ),
    "rd_kafka_new": (ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]),
    "rd_kafka_destroy": (None, [ctypes.c_void_p]),
    "rd_kafka_mock_cluster_new": (ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int]),
    "rd_kafka_mock_cluster_destroy": (None, [ctypes.c_void_p]),
    "rd_kafka_mock_cluster_bootstraps": (ctypes.c_char_p, [ctypes.c_void_p]),
    "rd_kafka_mock_set_controller_id": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int32]),
    "rd_kafka_mock_group_initial_rebalance_delay_ms": (None, [ctypes.c_void_p, ctypes.c_int32]),
    "rd_kafka_mock_topic_create": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]),
}


def _library() -> ctypes.CDLL:
    """librdkafka, found through the extension module that is linked to it."""
    library = ctypes.CDLL(cimpl.__file__)
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
