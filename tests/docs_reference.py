"""Writes docs/reference/*.md from the descriptions in the code.

`python -m tests.docs_reference` writes the pages again; do so after every change of a key, a command, a metric, an
event of the log, a header, an error or an exit code. It also writes the documents of `schemas/documents` that describe
the headers of dead letters.
"""

import ast
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, get_args

import typer
import yaml

from sluicegate.streams import errors
from sluicegate.streams.cli import main
from sluicegate.streams.cli.terminal import outcome
from sluicegate.streams.cli.terminal.documents import FIELDS
from sluicegate.streams.config.reference import KeyReference, references
from sluicegate.streams.contracts.headers import LETTER_HEADERS
from sluicegate.streams.observe.collector import PREFIX
from sluicegate.streams.observe.log_events import EVENTS
from sluicegate.streams.observe.metrics import METRICS
from tests.house import ARROWS, COMMON, DOOR, sources

PROJECT = Path(__file__).parents[1]
PAGES = PROJECT / "docs" / "reference"
HEADERS = {"result-headers": "Headers of outputs", "dead-letter-headers": "Headers of dead letters"}
MADE = "This page is made from the code by `python -m tests.docs_reference`.\n"
COMPLETION = """`sluicegate --install-completion` lets your shell complete commands, subcommands and options
(bash, zsh, fish and PowerShell). `--show-completion` prints the script. At the first Tab of a new shell,
zsh only loads the script.

With `--json` a command prints one JSON document on stdout. Its fields are named below and keep their names; later
releases may add fields. Times are RFC 3339. A field without a value is null. Errors are lines on stderr, and the exit
code is the same.
"""


def cell(text: object) -> str:
    """Text for a table: one line; a bar or a sign of HTML is no markup. Code stays code."""
    joined = " ".join(str(text).split()).replace("|", "\\|")
    parts = re.split(r"(`[^`]*`)", joined)
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;").replace("*", "\\*") for part in parts)


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *(f"| {' | '.join(map(cell, row))} |" for row in rows)]) + "\n"


def inline(value: Any) -> str:
    """A value in one line of YAML; empty for None."""
    if value is None:
        return ""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True, sort_keys=False)
    return code(text.removesuffix("\n").removesuffix("\n..."))


@cache
def _test_files() -> dict[str, str]:
    """The tests that read files of Sluicegate, by their path below tests/."""
    folders = [PROJECT / "tests" / name for name in ("unit", "integration", "contracts")]
    paths = [path for folder in folders for path in sorted(folder.rglob("test_*.py"))]
    return {path.relative_to(PROJECT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def tests_of(key: KeyReference) -> str:
    """Up to two files with tests of the key. Each writes the key, and the key that holds it. A file whose name has the
    word of the key stands before one whose name has the word of the key that holds it, and tests of the file format
    before others."""
    named = [part for part in key.path if part != "*"]
    last, holder = named[-1], named[-2] if len(named) > 1 else ""
    written = re.compile(rf"(?<![\w.]){re.escape(last)}[\"']?:|\b{re.escape(last)}=|[\"']{re.escape(last)}[\"']")
    pattern = re.compile(rf"\b{re.escape(holder)}\b")
    ranked = []
    for path, text in _test_files().items():
        if last in text and holder in text and written.search(text) and pattern.search(text):  # the first two are fast
            words = re.split(r"[_/.]", path)
            stems = [any(part and part.rstrip("s") == word.rstrip("s") for word in words) for part in (last, holder)]
            ranked.append((not stems[0], not stems[1], "/config/" not in path, path))
    return ", ".join(code(path) for *_, path in sorted(ranked)[:2])


@cache
def keys() -> str:
    """The page of the keys: a table for each part of the file, Kafka's settings last."""
    parts: dict[str, list[KeyReference]] = {}
    for key in references().values():
        parts.setdefault(".".join(key.path[:-1]), []).append(key)
    text = f"# Keys of the file\n\n{MADE}\n`*` stands for a name of your own. "
    text += "`sluicegate docs KEY` shows the same in the terminal. The last column names tests that use the key.\n"
    for part in sorted(parts, key=lambda part: part == "kafka"):
        rows = [
            (
                code(".".join(key.path[len(part.split(".")) if part else 0 :])),
                key.description,
                ", ".join(key.kinds),
                "required" if key.required else inline(key.default),
                inline(key.example),
                tests_of(key),
            )
            for key in parts[part]
        ]
        text += f"\n## {f'`{part}`' if part else 'The top of the file'}\n\n"
        text += table(["key", "meaning", "type", "default", "example", "tests"], rows)
    return text


def commands() -> str:
    """The page of the commands, with each argument and option."""
    text = f"# Commands\n\n{MADE}\n{COMPLETION}"
    for name, command in each_command(typer.main.get_command(main), "sluicegate"):
        text += f"\n## `{name}`\n\n{inspect.cleandoc(command.help or '')}\n"
        kinds = inspect.signature(command.callback).parameters
        rows = [
            (code(word), told(parameter, kinds[parameter.name].annotation)) for word, parameter in parameters(command)
        ]
        text += "\n" + table(["parameter", "meaning"], rows) if rows else ""
        fields = FIELDS.get(name.removeprefix("sluicegate "))
        text += f"\nThe document of `--json`: {fields}.\n" if fields else ""
    return text


def each_command(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    for word, part in getattr(command, "commands", {}).items():
        if getattr(part, "commands", None):
            yield from each_command(part, f"{name} {word}")
        else:
            yield f"{name} {word}", part


def parameters(command: Any) -> Iterator[tuple[str, Any]]:
    for parameter in command.params:
        options = ", ".join(sorted(parameter.opts, key=len))
        yield (
            options if parameter.param_type_name == "option" else parameter.metavar or parameter.name.upper(),
            parameter,
        )


def told(parameter: Any, annotation: Any) -> str:
    default = getattr(parameter.default, "value", parameter.default)
    words = [parameter.help or ""]
    words += [f"One of {', '.join(map(code, chosen))}." for chosen in choices(annotation)]
    usual = isinstance(default, str | int | float) and default not in (False, "")
    return " ".join([*words, f"Default: {code(default)}."] if usual else words)


def choices(annotation: Any) -> list[list[str]]:
    """The words of an enumeration in the annotation."""
    if inspect.isclass(annotation) and issubclass(annotation, Enum):
        return [[member.value for member in annotation]]
    return [words for part in get_args(annotation) for words in choices(part)]


ANY_LEVEL = "log"
"""The method whose first argument is the level. It passes on what a library logs: warnings and errors."""
LEVELS = ("debug", "info", "warning", "error", "exception", ANY_LEVEL)


def logged() -> dict[str, tuple[set[str], set[str]]]:
    """The levels and the fields of each event, by its name, as the calls have them. Connectors log sentences."""
    lines: dict[str, tuple[set[str], set[str]]] = {}
    for file, tree in sources(PROJECT):
        if file.startswith("streams/"):
            for call in filter(_logs, ast.walk(tree)):
                level = call.func.attr.replace("exception", "error")  # type: ignore[attr-defined]
                first = call.args[level == ANY_LEVEL]  # type: ignore[attr-defined]
                for name in _events(first):
                    levels, fields = lines.setdefault(name, (set(), set()))
                    levels |= {"warning", "error"} if level == ANY_LEVEL else {level}
                    fields.update(keyword.arg for keyword in call.keywords if keyword.arg)  # type: ignore[attr-defined]
    return lines


def _logs(node: ast.AST) -> bool:
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS
    return called and "log" in ast.unparse(node.func.value).lower() and bool(node.args)  # type: ignore[attr-defined]


def _events(name: ast.expr) -> list[str]:
    """The names that the first argument of a call can be."""
    if isinstance(name, ast.Call) and ast.unparse(name.func) == "_event":
        return [f"{process}.{ast.literal_eval(name.args[1])}" for process in ("worker", "dispatcher")]
    return [str(ast.literal_eval(name))]


def events() -> str:
    rows = [
        (code(name), ", ".join(sorted(levels)), EVENTS.get(name, ""), ", ".join(map(code, sorted(fields))))
        for name, (levels, fields) in sorted(logged().items())
    ]
    return f"# Events of the log\n\n{MADE}\n" + table(["event", "level", "meaning", "fields, among others"], rows)


def metrics() -> str:
    rows = [
        (
            code(PREFIX + metric.name + ("_total" if metric.kind == "counter" else "")),
            metric.kind,
            metric.meaning,
            ", ".join(map(code, metric.labels)),
        )
        for metric in METRICS
    ]
    return f"# Metrics\n\n{MADE}\n" + table(["metric", "kind", "meaning", "labels of its own"], rows)


def letter_schema() -> dict[str, Any]:
    """The JSON Schema of the headers of dead letters."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The headers that Sluicegate adds to a dead letter",
        "description": "As an object of texts. Key and value of the message are those of the record; its own headers "
        "are kept, those that begin with sluicegate- as dead-sluicegate-... A group that timed out or could not be "
        "written carries the headers of a result, too.",
        "type": "object",
        "properties": {header.name: {"description": header.meaning, **header.schema} for header in LETTER_HEADERS},
        "required": [header.name for header in LETTER_HEADERS if header.always],
        "$defs": {
            "uuid": {
                "type": "string",
                "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
            },
            "name": {"type": "string", "pattern": "^[A-Za-z0-9._-]+$"},
        },
    }


def letter_avro() -> dict[str, Any]:
    """The Avro schema of the headers of dead letters."""
    return {
        "type": "record",
        "name": "DeadLetter",
        "namespace": "sluicegate",
        "doc": "The headers that Sluicegate adds to a dead letter, as texts; `header` is the name that travels. Key "
        "and value of the message are those of the record, byte for byte.",
        "fields": [
            {
                "name": header.name.replace("-", "_"),
                "header": header.name,
                **({"type": "string"} if header.always else {"type": ["null", "string"], "default": None}),
                "doc": header.meaning,
            }
            for header in LETTER_HEADERS
        ],
    }


DOCUMENTS = {"dead-letter-headers.schema.json": letter_schema, "dead-letter.avsc": letter_avro}


def written(document: dict[str, Any]) -> str:
    """The document as JSON, each entry of its lists and objects on a line of its own."""
    lines = []
    for name, value in document.items():
        entries = []
        if isinstance(value, dict):
            entries = [f"    {json.dumps(key)}: {json.dumps(part)}" for key, part in value.items()]
        elif isinstance(value, list):
            entries = [f"    {json.dumps(part)}" for part in value]
        inside = ",\n".join(entries)
        open_, close = "{}" if isinstance(value, dict) else "[]"
        text = f"{open_}\n{inside}\n  {close}" if entries else json.dumps(value)
        lines.append(f"  {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def headers() -> str:
    text = f"# Headers\n\n{MADE}"
    for file, title in HEADERS.items():
        path = PROJECT / f"schemas/documents/{file}.schema.json"
        made = letter_schema() if file == "dead-letter-headers" else json.loads(path.read_text(encoding="utf-8"))
        rows = [
            (
                code(name),
                node.get("description", ""),
                ", ".join(map(code, node.get("enum", ()))),
                "yes" if name in made["required"] else "no",
            )
            for name, node in made["properties"].items()
        ]
        text += f"\n## {title}\n\n{made['description']}\n\n" + table(["header", "meaning", "values", "always"], rows)
    return text


def error_classes() -> list[type[Exception]]:
    kinds = [value for value in vars(errors).values() if inspect.isclass(value) and value.__module__ == errors.__name__]
    return [kind for kind in kinds if issubclass(kind, errors.SluicegateError)]


def exits() -> str:
    text = f"# Exit codes and errors\n\n{MADE}\n## Exit codes of commands\n\n"
    text += table(["code", "meaning"], outcome.EXIT_CODES.items())
    rows = [
        (
            code(error_class.__name__),
            ", ".join(code(kind.__name__) for kind in error_class.__bases__ if kind is not Exception),
            inspect.cleandoc(vars(error_class).get("__doc__") or ""),
        )
        for error_class in error_classes()
    ]
    return text + "\n## Errors\n\n" + table(["error", "kind of", "meaning"], rows)


def rooms() -> str:
    """The table of rooms: what the docstring of each says first, and the directions that the house test holds."""
    rows = []
    for room, allowed in ARROWS.items():
        if room not in (COMMON, DOOR):
            text = ast.get_docstring(
                ast.parse((PROJECT / "streams" / room / "__init__.py").read_text(encoding="utf-8"))
            )
            first = " ".join((text or "").split("\n\n")[0].split())
            every = {*ARROWS} - {COMMON, room}
            rows.append((code(room), first, "every room" if allowed >= every - {"app"} else ", ".join(sorted(allowed))))
    return table(["room", "what is in it", "imports"], rows)


def with_rooms(text: str) -> str:
    """The page of the design with the table of rooms as it is now."""
    before, begin, rest = text.partition("| room |")
    after = rest.partition("\n\n")[2]
    return f"{before}{rooms()}\n{after}" if begin else text


DESIGN = PROJECT / "docs" / "design.md"
MAKERS = {
    "events": events,
    "keys": keys,
    "commands": commands,
    "metrics": metrics,
    "headers": headers,
    "exit-codes": exits,
}


if __name__ == "__main__":
    PAGES.mkdir(exist_ok=True)
    for name, maker in MAKERS.items():
        (PAGES / f"{name}.md").write_text(maker(), encoding="utf-8")
    DESIGN.write_text(with_rooms(DESIGN.read_text(encoding="utf-8")), encoding="utf-8")
    for name, document in DOCUMENTS.items():
        (PROJECT / "schemas" / "documents" / name).write_text(written(document()), encoding="utf-8")
