"""Records a second that one process decodes and folds, by format: the same flights as JSON and as Avro.

    python -m tests.bench.formats [--passes 5]

CPU time of batches of 1,000 through `accept`, without Kafka; of all batches the fastest tenth, which others on the
machine disturb least, and the median. The formats take turns in each pass.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from io import BytesIO
from statistics import quantiles
from typing import Any

import fastavro
import msgspec

from sluicegate.schemas import Avro, codec
from sluicegate.schemas.json import encode
from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.testing.log import LogRecord
from tests.bench.table import aligned

BATCH, BATCHES = 1_000, 20
OPTIONAL = ["null", "double"]
FLIGHT = {
    "type": "record",
    "name": "Flight",
    "fields": [
        *({"name": name, "type": "string"} for name in ("carrier", "tailnum", "origin", "dest")),
        *({"name": name, "type": "int"} for name in ("flight", "distance")),
        *({"name": name, "type": OPTIONAL} for name in ("dep_delay", "arr_delay", "air_time")),
        {"name": "time_hour", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
COMPUTE = (Reducer("n", "count"), Reducer("total", "sum", "dep_delay"), Reducer("worst", "max", "dep_delay"))


def flights() -> list[dict[str, Any]]:
    """Ten fields each; about 180 bytes as JSON, 56 as Avro."""
    return [
        {
            "carrier": "UA",
            "tailnum": f"N{14000 + n}",
            "origin": "EWR",
            "dest": "IAH",
            "flight": n,
            "distance": 1400,
            "dep_delay": n / 8,
            "arr_delay": 11.0,
            "air_time": 227.0,
            "time_hour": f"2013-01-01T{n % 24:02d}:00:00Z",
        }
        for n in range(BATCH)
    ]


def folding(name: str, rule: Aggregation) -> Callable[[], object]:
    """One batch into the groups of a rule."""
    avro = Avro(json.dumps(FLIGHT)) if name == "avro" else None
    form = codec(name, avro)
    records = [LogRecord("in", 0, n, b"k%d" % (n % 10), form.encode(flight)) for n, flight in enumerate(flights())]
    groups = Groups(Rule(Agent("bench", ("in",), rule, Destination("out"), "dead", format=name, schema=avro), form))

    def fold() -> None:
        accept(groups, records, 1_700_000_000.0)
        groups.events.clear()

    return fold


def loop(decode: Callable[[bytes], Any], values: Sequence[bytes]) -> Callable[[], object]:
    return lambda: [decode(value) for value in values]


def rows() -> dict[str, Callable[[], object]]:
    form, text = codec("avro", Avro(json.dumps(FLIGHT))), codec("json")
    binary, plain = [form.encode(flight) for flight in flights()], [encode(flight) for flight in flights()]
    schema, read = fastavro.parse_schema(FLIGHT), fastavro.schemaless_reader
    narrow = fastavro.parse_schema({**FLIGHT, "fields": [{"name": "dep_delay", "type": OPTIONAL}]})
    wanted = msgspec.json.Decoder(msgspec.defstruct("Wanted", [("dep_delay", float)])).decode
    folds, collects = (
        Aggregation(count=100, compute=COMPUTE),
        Aggregation(count=100, compute=(Reducer("rows", "collect"),)),
    )
    return {
        "JSON: count, sum, max": folding("json", folds),
        "Avro: count, sum, max": folding("avro", folds),
        "JSON: collect": folding("json", collects),
        "Avro: collect": folding("avro", collects),
        "JSON: one field (msgspec)": loop(wanted, plain),
        "JSON: whole (msgspec)": loop(text.decode, plain),
        "Avro: whole, as JSON values": loop(form.decode, binary),
        "Avro: fastavro alone": loop(lambda value: read(BytesIO(value), schema, None), binary),
        "Avro: fastavro alone, one field": loop(lambda value: read(BytesIO(value), schema, narrow), binary),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.formats")
    parser.add_argument("--passes", type=int, default=5)
    options = parser.parse_args()
    results: dict[str, list[float]] = {}
    jobs = rows()
    for _ in range(options.passes):
        for name, job in jobs.items():
            for _ in range(BATCHES):
                begin = time.thread_time()
                job()
                results.setdefault(name, []).append(BATCH / (time.thread_time() - begin))
    lines = [
        (name, f"{quantiles(rates, n=10)[-1]:,.0f}", f"{quantiles(rates, n=2)[0]:,.0f}")
        for name, rates in results.items()
    ]
    print(aligned([("records a second", "90 %", "median"), *lines]))


if __name__ == "__main__":
    main()
