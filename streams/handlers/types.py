"""Converts JSON to the types of a handler's parameters: the types that msgspec supports (a Struct, a dataclass, a
TypedDict, list[T] and so on), and models of pydantic."""

from collections.abc import Callable, Sequence
from typing import Any, get_args

import msgspec
from msgspec import inspect

from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.handlers.values import Misfits

_MISSING = "Object missing required field"

DecodeJson = Callable[[bytes], Any]
ConvertValue = Callable[[Any], Any]


def decoder(value_type: Any, text: Callable[[bytes], bytes] | None = None) -> DecodeJson:
    """A decoder of JSON into the type. `text` converts another format to JSON. Raises ConfigurationError for a type
    that cannot be decoded."""
    decode = _pydantic(value_type, "validate_json") if _has_model(value_type) else _msgspec(value_type)
    return decode if text is None else lambda value: decode(text(value))


def converter(value_type: Any) -> ConvertValue:
    """A function that converts plain values to the type. Raises ConfigurationError for a type that cannot be
    decoded."""
    if _has_model(value_type):
        return _pydantic(value_type, "validate_python")
    _msgspec(value_type)
    return lambda value: msgspec.convert(value, value_type)


def conversions(convert: ConvertValue, values: Sequence[Any]) -> list[Any]:
    """Convert all values. Raises Misfits for the values that do not fit."""
    converted, reasons, words = [], {}, {}
    for index, value in enumerate(values):
        try:
            converted.append(convert(value))
        except msgspec.DecodeError as error:
            reasons[index] = str(error)
            words[index] = "missing-field" if isinstance(misfit(error), msgspec.ValidationError) else "undecodable"
    if reasons:
        raise Misfits(reasons, words)
    return converted


def misfit(error: Exception) -> Exception:
    """Convert an error of a decoder or a converter. ValidationError means that a field is missing, which has its own
    reason. Any other error makes the record undecodable."""
    if isinstance(error, msgspec.ValidationError) and not str(error).startswith(_MISSING):
        failure = msgspec.DecodeError(str(error)).with_traceback(error.__traceback__)
        failure.__cause__ = error.__cause__  # an error that the type itself raised
        return failure
    return error


def _msgspec(value_type: Any) -> DecodeJson:
    try:
        for inner in (value_type, *get_args(value_type)):
            if isinstance(inner, type) and isinstance(inspect.type_info(inner), inspect.CustomType):
                raise TypeError("write a msgspec.Struct, a dataclass, a TypedDict or a model of pydantic")
        return msgspec.json.Decoder(value_type).decode
    except TypeError as error:
        raise ConfigurationError(f"a handler's `value` cannot be of type {value_type}: {error}") from error


def _has_model(value_type: Any) -> bool:
    """Whether the type is a model of pydantic, or has one as an argument, as list[Model] has."""
    return hasattr(value_type, "__pydantic_validator__") or any(map(_has_model, get_args(value_type)))


def _pydantic(value_type: Any, method: str) -> Callable[[Any], Any]:
    """A function that raises pydantic's errors as errors of msgspec. They name the fields and quote no values."""
    from pydantic import TypeAdapter, ValidationError

    validate = getattr(TypeAdapter(value_type), method)

    def decode(value: Any) -> Any:
        try:
            return validate(value)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False, include_input=False)
            text = ", ".join(f"{item['msg']} - at `{'.'.join(('$', *map(str, item['loc'])))}`" for item in problems)
            missing = f"{_MISSING}: " if any(item["type"] == "missing" for item in problems) else ""
            raise msgspec.ValidationError(missing + text) from None

    return decode
