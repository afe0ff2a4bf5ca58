"""Quix Streams: a tumbling count window with three aggregations. It has no timeout: a key with fewer records than the
window's waits for ever."""

import os

from quixstreams import Application
from quixstreams.dataframe.windows import Count, Max, Sum

from tests.bench.peers.programs import said

said.started()
app = Application(
    broker_address=os.environ["BENCH_BOOTSTRAP"],
    consumer_group=os.environ["BENCH_GROUP"],
    auto_offset_reset="earliest",
    state_dir=os.environ["BENCH_FOLDER"],
    processing_guarantee=os.environ["BENCH_GUARANTEE"],  # type: ignore[arg-type]
    commit_interval=float(os.environ["BENCH_COMMIT"]),
    loglevel="WARNING",
    consumer_extra_config={"fetch.queue.backoff.ms": 5},
)
orders = app.topic(os.environ["BENCH_TOPIC"], key_deserializer="str", value_deserializer="json")
totals = app.topic(os.environ["BENCH_OUT"], key_serializer="str", value_serializer="json")


def amount(order: dict) -> int:
    said.first()
    return order["amount"]


def result(window: dict, key: str, timestamp: int, headers: object) -> dict:
    return {"key": key, "n": window["n"], "sum": window["sum"], "max": window["max"]}


frame = app.dataframe(orders).apply(amount).tumbling_count_window(said.COUNT)
frame = frame.agg(n=Count(), sum=Sum(), max=Max()).final().apply(result, metadata=True)
frame.to_topic(totals)

if __name__ == "__main__":
    app.run()
