"""Maps errors of librdkafka to errors of Sluicegate."""

import re
import time
from collections.abc import Callable, Container, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from sluicegate.connectors import admission
from sluicegate.streams.errors import (
    ConfigurationError,
    InstanceFenced,
    NotAuthenticated,
    NotPermitted,
    SluicegateError,
    SystemNotReady,
)

T = TypeVar("T")
LOOK = 0.2  # seconds between two looks at an admin request under way

# Errors of one partition, with the code under which the partition halts.
HALTING = {
    KafkaError._AUTO_OFFSET_RESET: "out-of-range",
    KafkaError.OFFSET_OUT_OF_RANGE: "out-of-range",
    KafkaError._LOG_TRUNCATION: "truncated",
    KafkaError._BAD_COMPRESSION: "unfetchable",
    KafkaError._UNKNOWN_TOPIC: "unknown-topic",
    KafkaError._UNKNOWN_PARTITION: "unknown-topic",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "unknown-topic",
    KafkaError.UNKNOWN_TOPIC_ID: "unknown-topic",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "unauthorized",
}

TRUNCATED = "log truncation detected"

# A connection to a broker ended.
GONE = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})

# librdkafka recovers from these by itself.
PASSING = frozenset(
    {
        KafkaError._PARTITION_EOF,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError._WAIT_COORD,
        KafkaError._NO_OFFSET,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)

# Errors of the whole client or group that do not go away.
HOPELESS = frozenset(
    {
        KafkaError._FATAL,  # librdkafka wraps fatal errors in it; the wrapped error does not say that it is fatal
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.INVALID_SESSION_TIMEOUT,
        KafkaError.INVALID_GROUP_ID,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.FENCED_INSTANCE_ID,
    }
)

# Errors of a connection: the brokers would refuse the next one too.
REFUSED = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
CORRECT = "correct the settings of the login in `kafka`, the credentials of the process, or what the brokers accept"
NO_TOKEN = "Failed to acquire SASL OAUTHBEARER token"
UNSAFE = frozenset({KafkaError._SSL, KafkaError._TRANSPORT})

# The broker will never take the row, if the row was alone in its batch.
REFUSING = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.RECORD_LIST_TOO_LARGE,
    }
)

# The topic does not take rows now; other topics do.
DENYING = frozenset(
    {
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.POLICY_VIOLATION,
    }
)

# Another producer was opened under the transactional id, or the brokers ended the transaction after its timeout.
FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})

# Fatal errors have the code _FATAL, and only their text says that another member has the same instance.
INSTANCE_FENCED = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()

# What to do about a missing right of the user that `kafka` names.
GRANTS = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (
        "grant the user Describe on this topic, and Read or Write as its agents need"
    ),
    KafkaError.GROUP_AUTHORIZATION_FAILED: "grant the user Read on this group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "grant the user Describe and Write on transactional ids of this app"
    ),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "grant the user this on the cluster",
}

MISSING = frozenset({KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.UNKNOWN_TOPIC_ID})


def halting(error: Any) -> str | None:
    """The code under which the error halts its partition; None: it does not. With `auto.offset.reset=error` librdkafka
    gives a truncated log the code of an offset out of range: only the text differs."""
    if error.code() == KafkaError._AUTO_OFFSET_RESET and TRUNCATED in error.str():
        return "truncated"
    return HALTING.get(error.code())


def is_transient(error: Any) -> bool:
    return bool(error.code() in PASSING or error.retriable())


def _inner(error: Any) -> Any:
    """The KafkaError inside an exception."""
    return error.args[0] if isinstance(error, KafkaException) and error.args else error


def not_ready(doing: str, error: KafkaException | KafkaError) -> SystemNotReady:
    """The error for a step that failed, in one line: the step and Kafka's text. It is NotPermitted when a right is
    missing, and InstanceFenced when another member has the same instance."""
    inner = _inner(error)
    if INSTANCE_FENCED in (text := error_text(error)):
        return InstanceFenced(f"Kafka: {doing}: {text}")
    kind = NotPermitted if isinstance(inner, KafkaError) and inner.code() in GRANTS else SystemNotReady
    return kind(f"Kafka: {doing}: {text}")


def refused(error: KafkaException) -> SluicegateError:
    """The error for a client that could not be created."""
    code = error.args[0].code() if error.args and isinstance(error.args[0], KafkaError) else None
    if code in (KafkaError._INVALID_ARG, KafkaError._UNKNOWN_PARTITION, KafkaError._NOT_CONFIGURED):
        return ConfigurationError(f"kafka: {error_text(error)}")
    return not_ready("making a client failed", error)


def client(kind: Callable[[Mapping[str, Any]], T], wanted: Mapping[str, Any]) -> T:
    """A client of librdkafka with these settings. Raises ConfigurationError for settings that it refuses."""
    try:
        return kind(wanted)
    except KafkaException as error:
        raise refused(error) from error


def turned_away(error: Any, kafka: Mapping[str, Any]) -> NotAuthenticated | None:
    """The error when the brokers refused a client with these settings, or the client refused the brokers. librdkafka
    itself retries dozens of times a second. None: it is another error."""
    if no_token(error) is not None:
        return None
    if error.code() in REFUSED:
        if "login" in kafka or "sasl.oauthbearer.method" in kafka:
            return NotAuthenticated(f"Kafka: the login is refused: {error_text(error)}; {CORRECT}")
        return admission.refused(
            "Kafka", error_text(error), "sasl.username, sasl.password and sasl.mechanism of `kafka`"
        )
    if error.code() not in UNSAFE:
        return None
    text, authorities = error_text(error), kafka.get("ssl.ca.location")
    why = admission.reason(_places(kafka), authorities) if admission.UNTRUSTED.search(text) else ""
    return admission.untrusted(
        "Kafka", text, "ssl.ca.location of `kafka` (ssl.certificate.location and ssl.key.location are ours)", why
    )


def no_token(error: Any) -> SystemNotReady | None:
    """The error when an issuer of tokens did not answer, or answered without a token. The client asks again after 10 s.
    An issuer that denies a token names an `error` (RFC 6749, 5.2); then waiting does not help."""
    text = error_text(error) if error.code() in REFUSED else ""
    return SystemNotReady(f"Kafka: {text}") if NO_TOKEN in text and '"error"' not in text else None


def _places(kafka: Mapping[str, Any]) -> list[tuple[str, int]]:
    places = re.findall(r"([^,:/\s\[\]]+|\[[0-9a-fA-F:]+\]):([0-9]+)", str(kafka.get("bootstrap.servers", "")))
    return [(host.strip("[]"), int(port)) for host, port in places]


def answer(
    future: Any,
    seconds: float,
    doing: str,
    turned_away: Callable[[], SluicegateError | None] = lambda: None,
    absent: Container[int] = (),
) -> Any:
    """The result of an admin request; None for an error whose code is in `absent`. Raises as `awaited`, and
    SystemNotReady or NotPermitted for other errors."""
    try:
        return awaited(future, seconds, doing, turned_away)
    except KafkaException as error:
        if _inner(error).code() in absent:
            return None
        raise not_ready(f"{doing} failed", error) from error


def awaited(
    future: Any, seconds: float, doing: str, turned_away: Callable[[], SluicegateError | None] = lambda: None
) -> Any:
    """The result of an admin request. Raises KafkaException, SystemNotReady after `seconds`, and before that the error
    that `turned_away` returns."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return future.result(max(0.0, min(LOOK, deadline - time.monotonic())))
        except TimeoutError as error:
            if (refusal := turned_away()) is not None:
                raise refusal from None
            if time.monotonic() >= deadline:
                raise SystemNotReady(f"Kafka: {doing}: no answer within {seconds:g} s") from error


def error_text(error: KafkaException | KafkaError) -> str:
    """Kafka's text in one line, with the name of the code and the missing right."""
    inner = _inner(error)
    if isinstance(inner, KafkaError):
        grant = GRANTS.get(inner.code())
        return f"{' '.join(inner.str().split())} ({inner.name()}){f'; {grant}' if grant else ''}"
    return " ".join(str(inner).split())
