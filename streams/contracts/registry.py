"""The schema registry, as the commands ask it. Each method raises `sluicegate.schemas.codecs.Unavailable` while it does
not answer."""

from typing import Protocol


class SchemaRegistry(Protocol):
    """It has the methods of `sluicegate.schemas.registry.Asked`, and others for `check`."""

    def schema(self, id: int | str, kind: str) -> str:
        """The schema of an id, of a UUID as text, or of `SUBJECT:VERSION`. It must be of this kind. Raises
        UnknownId."""

    def id(self, subject: str, schema: str, register: bool, kind: str) -> int:
        """The id of the schema under the subject, which it gets now with `register`. Raises SubjectRefused."""

    def fits(self, subject: str, schema: str, kind: str) -> None:
        """Would it register the schema? It registers nothing. Raises SubjectRefused."""

    def versions(self, subject: str) -> list[int]:
        """Of the schemas under the subject; none if there is no such subject."""

    def answers(self) -> None:
        """Returns if it does."""
