"""The AsyncAPI 3.0 document of an app's inputs and outputs."""

from sluicegate.streams.asyncapi.document import document

__all__ = ["document"]
