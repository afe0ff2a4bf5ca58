"""The kinds of values in the file.

Each accepts `Unknown` in place of a value, so that one mistake hides no other. A refusal is a PydanticCustomError of
type `refused` whose context holds `what` and `hint`.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from sluicegate.streams import units, urls
from sluicegate.streams.agent import Scalar
from sluicegate.streams.config.text.scalars import Decimal, Integer, Native, Unknown, as_written
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.hints import did_you_mean
from sluicegate.streams.topic_names import CLUSTER, MISSING, OF_KAFKA, matcher, on_cluster

NAME = r"^[A-Za-z0-9._-]+$"
TOPIC = r"^[A-Za-z0-9._-]{1,249}(@[A-Za-z0-9._-]{1,64})?$"
"""Of the default cluster, or with @ and the name of another one."""
FIELD = r"^[^.\"\\\x00-\x1f]+(\.[^.\"\\\x00-\x1f]+)*$"
ERROR = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"
FUNCTION = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$"
REDIS = ("redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
SERVERS = (*REDIS, "postgresql", "mysql", "mariadb", "mongodb", "mongodb+srv")
STORES = ("memory", "sqlite", *SERVERS)
_SQLITE_PATHS = "write sqlite:///file.db, or sqlite:////folder/file.db for an absolute path"
_OTHER_SQLITE = ("sqlite3", "file")
_OTHER_STORES = {
    "postgres": "postgresql",
    "pg": "postgresql",
    "psql": "postgresql",
    "mongo": "mongodb",
    "valkey": "redis",
    "maria": "mariadb",
}
"""Words that users write for the scheme of a store."""
FORMATS = ("json", "avro", "protobuf", "json-schema", "raw")
HOST_ELSEWHERE = re.compile(r"(?<=[?&])(host|hostaddr|service|unix_socket)=[^&#]")
"""The options of PostgreSQL's and MySQL's URLs that name a host or a socket where the URL itself has none."""
VARIABLES = "a ${NAME} that stands for one of them is encoded for you"
LONGEST_NAME = 100
LONGEST_PATTERN = 1000
LONGEST_EXPRESSION = 4096
LONGEST_DURATION = 3650 * 86400.0


def refused(what: str, hint: str) -> PydanticCustomError:
    return PydanticCustomError("refused", "{what}; {hint}", {"what": what, "hint": hint})


def unless_unknown(placeholder: Any) -> WrapValidator:
    """Accepts an unknown value: `placeholder` (called when it is a class or function) replaces it."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        if isinstance(value, Unknown):
            return placeholder() if callable(placeholder) else placeholder
        return handler(value)

    return WrapValidator(validate)


def _known_text(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    return str(value) if isinstance(value, Unknown) else handler(as_written(value))


Text = Annotated[str, WrapValidator(_known_text)]


def _matching(pattern: str, what: str, hint: str, longest: int) -> AfterValidator:
    def validate(value: str) -> str:
        if len(value) > longest or not re.fullmatch(pattern, value):
            raise refused(what, hint)
        return value

    return AfterValidator(validate)


def _like(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern})


def short_form(key: str) -> BeforeValidator:
    """Takes a value that is no mapping for the value of this key."""
    return BeforeValidator(lambda value: value if isinstance(value, dict) else {key: value})


def cluster_named(name: str, info: ValidationInfo) -> str:
    """The name of the cluster in topics; the default cluster has none. Raises for a name that `kafka` does not have."""
    clusters = info.context
    if clusters is None:  # values of a file that was checked before
        return name
    if name not in clusters.settings:
        names = list(filter(None, clusters.settings))
        hint = did_you_mean(name, names) if names else "write kafka: {default: NAME, NAME: {...}, OTHER: {...}}"
        raise refused(f"names the cluster {name}, which kafka does not have", hint)
    return "" if name == clusters.default else name


def _topic(value: str, info: ValidationInfo) -> str:
    topic, _, cluster = value.partition(CLUSTER)
    if topic in (".", ".."):
        raise refused("is not a topic name", "give it another name")
    return on_cluster(topic, cluster_named(cluster, info)) if cluster else value


def _pattern(value: str) -> str:
    if not 0 < len(value) <= LONGEST_PATTERN:
        raise refused(f"is not of 1 to {LONGEST_PATTERN} characters", "write a regular expression of RE2")
    try:
        matcher(value)
    except ConfigurationError:
        raise refused("needs RE2, which is not installed", MISSING) from None
    except ValueError as error:
        raise refused(str(error), "see https://github.com/google/re2/wiki/Syntax") from None
    if CLUSTER in value:
        raise refused("has an @, which a topic name cannot contain", "write {cluster: NAME, pattern: REGEX}")
    if value.startswith(OF_KAFKA):
        raise refused("matches internal topics of Kafka, which a pattern must not match", "name such a topic in full")
    return value


def _field_path(value: str) -> str:
    """The path of a field. The refused characters are those of expressions, or characters that no decoder can
    request."""
    if len(value) > 1000 or not re.fullmatch(FIELD, value):
        hint = "write field names joined by dots, such as customer.id"
        computed = "write let: {NAME: EXPRESSION} for a computed value, and its NAME here"
        raise refused("is not a field path", computed if '"' in value else hint)
    return value


def _no_object(value: object) -> object:
    """Refuses functions as objects: only a name can stand for a function in other processes."""
    if callable(value):
        path = f"{getattr(value, '__module__', '')}:{getattr(value, '__qualname__', '')}"
        usable = re.fullmatch(FUNCTION, path) and not path.startswith("__main__:")
        hint = f"write {path!r}" if usable else "put the function into a module of its own and write 'module:function'"
        raise refused("is a function itself, but worker processes import functions by their names", hint)
    return value


def plain(value: Any) -> Any:
    """The value without the text that the file's numbers remember."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [plain(element) for element in value]
    return int(value) if isinstance(value, Integer) else float(value) if isinstance(value, Decimal) else value


AnyValue = Annotated[Any, BeforeValidator(plain), WithJsonSchema({})]
NameField = Annotated[
    str,
    _matching(NAME, "is not a name", f"use only letters, digits and . _ - (at most {LONGEST_NAME})", LONGEST_NAME),
    _like(NAME),
    WrapValidator(_known_text),
]
TopicField = Annotated[
    str,
    _matching(TOPIC, "is not a topic name", "use only letters, digits and . _ - (at most 249)", 249),
    AfterValidator(_topic),
    _like(TOPIC),
    WrapValidator(_known_text),
]
CLUSTER_NAME = r"^[A-Za-z0-9._-]{1,64}$"
ClusterField = Annotated[
    str,
    _matching(CLUSTER_NAME, "is not the name of a cluster", "write a name that kafka has", 64),
    AfterValidator(cluster_named),
    _like(CLUSTER_NAME),
    WrapValidator(_known_text),
]
CLUSTER_OF_TOPIC: Any = Field(
    default=None,
    description="The cluster of the topic, by its name under `kafka`; without it, the default one.",
    examples=["west"],
)


def of_cluster(value: object) -> object:
    """Rewrites `{topic: T, cluster: C}` as `{topic: T@C}`."""
    if not isinstance(value, dict):
        return value
    topic, cluster = value.get("topic"), value.get("cluster")
    if not isinstance(topic, str) or not isinstance(cluster, str) or Unknown in (type(topic), type(cluster)):
        return value
    return {name: value for name, value in value.items() if name != "cluster"} | {"topic": on_cluster(topic, cluster)}


PatternField = Annotated[
    str,
    AfterValidator(_pattern),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": LONGEST_PATTERN}),
    WrapValidator(_known_text),
]
FieldPath = Annotated[str, AfterValidator(_field_path), _like(FIELD), WrapValidator(_known_text)]
Function = Annotated[
    str,
    _matching(FUNCTION, "is not an import path", "write module:function", 1000),
    _like(FUNCTION),
    WrapValidator(_known_text),
    BeforeValidator(_no_object),
]

ErrorNames = Annotated[
    list[
        Annotated[
            str,
            _matching(ERROR, "is not a class of errors", "write package.Name, such as httpx.TransportError", 1000),
            _like(ERROR),
            WrapValidator(_known_text),
        ]
    ],
    WithJsonSchema({"type": "array", "items": {"type": "string", "pattern": ERROR}}),
]


def _expression(value: object) -> object:
    """An expression as text. `true` and `3` are expressions, too."""
    if isinstance(value, list | dict):
        kind = "list" if isinstance(value, list) else "mapping"
        raise refused(f"must be text, and YAML takes this for a {kind}", "quote the expression")
    if value is None:
        hint = "write an expression; if this is the rest of one that YAML ended at a comma, quote the expression"
        raise refused("is empty", hint)
    return ("true" if value else "false") if isinstance(value, bool) else value


Expression = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_EXPRESSION),
    WrapValidator(_known_text),
    BeforeValidator(_expression),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": LONGEST_EXPRESSION}),
]


def _written(value: object) -> object:
    if value is None:
        raise refused("is empty", "write an expression, such as amount > 100, or leave it out")
    return value


ClauseField = Annotated[Expression | None, BeforeValidator(_written)]

T = TypeVar("T")


def _parsed(
    parse: Callable[[str], T | None],
    known: Callable[[object], T | None],
    what: str,
    hint: str,
    native_hint: str,
    bounded: Callable[[T], None] = lambda value: None,
) -> BeforeValidator:
    """A value: text of the file by `parse`, a value built in Python by `known`. Both must be `bounded`, which
    raises."""

    def validate(value: object) -> object:
        if isinstance(value, Unknown):
            return value
        native = isinstance(value, Native)
        result = known(value.value) if isinstance(value, Native) else parse(value) if isinstance(value, str) else None
        if result is None:
            raise refused(what, native_hint if native else hint)
        bounded(result)
        return result

    return BeforeValidator(validate)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _two(value: object) -> tuple[float, float] | None:
    first, most = map(_number, value) if isinstance(value, tuple) else (None, None)
    return (first, most) if first is not None and most is not None and 0 < first <= most < math.inf else None


def _a_time(seconds: float) -> None:
    if not 0 < seconds <= LONGEST_DURATION:
        raise refused("is out of range", "write more than 0 and at most 3650d")


def _an_amount(amount: int) -> None:
    if not 0 < amount <= 1 << 50:
        raise refused("is out of range", "write at least 1B and at most 1048576GiB")


def _time(
    bounded: Callable[[Any], None],
    parse: Callable[[str], object] = units.duration,
    known: Callable[[object], object] = _number,
    other: str = "",
    native: str = "",
) -> BeforeValidator:
    """A duration. `other` says what else the file may have, and `native` what else a program may give."""
    hint = f"write one number and ms, s, m, h or d, such as 30s{other}"
    return _parsed(
        parse, known, "is not a duration", hint, f"write the number of seconds, such as 30.0{native}", bounded
    )


Duration = Annotated[float, unless_unknown(1.0), _time(_a_time), _like(units.DURATION)]


def any_of(words: Sequence[str]) -> str:
    """Two or more words as a hint lists them: `day, week or month`."""
    return f"{', '.join(words[:-1])} or {words[-1]}"


def duration_or(words: Sequence[str]) -> BeforeValidator:
    """A duration, or one of these words."""

    def parsed(text: str) -> object:
        return text if text in words else units.duration(text)

    def known(value: object) -> object:
        return value if isinstance(value, str) and value in words else _number(value)

    def bounded(value: object) -> None:
        if isinstance(value, float):
            _a_time(value)

    return _time(bounded, parsed, known, f", or {any_of(words)}", ", or one of the words")


def _a_time_or_zero(seconds: float) -> None:
    if seconds:
        _a_time(seconds)


def _a_time_or_never(seconds: float) -> None:
    if seconds != math.inf:
        _a_time(seconds)


def _or_never(text: str) -> float | None:
    return math.inf if text == "never" else units.duration(text)


DurationOrZero = Annotated[float, unless_unknown(0.0), _time(_a_time_or_zero), _like(units.DURATION)]
DurationOrNever = Annotated[
    float,
    unless_unknown(1.0),
    _time(_a_time_or_never, _or_never, other=", or never", native=", or None for never"),
    _like(f"{units.DURATION}|^never$"),
]
SpanField = Annotated[
    tuple[float, float],
    unless_unknown((1.0, 60.0)),
    _parsed(
        units.span,
        _two,
        "is not a span of durations",
        "write the shortest and the longest, such as 1s..60s",
        "write the shortest and the longest as numbers of seconds, such as 1.0 and 60.0",
    ),
    _like(units.SPAN),
]
SizeField = Annotated[
    int,
    unless_unknown(1 << 20),
    _parsed(
        units.size,
        _whole,
        "is not a size",
        "write a number and B, kB, KiB, MB, MiB or GiB, such as 4MiB",
        "write the whole number of bytes, such as 4_194_304",
        _an_amount,
    ),
    _like(units.SIZE),
]
LONGEST_WINDOW = 86400.0


def _limit(value: str) -> str:
    limit = units.limit(value)
    if limit is None:
        raise refused("is not a limit", "write a share below 100% or a whole number, and a time, such as 5% of 1m")
    if not 1.0 <= limit.seconds <= LONGEST_WINDOW:
        raise refused("has a time that is out of range", "write at least 1s and at most 24h, such as 5% of 1m")
    return value


LimitField = Annotated[str, AfterValidator(_limit), _like(units.LIMIT), unless_unknown("5% of 1m")]
UNITS = ("s", "ms", "us", "rfc3339")
Unit = Annotated[Literal["s", "ms", "us", "rfc3339"], unless_unknown("rfc3339")]
"""What a number of a time means, or that it is text."""
Count = Annotated[int, Field(ge=1, le=1_000_000_000), unless_unknown(1)]
SchemaId = Annotated[int, Field(ge=0, le=2**32 - 1), unless_unknown(0)]
FlagField = Annotated[bool, unless_unknown(True)]


def _start(value: object) -> object:
    if isinstance(value, Unknown) or value in ("earliest", "latest"):
        return "earliest" if isinstance(value, Unknown) else value
    if isinstance(value, Native):
        return _native_start(value.value)
    when = units.moment(value) if isinstance(value, str) else None
    if when is None:
        raise refused("is not a start", "write earliest, latest or a time such as 2026-01-31T00:00:00Z")
    return when


def _native_start(value: object) -> object:
    when = value if value in ("earliest", "latest") else _number(value)
    if when is None or (isinstance(when, float) and not math.isfinite(when)):
        raise refused("is not a start", "write 'earliest', 'latest' or the seconds since 1970 as a number")
    return when


Start = Annotated[
    str | float,
    BeforeValidator(_start),
    WithJsonSchema({"anyOf": [{"enum": ["earliest", "latest"]}, {"type": "string", "pattern": units.TIME}]}),
]


def _codec(value: str) -> str:
    if value not in FORMATS and not re.fullmatch(FUNCTION, value):
        raise refused("is not a format", "write json, avro, protobuf, json-schema, raw or module:codec")
    return value


Format = Annotated[
    str,
    AfterValidator(_codec),
    WithJsonSchema({"anyOf": [{"enum": [*FORMATS]}, {"type": "string", "pattern": FUNCTION}]}),
    WrapValidator(_known_text),
]


def _store(value: str) -> str:
    scheme, separator, rest = value.partition("://")
    if not separator or scheme not in STORES:
        raise refused("is not a known store", _near_store(scheme.partition(":")[0]))
    if scheme == "sqlite" and (not rest.startswith("/") or rest == "/" or "?" in rest or rest.endswith(":memory:")):
        raise refused("names no SQLite file", _SQLITE_PATHS)
    if scheme in SERVERS:
        _server(value)
    return value


def _server(url: str) -> None:
    """Checks a URL of a server. Raises for a URL that names no host, an invalid port, or a user and password whose end
    is ambiguous."""
    if urls.uncertain(url):
        raise refused("has an @ that does not end user and password", f"{urls.ENCODE}; {VARIABLES}")
    scheme, hosts = url.partition("://")[0], urls.hosts_of(url)
    if not (_hosts(hosts) if hosts else HOST_ELSEWHERE.search(url)):
        example = "redis://host:6379/0" if scheme in REDIS else f"{scheme}://host/database"
        raise refused(
            "names no server, or an invalid port",
            f"write a host, or host:port with a port of 1 to 65535, as in {example}",
        )


def _near_store(scheme: str) -> str:
    """The hint for a URL whose scheme belongs to no store."""
    if scheme in ("sqlite", *_OTHER_SQLITE):
        return f"did you mean sqlite:///? {_SQLITE_PATHS}"
    near = did_you_mean(scheme.partition("+")[0], STORES, _OTHER_STORES)
    if near.startswith("did you mean "):
        return f"{near.removesuffix('?')}://?"
    return f"write a URL that begins with {', '.join(name + '://' for name in STORES)}"


def _hosts(hosts: str) -> bool:
    """Whether these are one or more hosts, each with a valid port or none."""
    places = [
        re.fullmatch(r"(?:\[[0-9A-Fa-f:.]+\]|[^:\[\]\s]+)(?::(?P<port>[0-9]{1,5}))?", host) for host in hosts.split(",")
    ]
    return all(place is not None and 0 < int(place["port"] or 1) < 65536 for place in places)


StoreUrl = Annotated[
    str, AfterValidator(_store), _like(f"^({'|'.join(map(re.escape, STORES))})://"), WrapValidator(_known_text)
]


def _scalar(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        raise refused("is not a finite number", "write a number that JSON has")
    if isinstance(value, dict | list):
        raise refused("must be one value", "write text, a number, true, false or null")
    if isinstance(value, Decimal):
        return float(value)
    return int(value) if isinstance(value, Integer) else value


ValueField = Annotated[
    Scalar, BeforeValidator(_scalar), WithJsonSchema({"type": ["string", "number", "boolean", "null"]})
]
