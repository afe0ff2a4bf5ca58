"""What an app reads and writes, as a document of AsyncAPI 3.0."""

from sluicegate.streams.asyncapi.document import document

__all__ = ["document"]
