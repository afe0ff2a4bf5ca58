"""A schema registry that speaks Confluent's protocol, through confluent-kafka's `SchemaRegistryClient`."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from sluicegate.connectors.registry import avro, protobuf
from sluicegate.schemas.codecs import Unavailable
from sluicegate.schemas.registry import SchemaKey, SubjectRefused, UnknownId
from sluicegate.streams.agent import OAuthClient, Registry
from sluicegate.streams.errors import ConfigurationError

INSTALL = 'pip install "sluicegate[registry]"'
NOT_FOUND, INCOMPATIBLE, INVALID = 404, 409, 422

T = TypeVar("T")


def opened(registry: Registry) -> "RegistryClient":
    """A client that connects with its first request. Raises ConfigurationError."""
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
    """The settings of the client. The caller decides about retries, so the client makes none."""
    settings: dict[str, Any] = {"url": ",".join(registry.urls), "timeout": registry.timeout, "max.retries": 0}
    files = {"ca": registry.ca, "certificate": registry.certificate, "key": registry.key}
    settings |= {f"ssl.{name}.location": path for name, path in files.items() if path is not None}
    if registry.username is not None:
        settings["basic.auth.user.info"] = f"{registry.username}:{registry.password or ''}"
    if registry.token is not None:
        settings |= {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": registry.token}
        settings["bearer.auth.logical.cluster"] = ""  # demanded by the client, and sent as an empty header
    return settings if registry.oauth is None else settings | _oauth(registry.oauth)


def _oauth(client: OAuthClient) -> dict[str, Any]:
    """OAuth settings. The client asks for a token with the first request, and again when four fifths of its lifetime
    are over."""
    settings: dict[str, Any] = {
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.issuer.endpoint.url": client.token_url,
        "bearer.auth.client.id": client.client_id,
        "bearer.auth.client.secret": client.client_secret,
        "bearer.auth.scope": client.scope,
        "bearer.auth.logical.cluster": client.logical_cluster,
    }
    return (
        settings if client.identity_pool is None else settings | {"bearer.auth.identity.pool.id": client.identity_pool}
    )


class RegistryClient:
    """Satisfies `sluicegate.schemas.registry.Asked`. Errors name the registry and hold no credentials."""

    def __init__(self, client: Any, place: str) -> None:
        self._client, self._place = client, place

    def schema(self, id: SchemaKey, kind: str) -> str:
        def refused(error: Any) -> Exception:
            return UnknownId(f"the schema registry at {self._place} has no schema with id {id}")

        def request() -> Any:
            if kind == "PROTOBUF":
                return protobuf.descriptor(partial(self._schema, self._number(id)))
            return self._schema(id, None)

        answer = self._answer(request, refused)
        if (answer.schema_type or "AVRO") != kind:
            raise UnknownId(f"schema id {id} is {answer.schema_type or 'AVRO'}, not {kind}")
        if kind == "PROTOBUF":
            return self._answer(lambda: protobuf.bundled(self._client, answer), refused)
        if answer.references and kind == "AVRO":
            return self._bundled(id, answer)
        return str(answer.schema_str)

    def _bundled(self, id: SchemaKey, schema: Any) -> str:
        """The schema with its references inlined. Raises UnknownId and Unavailable."""

        def version(reference: Any) -> Any:
            gone = f"schema {id} refers to version {reference.version} of the subject {reference.subject}, which the "
            gone += f"schema registry at {self._place} does not have"
            number = int(reference.version)
            return self._answer(
                lambda: self._client.get_version(reference.subject, number).schema, lambda _: UnknownId(gone)
            )

        try:
            return avro.bundled(str(schema.schema_str), avro.referred(version, schema))
        except ValueError as error:
            raise UnknownId(f"schema id {id} and the schemas that it refers to cannot be read: {error}") from error

    def _schema(self, id: SchemaKey, form: str | None) -> Any:
        if isinstance(id, int):
            return self._client.get_schema(id, fmt=form)
        subject, colon, version = id.rpartition(":")
        if version == "latest":
            return self._client.get_latest_version(subject, fmt=form).schema
        if colon:
            return self._client.get_version(subject, int(version), fmt=form).schema
        return self._client.get_schema_by_guid(id, fmt=form)

    def _number(self, id: SchemaKey) -> SchemaKey:
        """The id of the schema in place of `SUBJECT:VERSION`: Karapace returns a descriptor by the id alone, and the
        versions of a subject as text."""
        subject, colon, version = str(id).rpartition(":")
        if not colon:
            return id
        ask = self._client
        registered = ask.get_latest_version(subject) if version == "latest" else ask.get_version(subject, int(version))
        return int(registered.schema_id)

    def versions(self, subject: str) -> list[int]:
        """The versions under the subject; empty if there is no such subject. Raises Unavailable."""
        try:
            answer = self._answer(lambda: self._client.get_versions(subject), lambda error: UnknownId(subject))
        except UnknownId:
            return []
        return [int(version) for version in answer]

    def id(self, subject: str, schema: str, register: bool, kind: str) -> int:
        def refused(error: Any) -> Exception:
            return SubjectRefused(f"subject {subject}: the schema registry at {self._place} {_words(error, register)}")

        def request() -> int:
            content = self._registry_schema(schema, kind, register)
            if register:
                return int(self._client.register_schema(subject, content))
            return int(self._client.lookup_schema(subject, content).schema_id)

        return self._answer(request, refused)

    def _registry_schema(self, schema: str, kind: str, register: bool) -> Any:
        from confluent_kafka.schema_registry import Schema

        return protobuf.split(self._client, schema, register) if kind == "PROTOBUF" else Schema(schema, kind)

    def fits(self, subject: str, schema: str, kind: str) -> None:
        """Checks whether the registry would accept the schema, without registering it. Raises SubjectRefused and
        Unavailable."""

        def refused(error: Any) -> Exception:
            if error.http_status_code == NOT_FOUND:
                return UnknownId(subject)
            return SubjectRefused(f"subject {subject}: the schema registry at {self._place} {_words(error, True)}")

        def request() -> bool:
            content = self._registry_schema(schema, kind, False)
            return self._registered(subject, content) or bool(self._client.test_compatibility(subject, content))

        try:
            fits = self._answer(request, refused)
        except UnknownId:
            return  # a subject without a version takes any schema
        if not fits:
            raise SubjectRefused(
                f"subject {subject}: the schema registry at {self._place} says that the schema is not compatible with "
                f"the newest version; {CORRECT}"
            )

    def _registered(self, subject: str, schema: Any) -> bool:
        """Whether the subject has the schema. Apicurio Registry 3 compares no descriptors of Protobuf, not even with
        themselves."""
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            return self._client.lookup_schema(subject, schema) is not None
        except SchemaRegistryError as error:
            if error.http_status_code != NOT_FOUND:
                raise
            return False

    def answers(self) -> None:
        """Checks that the registry answers. Raises Unavailable."""
        self._answer(lambda: self._client.get_subjects(), lambda error: Unavailable(str(error)))

    def _answer(self, request: Callable[[], T], refused: Callable[[Any], Exception]) -> T:
        """Runs the request and translates its errors. A refusal is an answer: it raises `refused`, not Unavailable."""
        from confluent_kafka.schema_registry import SchemaRegistryError
        from confluent_kafka.schema_registry.error import OAuthTokenError

        try:
            return request()
        except OAuthTokenError as error:
            text = f"is not asked: the token endpoint gives no token ({_token_error(error)})"
        except SchemaRegistryError as error:
            if error.http_status_code in (NOT_FOUND, INCOMPATIBLE, INVALID):
                raise refused(error) from None
            text = f"answers with HTTP {error.http_status_code} ({_short(error.error_message)})"
        except Exception as error:  # the HTTP library's, whichever it is
            text = f"does not answer ({_short(error) or type(error).__name__})"
        raise Unavailable(f"the schema registry at {self._place} {text}")


CORRECT = "correct the schema, or the subject's compatibility level"


def _short(text: object) -> str:
    return " ".join(str(text).split())[:300]


def _token_error(error: Any) -> str:
    """The error's text without the client's claim of retries, because it makes none."""
    return _short(error.message).rpartition("due to error: ")[2]


def _words(error: Any, register: bool) -> str:
    text = _short(error.error_message)
    if register:
        return f"refuses the schema: {text}; {CORRECT}"
    return f"does not have the schema: {text}; register it, or write register: true"
