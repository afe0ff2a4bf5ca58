"""Codecs of records and results, and the documents that Sluicegate defines."""

from typing import TYPE_CHECKING, Any

from sluicegate.schemas.options import Avro, SchemaOptions

if TYPE_CHECKING:
    from sluicegate.schemas.codecs import Codec, codec
else:

    def __getattr__(name: str) -> Any:
        """Import codecs when they are first used: they load libraries that most commands do not need."""
        if name not in ("Codec", "codec"):
            raise AttributeError(f"module 'sluicegate.schemas' has no attribute {name!r}")
        from sluicegate.schemas import codecs

        return getattr(codecs, name)


__all__ = ["Avro", "Codec", "SchemaOptions", "codec"]
