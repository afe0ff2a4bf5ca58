"""The schema registry as the commands use it. Each method raises `sluicegate.schemas.codecs.Unavailable` while it does
not answer."""

from typing import Protocol


class SchemaRegistry(Protocol):
    """It has the methods of `sluicegate.schemas.registry.Asked`, and others for `check`."""

    def schema(self, id: int | str, kind: str) -> str:
        """The schema of an id, of a UUID as text, or of `SUBJECT:VERSION`. It must be of this kind. Raises
        UnknownId."""

    def id(self, subject: str, schema: str, register: bool, kind: str) -> int:
        """The id of the schema under the subject. With `register` the schema is registered. Raises SubjectRefused."""

    def fits(self, subject: str, schema: str, kind: str) -> None:
        """Check whether the registry would register the schema. It registers nothing. Raises SubjectRefused."""

    def versions(self, subject: str) -> list[int]:
        """The versions under the subject; empty if the subject does not exist."""

    def answers(self) -> None:
        """Returns if the registry answers."""
