"""The `kafka:` section: librdkafka's own settings, checked against the names, kinds and ranges that it supports, and
`login`, which stands for several of them.

The settings belong to one cluster, or to several by their names. A value that is a mapping names a cluster: no setting
has such a value. `kafka_settings.json` lists librdkafka's settings, `kafka_descriptions.json` describes them; both
files say how they were made.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from sluicegate.streams.agent import EMBEDDED
from sluicegate.streams.config.sections.fields import CLUSTER_NAME
from sluicegate.streams.config.text.problems import FileFinding, Path
from sluicegate.streams.config.text.scalars import Unknown, as_written
from sluicegate.streams.hints import did_you_mean

DEFAULT = "default"
"""The key that names the default cluster."""
KafkaSetting = str | int | float | bool

_OURS = "leave it out: Sluicegate sets it"
BOOTSTRAP = "bootstrap.servers"
_ADDRESSES = "write host:port, several with commas between them, such as broker1:9092,broker2:9092"
_ADDRESS_LIST = re.compile(r"((?:(?:sasl_)?(?:plaintext|ssl)://)?[^/,]*(?:,|$))*", re.IGNORECASE)
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
    "enable.partition.eof": "the end of a partition is not an event here",
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
    "queue.buffering.backpressure.threshold": "an idempotent producer allows only 1, the default",
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
LOGIN = "login"
OIDC, LOGINS = "oidc", ("oidc", "msk-iam", "azure", "gcp")
LOGIN_DESCRIPTION = (
    "How the clients log in by tokens that are renewed (SASL/OAUTHBEARER over TLS). `oidc`: tokens of the issuer at "
    "sasl.oauthbearer.token.endpoint.url, for sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret, or by a "
    "JWT assertion. `msk-iam`, `azure`, `gcp`: tokens of the cloud (Amazon MSK, Azure Event Hubs, Google Managed "
    "Service for Apache Kafka), with the credentials that its library finds in the environment."
)
_UNSECURED = "enable.sasl.oauthbearer.unsecure.jwt"
BY_THE_LOGIN = ("sasl.username", "sasl.password", _UNSECURED)
BY_THE_CLOUD = ("sasl.oauthbearer.method", "sasl.oauthbearer.metadata.authentication.type")
_OAUTH = "sasl.oauthbearer."
_CONFIG = f"{_OAUTH}config"
_A_LOGIN = f"write {LOGIN}: {', '.join(LOGINS[:-1])} or {LOGINS[-1]}"
_SECRETS = tuple(
    f"{_OAUTH}{name}"
    for name in (
        "client.secret",
        "client.credentials.client.secret",
        "assertion.file",
        "assertion.private.key.file",
        "assertion.private.key.pem",
    )
)
SESSION, HEARTBEAT = "session.timeout.ms", "heartbeat.interval.ms"
BY_THE_GROUP_COORDINATOR = (SESSION, HEARTBEAT, "partition.assignment.strategy")
_SESSION_DEFAULT = 10_000
_ORDERED = (
    ("max.poll.interval.ms", 300_000, SESSION, _SESSION_DEFAULT),
    (SESSION, _SESSION_DEFAULT, HEARTBEAT, 1),
    ("reconnect.backoff.max.ms", 10_000, "reconnect.backoff.ms", 100),
)
"""Settings of which librdkafka, or a group, needs the first to be at least the second, each with its default."""
_MESSAGE, _FETCH, _RESPONSE = "message.max.bytes", "fetch.max.bytes", "receive.message.max.bytes"
_FETCH_DEFAULT = 52_428_800
_FRAME = 512  # bytes of a response beside its records
_BROKER_SESSIONS = (6_000, 1_800_000)
"""Milliseconds: `group.min.session.timeout.ms` and `group.max.session.timeout.ms` of a broker, by default."""
_HEARTBEATS = 3  # in a session, by the documentation of Kafka
_STRATEGIES = ("cooperative-sticky", "range", "roundrobin", "range,roundrobin", "roundrobin,range")
_TRUTH = {"true": True, "false": False}


@cache
def known_settings() -> Mapping[str, list[str | int]]:
    """By setting: its kind and arguments. `boolean`, `text`, `integer` and `number` with least and most, `choice` with
    its words."""
    text = files("sluicegate.streams.config").joinpath("kafka_settings.json").read_text("utf-8")
    settings: dict[str, list[str | int]] = json.loads(text)["settings"]
    return {**settings, LOGIN: ["choice", *LOGINS]}


@cache
def descriptions() -> Mapping[str, str]:
    """The description of each setting that a file can hold: librdkafka's own ones, and `login`."""
    text = files("sluicegate.streams.config").joinpath("kafka_descriptions.json").read_text("utf-8")
    settings: dict[str, str] = json.loads(text)["settings"]
    return {**settings, LOGIN: LOGIN_DESCRIPTION}


def allowed() -> list[str]:
    return sorted(name for name in known_settings() if name not in REFUSED and name != "metadata.broker.list")


class NamedClusters(NamedTuple):
    """The clusters of the section. The only cluster of a section without names has the empty name."""

    default: str
    settings: Mapping[str, Mapping[str, object]]
    path: Path = ("kafka",)

    def of(self, name: str) -> tuple[Path, Mapping[str, object]]:
        """The path of the settings in the file, and the settings."""
        return (*self.path, name) if name else self.path, self.settings[name]


def clusters_of(section: object) -> NamedClusters:
    """The clusters of the section. Problems of the section are ignored."""
    if not isinstance(section, Mapping):
        return NamedClusters("", {})
    several = {str(name): value for name, value in section.items() if isinstance(value, Mapping)}
    if not several:
        return NamedClusters("", {"": section})
    default = section.get(DEFAULT)
    return NamedClusters(default if isinstance(default, str) and default in several else next(iter(several)), several)


def findings(section: Mapping[str, object]) -> Iterator[FileFinding]:
    """All problems of the section."""
    clusters = clusters_of(section)
    if "" not in clusters.settings:
        yield from _of_names(section, list(clusters.settings))
    for name in clusters.settings:
        yield from _of_cluster(*clusters.of(name))


def _of_names(section: Mapping[str, object], names: list[str]) -> Iterator[FileFinding]:
    for name in section:
        if name != DEFAULT and name not in names:
            hint = "write it below each cluster that it holds for, or give the cluster its settings"
            yield FileFinding(("kafka", name), "is not a cluster, and kafka names clusters here", hint)
        elif name in names and (name == DEFAULT or not re.fullmatch(CLUSTER_NAME, name)):
            hint = "use only letters, digits and . _ - (at most 64), and not the word default"
            yield FileFinding(("kafka", name), "is not the name of a cluster", hint)
    default = section.get(DEFAULT)
    if default is None and len(names) > 1:
        what = "does not say which cluster is meant by a topic without one"
        yield FileFinding(("kafka",), what, f"write default: {names[0]}, or another of its names")
    elif isinstance(default, str) and not isinstance(default, Unknown) and default not in names:
        yield FileFinding(("kafka", DEFAULT), "names no cluster of kafka", did_you_mean(default, names))


def _of_cluster(path: Path, settings: Mapping[str, object]) -> Iterator[FileFinding]:
    if "bootstrap.servers" not in settings and "metadata.broker.list" not in settings:
        hint = "write host:9092, or embedded for the embedded broker"
        yield FileFinding((*path, "bootstrap.servers"), "is missing", hint)
    for name, value in settings.items():
        finding = _finding(name, value)
        if finding is not None:
            yield FileFinding((*path, name), *finding)
    if str(settings.get("group.protocol")).lower() == "consumer":
        for name in BY_THE_GROUP_COORDINATOR:
            if name in settings:
                hint = "leave it out: the broker decides it, with group.consumer.* settings"
                yield FileFinding((*path, name), "cannot be set with group.protocol: consumer", hint)
    yield from _out_of_order(path, settings)
    if str(settings.get(LOGIN)).lower() in LOGINS:
        yield from _login_findings(path, str(settings[LOGIN]).lower(), settings)
    elif LOGIN not in settings:
        yield from _token_findings(path, settings)


def _number(settings: Mapping[str, object], name: str, default: int) -> int | None:
    """The setting as a number; None: the value is unknown, or invalid, which is another problem."""
    value = settings.get(name, default)
    if type(value) is int:
        return value
    known = None if isinstance(value, Unknown) else converted(name, value)
    return known if isinstance(known, int) else None


def _out_of_order(path: Path, settings: Mapping[str, object]) -> Iterator[FileFinding]:
    for larger, most, smaller, least, more in _orders(settings):
        if most is not None and least is not None and most < least + more:
            written, needs = (larger if larger in settings else smaller), ((*path, larger), (*path, smaller))
            bound = f"{smaller} + {more}" if more else smaller
            what = f"contradict each other: {larger} must be at least {bound}, which is {least + more}"
            yield FileFinding((*path, written), what, f"raise {larger}, or lower {smaller}", needs)


def _orders(settings: Mapping[str, object]) -> Iterator[tuple[str, int | None, str, int | None, int]]:
    """The larger setting and its value, the smaller one and its value, and by how much the larger one must exceed it.
    librdkafka adapts the sizes of fetches and of responses that are not written."""
    for larger, default, smaller, other in _ORDERED:
        yield larger, _number(settings, larger, default), smaller, _number(settings, smaller, other), 0
    message, queue = _number(settings, _MESSAGE, 1_000_000), _number(settings, "queued.max.messages.kbytes", 16_384)
    fetch = None if message is None or queue is None else max(min(_FETCH_DEFAULT, queue * 1024), message)
    if _FETCH in settings:
        fetch = _number(settings, _FETCH, 0)
        yield _FETCH, fetch, _MESSAGE, message, 0
    if _RESPONSE in settings:
        yield _RESPONSE, _number(settings, _RESPONSE, 0), _FETCH, fetch, _FRAME


def warnings(path: Path, settings: Mapping[str, object]) -> Iterator[FileFinding]:
    """Times of a session that many brokers refuse, or that a late heartbeat ends. The embedded broker takes any."""
    session, interval = _number(settings, SESSION, _SESSION_DEFAULT), _number(settings, HEARTBEAT, 1)
    if session is None or interval is None or str(settings.get("group.protocol")).lower() == "consumer":
        return
    at, beat, (least, most) = (*path, SESSION), (*path, HEARTBEAT), _BROKER_SESSIONS
    if settings.get("bootstrap.servers") != EMBEDDED and not least <= session <= most:
        what = f"is not from {least} to {most}, the defaults of group.min and group.max.session.timeout.ms of a broker"
        yield FileFinding(at, what, "write a time between them, or change these settings of the broker", (at,))
    if interval * _HEARTBEATS > session:
        what = f"is more than a third of {SESSION}: a worker loses its partitions after a late heartbeat"
        yield FileFinding(beat, what, f"write at most {max(1, session // _HEARTBEATS)}, or leave it out", (beat, at))


def _login_findings(path: Path, login: str, settings: Mapping[str, object]) -> Iterator[FileFinding]:
    """Settings that contradict the login, and settings that it needs."""
    if settings.get("bootstrap.servers") == EMBEDDED:
        yield FileFinding(
            (*path, LOGIN), "cannot be used with the embedded broker, which needs no login", "leave it out"
        )
    for name in (*BY_THE_LOGIN, *(BY_THE_CLOUD if login != OIDC else ())):
        if name in settings:
            hint = "leave it out, or leave out login"
            yield FileFinding((*path, name), f"cannot be set with login: {login}, which decides it", hint)
    for name, words in (
        ("security.protocol", ("sasl_ssl", "sasl_plaintext")),
        ("sasl.mechanism", ("oauthbearer",)),
        ("sasl.mechanisms", ("oauthbearer",)),
        ("sasl.oauthbearer.method", ("oidc",)),
    ):
        value = settings.get(name)
        if value is not None and not isinstance(value, Unknown) and str(value).lower() not in words:
            hint = f"leave it out, or write {words[0]}"
            yield FileFinding((*path, name), f"contradicts login: {login}, which uses SASL/OAUTHBEARER", hint)
    if login == OIDC:
        yield from _oidc_findings(path, settings)


def _token_findings(path: Path, settings: Mapping[str, object]) -> Iterator[FileFinding]:
    """Settings of SASL/OAUTHBEARER without `login`: librdkafka gets a token only from an issuer, or makes an unsecured
    one itself."""
    method = settings.get(f"{_OAUTH}method", "")
    if isinstance(method, Unknown):
        return
    if str(method).lower() == OIDC:
        yield from _oidc_findings(path, settings)
        return
    unused = [name for name in settings if name.startswith(_OAUTH) and name not in (f"{_OAUTH}method", _CONFIG)]
    for name in unused:
        yield FileFinding((*path, name), f"has no effect without {LOGIN}: {OIDC}", f"write {LOGIN}: {OIDC}")
    if unused or str(settings.get(_UNSECURED, False)).lower() != "false":
        return
    for name in ("sasl.mechanism", "sasl.mechanisms"):
        if str(settings.get(name)).lower() == "oauthbearer":
            yield FileFinding((*path, name), "OAUTHBEARER has no tokens without login", _A_LOGIN)


def _oidc_findings(path: Path, settings: Mapping[str, object]) -> Iterator[FileFinding]:
    """Settings that librdkafka needs to ask an issuer. A metadata service needs none, because it knows its clients."""
    at = (*path, LOGIN if LOGIN in settings else f"{_OAUTH}method")
    service = str(settings.get(f"{_OAUTH}metadata.authentication.type", "none")).lower()
    if service == "aws_iam" and _CONFIG not in settings:
        yield FileFinding(at, f"aws_iam needs {_CONFIG}", "write region=REGION,audience=AUDIENCE")
    if service != "none":
        return
    if f"{_OAUTH}token.endpoint.url" not in settings:
        yield FileFinding(
            at, f"oidc needs {_OAUTH}token.endpoint.url", "write the URL at which the issuer gives tokens"
        )
    if not any(name in settings for name in _SECRETS):
        hint = f"write {_OAUTH}client.id and {_OAUTH}client.secret"
        yield FileFinding(at, f"oidc needs {_OAUTH}client.secret, or an assertion", hint)
    elif any(name in settings for name in _SECRETS[:2]) and not any(
        f"{_OAUTH}{name}" in settings for name in ("client.id", "client.credentials.client.id")
    ):
        yield FileFinding(at, f"oidc needs {_OAUTH}client.id", "write the name under which the issuer knows this app")


def _finding(name: str, value: object) -> tuple[str, str] | None:
    if name == "metadata.broker.list":
        return "is another name of bootstrap.servers", "write bootstrap.servers"
    if name not in known_settings():
        return "is not a setting of librdkafka that a file can hold", did_you_mean(name, allowed())
    if name in REFUSED:
        return f"cannot be set: {REFUSED[name]}", _OURS
    if isinstance(value, Unknown):
        return None
    if converted(name, value) is None:
        return _expected(name)
    if name == BOOTSTRAP and not _ADDRESS_LIST.fullmatch(str(value)):
        return "is not a list of broker addresses", _ADDRESSES
    if name == "partition.assignment.strategy" and value not in _STRATEGIES:
        return (
            "is not an assignment strategy",
            "write cooperative-sticky (the default), or range or roundrobin for eager rebalances",
        )
    if name.startswith("max.in.flight") and not 1 <= int(str(converted(name, value))) <= 5:
        return "must be 1 to 5", "an idempotent producer allows no more"
    return None


def _expected(name: str) -> tuple[str, str]:
    kind, *rest = known_settings()[name]
    match kind:
        case "boolean":
            return "must be true or false", "write true or false"
        case "integer":
            return "must be a whole number", f"write a number from {rest[0]} to {rest[1]}, without a unit"
        case "number":
            return "must be a number", f"write a number from {rest[0]} to {rest[1]}, without a unit"
        case "choice":
            return "is not one of the allowed words", f"write one of {', '.join(map(str, rest))}"
    if name == BOOTSTRAP:
        return "must be text", _ADDRESSES
    return "must be text", "write one line of text"


def converted(name: str, value: object) -> KafkaSetting | None:
    """The value in the form of librdkafka's client; None: it is not of the setting's kind and range."""
    kind, *rest = known_settings()[name]
    text = as_written(value)
    if isinstance(text, bool):
        return text if kind == "boolean" else None
    if not isinstance(text, str):
        return None
    match kind:
        case "boolean":
            return _TRUTH.get(text)
        case "integer":
            return int(text) if re.fullmatch(r"-?[0-9]{1,12}", text) and _in_range(int(text), rest) else None
        case "number":
            return (
                float(text)
                if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) and _in_range(float(text), rest)
                else None
            )
        case "choice":
            return next((str(word) for word in rest if str(word).lower() == text.lower()), None)
    return text if text and "\0" not in text else None


def _in_range(number: float, limits: list[str | int]) -> bool:
    return int(limits[0]) <= number <= int(limits[1])
