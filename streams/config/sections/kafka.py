"""The `kafka:` section: librdkafka's own settings, checked against the names, kinds and ranges that it supports.

`kafka_settings.json` lists them, `kafka_descriptions.json` describes them; both say how they were made.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

from sluicegate.streams.config.text.problems import FileFinding
from sluicegate.streams.config.text.scalars import Unknown, as_written
from sluicegate.streams.hints import did_you_mean

EMBEDDED = "embedded"
KafkaSetting = str | int | float | bool

_OURS = "leave it out: Sluicegate sets it"
_BY_THE_STORE = "offsets are committed with the state, in the store"
_BY_THE_RELAY = "the relay sends in order, without loss, whatever the broker does"
_EXPLICIT = "every output row has its partition before it is sent"
_GAPS = "a lost or passed offset must halt the partition, loudly"
REFUSED: Mapping[str, str] = {
    "group.id": "is always APP.AGENT",
    "group.instance.id": "would fence the workers of one agent from each other",
    "group.protocol.type": "must be a protocol of consumer groups",
    "client.id": "names the worker",
    "enable.auto.commit": _BY_THE_STORE,
    "auto.commit.enable": _BY_THE_STORE,
    "auto.commit.interval.ms": _BY_THE_STORE,
    "enable.auto.offset.store": _BY_THE_STORE,
    "offset.store.method": _BY_THE_STORE,
    "offset.store.path": _BY_THE_STORE,
    "offset.store.sync.interval.ms": _BY_THE_STORE,
    "auto.offset.reset": f"{_GAPS}; where a new agent begins is `start` of the agent",
    "isolation.level": "aborted records must not count: read_committed",
    "check.crcs": "a corrupt record must not count",
    "enable.partition.eof": "the end of a partition is no event here",
    "fetch.queue.backoff.ms": "librdkafka's default would stop fetching for a second at a time",
    "allow.auto.create.topics": "`sluicegate topics --create` makes topics",
    "enable.idempotence": _BY_THE_RELAY,
    "enable.gapless.guarantee": _BY_THE_RELAY,
    "acks": _BY_THE_RELAY,
    "request.required.acks": _BY_THE_RELAY,
    "message.timeout.ms": _BY_THE_RELAY,
    "delivery.timeout.ms": _BY_THE_RELAY,
    "message.send.max.retries": _BY_THE_RELAY,
    "retries": _BY_THE_RELAY,
    "queuing.strategy": _BY_THE_RELAY,
    "delivery.report.only.error": "every delivery report is needed",
    "produce.offset.report": "every delivery report is needed",
    "partitioner": _EXPLICIT,
    "sticky.partitioning.linger.ms": _EXPLICIT,
    "transactional.id": "belongs to the outbox; `delivery: transactional` of an agent asks for transactions",
    "transaction.timeout.ms": "belongs to the outbox; `delivery: transactional` of an agent asks for transactions",
    "log.queue": "the worker reads the client's log its own way",
    "enabled_events": "the worker reads the client's events its own way",
    "internal.termination.signal": "the worker ends in order",
    "plugin.library.paths": "no code is loaded from a configuration file",
    "topic.blacklist": "the agents name their topics",
    "share.acknowledgement.mode": "share groups have no order",
    "builtin.features": "it only reads",
}
BY_THE_GROUP_COORDINATOR = ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")
_STRATEGIES = ("cooperative-sticky", "range", "roundrobin", "range,roundrobin", "roundrobin,range")
_TRUTH = {"true": True, "false": False}


@cache
def known() -> Mapping[str, list[str | int]]:
    """Setting -> [kind, ...]: `boolean`, `text`, `integer` and `number` with least and most, `choice` with its
    words."""
    text = files("sluicegate.streams.config").joinpath("kafka_settings.json").read_text("utf-8")
    settings: dict[str, list[str | int]] = json.loads(text)["settings"]
    return settings


@cache
def descriptions() -> Mapping[str, str]:
    """librdkafka's own text for each setting that a file can hold."""
    text = files("sluicegate.streams.config").joinpath("kafka_descriptions.json").read_text("utf-8")
    settings: dict[str, str] = json.loads(text)["settings"]
    return settings


def allowed() -> list[str]:
    return sorted(name for name in known() if name not in REFUSED and name != "metadata.broker.list")


def findings(settings: Mapping[str, object]) -> Iterator[FileFinding]:
    """All problems of the section."""
    if "bootstrap.servers" not in settings and "metadata.broker.list" not in settings:
        yield FileFinding(
            ("kafka", "bootstrap.servers"), "is missing", "write host:9092, or embedded for a broker of our own"
        )
    for name, value in settings.items():
        finding = _finding(name, value)
        if finding is not None:
            yield FileFinding(("kafka", name), *finding)
    if str(settings.get("group.protocol")).lower() == "consumer":
        for name in BY_THE_GROUP_COORDINATOR:
            if name in settings:
                hint = "leave it out: the broker decides it, with group.consumer.* settings"
                yield FileFinding(("kafka", name), "cannot be set with group.protocol: consumer", hint)


def _finding(name: str, value: object) -> tuple[str, str] | None:
    if name == "metadata.broker.list":
        return "is another name of bootstrap.servers", "write bootstrap.servers"
    if name not in known():
        return "is no setting of librdkafka that a file can hold", did_you_mean(name, allowed())
    if name in REFUSED:
        return f"cannot be set: {REFUSED[name]}", _OURS
    if isinstance(value, Unknown):
        return None
    if converted(name, value) is None:
        return _expected(name)
    if name == "partition.assignment.strategy" and value not in _STRATEGIES:
        return (
            "is no assignment strategy",
            "write cooperative-sticky (the default), or range or roundrobin for eager rebalances",
        )
    if name.startswith("max.in.flight") and not 1 <= int(str(converted(name, value))) <= 5:
        return "must be 1 to 5", "an idempotent producer allows no more"
    return None


def _expected(name: str) -> tuple[str, str]:
    kind, *rest = known()[name]
    match kind:
        case "boolean":
            return "must be true or false", "write true or false"
        case "integer":
            return "must be a whole number", f"write a number from {rest[0]} to {rest[1]}, without a unit"
        case "number":
            return "must be a number", f"write a number from {rest[0]} to {rest[1]}, without a unit"
        case "choice":
            return "is not one of the allowed words", f"write one of {', '.join(map(str, rest))}"
    return "must be text", "write one line of text"


def converted(name: str, value: object) -> KafkaSetting | None:
    """The value as librdkafka's client takes it. None when it is not of the setting's kind and range."""
    kind, *rest = known()[name]
    text = as_written(value)
    if isinstance(text, bool):
        return text if kind == "boolean" else None
    if not isinstance(text, str):
        return None
    match kind:
        case "boolean":
            return _TRUTH.get(text)
        case "integer":
            return int(text) if re.fullmatch(r"-?[0-9]{1,12}", text) and _within(int(text), rest) else None
        case "number":
            return (
                float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) and _within(float(text), rest) else None
            )
        case "choice":
            return next((str(word) for word in rest if str(word).lower() == text.lower()), None)
    return text if text and "\0" not in text else None


def _within(number: float, limits: list[str | int]) -> bool:
    return int(limits[0]) <= number <= int(limits[1])
