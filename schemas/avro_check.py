"""Checks of schemas by the avro package: it is stricter than fastavro, and compares schemas."""

import warnings
from collections.abc import Sequence
from typing import Any

import avro.compatibility
import avro.errors
import avro.schema


def strict(text: str) -> str | None:
    """The reason why the schema is invalid; None: it is valid."""
    try:
        _parsed(text)
    except Exception as error:
        return " ".join(str(error).split())[:200]
    return None


def incompatible(reader: str, writer: str) -> Sequence[str]:
    """The reasons why data written with `writer` cannot be read with `reader`; empty: they can. Raises avro.errors for
    a text that is not a schema."""
    checker = avro.compatibility.ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
    compatibility = checker.get_compatibility(_parsed(reader), _parsed(writer))
    if compatibility.compatibility is avro.compatibility.SchemaCompatibilityType.compatible:
        return ()
    return [f"{', '.join(sorted(compatibility.messages))} (at {', '.join(sorted(compatibility.locations))})"]


def _parsed(text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", avro.errors.IgnoredLogicalType)
        return avro.schema.parse(text)
