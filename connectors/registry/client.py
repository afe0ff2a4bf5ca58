"""A schema registry that speaks Confluent's protocol, by confluent-kafka's `SchemaRegistryClient`."""

from collections.abc import Callable
from typing import Any, TypeVar

from sluicegate.schemas.codecs import Unavailable
from sluicegate.schemas.registry import SchemaKey, SubjectRefused, UnknownId
from sluicegate.streams.agent import Registry
from sluicegate.streams.errors import ConfigurationError

INSTALL = 'pip install "sluicegate[registry]"'
NOT_FOUND, INCOMPATIBLE, INVALID = 404, 409, 422

T = TypeVar("T")


def opened(registry: Registry) -> "RegistryClient":
    """Connects with the first request. Raises ConfigurationError."""
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise ConfigurationError(f"a schema registry needs {error.name}, which is not installed: {INSTALL}") from None
    try:
        return RegistryClient(SchemaRegistryClient(_settings(registry)), ", ".join(registry.urls))
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"the certificates of the schema registry cannot be used ({type(error).__name__}): "
            "correct ca, certificate or key"
        ) from None


def _settings(registry: Registry) -> dict[str, Any]:
    """Who asks decides when to ask again, so the client repeats nothing itself."""
    found: dict[str, Any] = {"url": ",".join(registry.urls), "timeout": registry.timeout, "max.retries": 0}
    files = {"ca": registry.ca, "certificate": registry.certificate, "key": registry.key}
    found |= {f"ssl.{name}.location": path for name, path in files.items() if path is not None}
    if registry.username is not None:
        found["basic.auth.user.info"] = f"{registry.username}:{registry.password or ''}"
    return found


class RegistryClient:
    """`sluicegate.schemas.registry.Asked`. Errors name the registry and hold no credentials."""

    def __init__(self, client: Any, place: str) -> None:
        self._client, self._place = client, place

    def schema(self, id: SchemaKey) -> str:
        def refused(error: Any) -> Exception:
            return UnknownId(f"the schema registry at {self._place} has no schema with id {id}")

        by = self._client.get_schema_by_guid if isinstance(id, str) else self._client.get_schema
        found = self._asked(lambda: by(id), refused)
        if found.schema_type not in (None, "AVRO") or found.references:
            kind = "has references to other schemas" if found.references else f"is {found.schema_type}"
            raise UnknownId(f"schema id {id} {kind}: only Avro schemas that stand alone can be read")
        return str(found.schema_str)

    def id(self, subject: str, schema: str, register: bool) -> int:
        from confluent_kafka.schema_registry import Schema

        def refused(error: Any) -> Exception:
            return SubjectRefused(f"subject {subject}: the schema registry at {self._place} {_words(error, register)}")

        made = Schema(schema, "AVRO")
        if register:
            return int(self._asked(lambda: self._client.register_schema(subject, made), refused))
        return int(self._asked(lambda: self._client.lookup_schema(subject, made), refused).schema_id)

    def fits(self, subject: str, schema: str) -> None:
        """Would the registry take the schema? Registers nothing. Raises SubjectRefused and Unavailable."""
        from confluent_kafka.schema_registry import Schema

        def refused(error: Any) -> Exception:
            if error.http_status_code == NOT_FOUND:
                return UnknownId(subject)
            return SubjectRefused(f"subject {subject}: the schema registry at {self._place} {_words(error, True)}")

        try:
            fits = self._asked(lambda: self._client.test_compatibility(subject, Schema(schema, "AVRO")), refused)
        except UnknownId:
            return  # a subject without a version takes any schema
        if not fits:
            raise SubjectRefused(
                f"subject {subject}: the schema registry at {self._place} says that the schema is not compatible with "
                f"the newest version; {CORRECT}"
            )

    def answers(self) -> None:
        """Raises Unavailable."""
        self._asked(lambda: self._client.get_subjects(), lambda error: Unavailable(str(error)))

    def _asked(self, request: Callable[[], T], refused: Callable[[Any], Exception]) -> T:
        """A registry that answers with a refusal is not away."""
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            return request()
        except SchemaRegistryError as error:
            if error.http_status_code in (NOT_FOUND, INCOMPATIBLE, INVALID):
                raise refused(error) from None
            said = f"answers with HTTP {error.http_status_code} ({_short(error.error_message)})"
        except Exception as error:  # the HTTP library's, whichever it is
            said = f"does not answer ({_short(error) or type(error).__name__})"
        raise Unavailable(f"the schema registry at {self._place} {said}")


CORRECT = "correct the schema, or the subject's compatibility level"


def _short(said: object) -> str:
    return " ".join(str(said).split())[:300]


def _words(error: Any, register: bool) -> str:
    said = _short(error.error_message)
    if register:
        return f"refuses the schema: {said}; {CORRECT}"
    return f"does not have the schema: {said}; register it, or write register: true"
