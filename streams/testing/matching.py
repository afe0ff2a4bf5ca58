"""Compares an output with an expectation, and describes the differences."""

from collections.abc import Iterator, Mapping, Sequence
from math import isclose
from typing import Any

from sluicegate.schemas import json
from sluicegate.streams.cases import ANYTHING, Expect
from sluicegate.streams.contracts.headers import DEAD_ERROR, DEAD_WHERE
from sluicegate.streams.testing.outputs import ReadOutput

LONGEST = 300  # characters of a value that are shown


def candidates(outputs: Sequence[ReadOutput], key: str | None) -> list[ReadOutput]:
    """The oldest output of each key, or of this key. Outputs of different keys have no order."""
    oldest: dict[str | bytes | None, ReadOutput] = {}
    for output in outputs:
        if key is None or output.key == key:
            oldest.setdefault(output.key, output)
    return list(oldest.values())


def differences(expect: Expect, output: ReadOutput) -> list[str]:
    """The differences between an output and an expectation. Empty when the output matches."""
    texts = [] if expect.value is ANYTHING else list(_of_value(expect.value, output.value, ""))
    if expect.reason is not None and output.reason != expect.reason:
        texts.append(f"its reason is {output.reason}, not {expect.reason}")
    for name, text in expect.headers.items():
        if name not in output.headers:
            texts.append(f"it has no header {name}")
        elif output.headers[name] != text:
            texts.append(f"its header {name} is {value_text(output.headers[name])}, not {value_text(text)}")
    return texts


def _of_value(wanted: Any, value: Any, path: str) -> Iterator[str]:
    """`path` is the place of the value in the output, such as `order.items[1]`."""
    if isinstance(wanted, Mapping) and isinstance(value, Mapping):
        for name, member in wanted.items():
            inner = f"{path}.{name}" if path else str(name)
            if name not in value:
                yield f"it has no {inner}"
            else:
                yield from _of_value(member, value[name], inner)
    elif isinstance(wanted, list) and isinstance(value, list) and len(wanted) == len(value):
        for number, (element, other) in enumerate(zip(wanted, value, strict=True)):
            yield from _of_value(element, other, f"{path}[{number}]")
    elif not fits(wanted, value):
        yield f"its {path or 'value'} is {value_text(value)}, not {value_text(wanted)}"


def fits(wanted: Any, value: Any) -> bool:
    """Equal as in JSON: true is not 1, 100 is 100.0. Fractions are compared to about nine digits. Of a mapping, at any
    depth, only the wanted fields are compared."""
    if isinstance(wanted, Mapping) and isinstance(value, Mapping):
        return all(name in value and fits(wanted[name], value[name]) for name in wanted)
    if isinstance(wanted, list) and isinstance(value, list):
        return len(wanted) == len(value) and all(map(fits, wanted, value))
    if json.is_number(wanted) and json.is_number(value):
        whole = isinstance(wanted, int) and isinstance(value, int)
        return bool(wanted == value if whole else isclose(wanted, value, abs_tol=1e-12))
    return type(wanted) is type(value) and bool(wanted == value)


def expectation_text(expect: Expect) -> str:
    """The expectation as text."""
    parts = [] if expect.key is None else [f"key {expect.key}"]
    parts += [] if expect.reason is None else [f"reason {expect.reason}"]
    parts += [] if expect.value is ANYTHING else [f"value {value_text(expect.value)}"]
    parts += [f"header {name}: {text}" for name, text in expect.headers.items()]
    return f"an output on {expect.topic}" + (f" with {' and '.join(parts)}" if parts else "")


def output_text(output: ReadOutput) -> str:
    """The output as text, for a failure."""
    reason = "" if output.reason is None else f", reason {output.reason}"
    key = output.key if isinstance(output.key, str) else repr(output.key)
    error = [output.headers.get(name) for name in (DEAD_ERROR, DEAD_WHERE)]
    why = " at ".join(text for text in error if isinstance(text, str))
    return f"key {key}{reason}{', error ' if why else ''}{why}, value {value_text(output.value)}"


def value_text(value: Any) -> str:
    """The value as JSON, cut after LONGEST characters."""
    text = repr(value) if isinstance(value, bytes) else json.encode(value).decode()
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
