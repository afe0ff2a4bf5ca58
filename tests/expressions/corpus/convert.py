"""Makes the JSON files of this folder from a checkout of https://github.com/google/cel-spec:

    python -m tests.expressions.corpus.convert FOLDER COMMIT

FOLDER is `tests/simple/testdata` of the checkout, and COMMIT is its commit. A case is left out when it needs what the
language of the files does not have; `left_out` in each JSON file counts those cases by reason.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FILES = (
    "basic",
    "comparisons",
    "conversions",
    "fields",
    "fp_math",
    "integer_math",
    "lists",
    "logic",
    "macros",
    "math_ext",
    "namespace",
    "parse",
    "plumbing",
    "string",
    "string_ext",
    "timestamps",
)
"""The other files are about messages of protobuf, optional values, type deduction and libraries that we do not have."""

_TOKEN = re.compile(
    r"""\s+|\#[^\n]*|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<word>\[[\w./]+\]|[-+.\w]+)|(?P<sign>[{}:,;<>\[\]])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|(.))", re.DOTALL)
_PLAIN = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_TEXTS = re.compile(r"(\"\"\"|'''|\"|')(?:\\.|(?!\1).)*?\1", re.DOTALL)
_OUTSIDE = (
    ("bytes", re.compile(r"\b(?:[bB][rR]?|[rR][bB])\"|\bbytes\(")),
    ("unsigned integers", re.compile(r"\b(?:0x[0-9a-fA-F]+|[0-9]+)[uU]\b|\buint\(")),
    ("types as values", re.compile(r"\btype\(|\b(?:int|string|bool|double|list|map|type|null_type)\b(?!\()")),
    ("messages and enums", re.compile(r"\bTestAllTypes\b|\bGlobalEnum\b|\bgoogle\.protobuf\b|\bcel\.expr\b|\w\{")),
    ("optional values", re.compile(r"\boptional\.|\[\?|\.\?|\{\?")),
    ("functions that we do not have", re.compile(r"\.(?:charAt|indexOf|lastIndexOf|format|reverse)\(|\bstrings\.")),
    ("functions that we do not have", re.compile(r"\bmath\.(?:bit\w+|sqrt)\(|\bcel\.\w+\(")),
    (
        "keys that are not text",
        re.compile(r"\{\s*(?:[-0-9.]+|true|false|null|\w+\()[^:}?]*:|,\s*(?:[0-9.]+|true|false):"),
    ),
)


class LeftOut(Exception):
    """The case needs what we do not have."""


def tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise SystemExit(f"not understood: {text[at : at + 60]!r}")
        at = match.end()
        if match.lastgroup:
            yield match.lastgroup, match.group()
    yield "end", ""


class Reader:
    """A message of protobuf's text format: each field with all of its values."""

    def __init__(self, text: str) -> None:
        self._tokens = list(tokens(text))
        self._at = 0

    def message(self) -> dict[str, list[Any]]:
        fields: dict[str, list[Any]] = {}
        while self._kind() == "word":
            name = self._next()
            self._skip(":")
            if self._skip("["):
                while not self._skip("]"):
                    fields.setdefault(name, []).append(self._value())
                    self._skip(",")
            else:
                fields.setdefault(name, []).append(self._value())
            self._skip(",") or self._skip(";")
        return fields

    def _value(self) -> Any:
        if self._skip("{"):
            inner = self.message()
            if not self._skip("}"):
                raise SystemExit(f"expected }} and found {self._tokens[self._at]}")
            return inner
        if self._kind() == "text":
            parts = b""
            while self._kind() == "text":
                parts += _unescaped(self._next()[1:-1])
            return parts
        return self._next()

    def _kind(self) -> str:
        return self._tokens[self._at][0]

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _skip(self, sign: str) -> bool:
        matches = self._tokens[self._at] == ("sign", sign)
        self._at += matches
        return matches


def _unescaped(text: str) -> bytes:
    def meant(match: re.Match[bytes]) -> bytes:
        byte, four, eight, octal, plain = match.groups()
        if byte or octal:
            return bytes([int(byte, 16) if byte else int(octal, 8)])
        if four or eight:
            return chr(int(four or eight, 16)).encode()
        return _PLAIN.get(plain, plain)

    return _ESCAPE.sub(meant, text.encode())


def value_of(message: dict[str, list[Any]]) -> Any:
    """As JSON. Times, durations and what JSON cannot write as a number are objects with one name that begins with @."""
    [(name, [value])] = message.items()
    match name:
        case "bool_value":
            return value == "true"
        case "int64_value":
            return int(value, 0)
        case "double_value":
            number = float(value)
            return number if abs(number) < float("inf") else {"@double": str(number)}
        case "string_value":
            return value.decode()
        case "null_value":
            return None
        case "list_value":
            return [value_of(item) for item in value.get("values", [])]
        case "map_value":
            return _map(value.get("entries", []))
        case "object_value":
            return _moment(value)
        case "uint64_value":
            raise LeftOut("unsigned integers")
        case "bytes_value":
            raise LeftOut("bytes")
        case "type_value":
            raise LeftOut("types as values")
    raise LeftOut("messages and enums")


def _map(entries: list[Any]) -> dict[str, Any]:
    made = {}
    for entry in entries:
        key = value_of(entry["key"][0])
        if not isinstance(key, str):
            raise LeftOut("keys that are not text")
        made[key] = value_of(entry["value"][0])
    return made


def _moment(results: dict[str, list[Any]]) -> dict[str, Any]:
    [(kind, [inner])] = results.items()
    name = {"[type.googleapis.com/google.protobuf.Timestamp]": "@time"}.get(kind)
    name = name or {"[type.googleapis.com/google.protobuf.Duration]": "@duration"}.get(kind)
    if name is None:
        raise LeftOut("messages and enums")
    return {name: [int(inner.get(part, ["0"])[0]) for part in ("seconds", "nanos")]}


def case_of(section: str, test: dict[str, list[Any]]) -> dict[str, Any]:
    text = test["expr"][0].decode()
    outside_of_texts = _TEXTS.sub('""', text)
    for reason, pattern in _OUTSIDE:
        if pattern.search(outside_of_texts):
            raise LeftOut(reason)
    if "container" in test:
        raise LeftOut("namespaces")
    if "check_only" in test or "unknown" in test or "any_unknowns" in test:
        raise LeftOut("the checker's types, and unknown values")
    case: dict[str, Any] = {"name": f"{section}/{test['name'][0].decode()}", "expr": text}
    bindings = {
        binding["key"][0].decode(): value_of(binding["value"][0]["value"][0]) for binding in test.get("bindings", [])
    }
    if bindings:
        case["record"] = bindings
    if "eval_error" in test or "any_eval_errors" in test:
        return case | {"error": True}
    results = test.get("value") or [result["result"][0] for result in test.get("typed_result", [])]
    return case | {"value": value_of(results[0]) if results else True}


def converted(text: str, commit: str) -> dict[str, Any]:
    left_out: Counter[str] = Counter()
    cases = []
    for section in Reader(text).message()["section"]:
        for test in section.get("test", []):
            try:
                cases.append(case_of(section["name"][0].decode(), test))
            except LeftOut as reason:
                left_out[str(reason)] += 1
    return {
        "source": "https://github.com/google/cel-spec, tests/simple/testdata",
        "license": "Apache-2.0, see NOTICE; changed: converted to JSON, cases left out",
        "commit": commit,
        "left_out": dict(sorted(left_out.items())),
        "cases": cases,
    }


def main(folder: str, commit: str) -> None:
    for name in FILES:
        made = converted((Path(folder) / f"{name}.textproto").read_text(encoding="utf-8"), commit)
        cases = ",\n".join(f"  {json.dumps(case)}" for case in made.pop("cases"))
        head = json.dumps(made, indent=1)[:-2]
        (HERE / f"{name}.json").write_text(f'{head},\n "cases": [\n{cases}\n ]\n}}\n', encoding="utf-8")
        json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main(*sys.argv[1:])
