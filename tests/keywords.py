"""Writes streams/app/keys.py, the keywords of `App` and `Agent`, from the models of the file.

`python -m tests.keywords` writes the file again; do so after every change of a key or of its description.
"""

import keyword
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from sluicegate.streams import units
from sluicegate.streams.config.schema import VARIABLE, schema
from sluicegate.streams.config.sections.fields import ERROR, FUNCTION

KEYS = Path(__file__).parents[1] / "streams" / "app" / "keys.py"
HEAD = '''"""The keywords of `App` and `Agent`. Generated from the models of the file by `python -m tests.keywords`.

A keyword has the name, the meaning and the values of the key in the file. `from` is a word of Python, so the keyword
is `from_`.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Required, TypedDict

HandlerFunction = Callable[..., Any]
FileDuration = str | timedelta
FileKeys = Mapping[str, Any]
"""A part of the file: keys and values as YAML has them."""
'''
OF_APP = ("app", "store", "kafka", "agents")
"""Parameters of App, and its agents: they are no keywords."""
OF_AGENT = ("aggregate", "handler")
"""The keys below `aggregate` are keywords themselves; `handler` is a parameter of App.add."""
SCALARS = {"integer": "int", "number": "float", "boolean": "bool", "null": "None", "string": "str"}
PATTERNS = {
    units.DURATION: "FileDuration",
    units.TIME: "str | datetime",
    FUNCTION: "str | HandlerFunction",
    ERROR: "str | type[Exception]",
}


def kind(node: dict[str, Any]) -> list[str]:
    """The types of Python that say what this part of the schema says; of a mapping with known keys: FileKeys."""
    if node == VARIABLE:
        return []
    if "$ref" in node:
        return ["FileKeys"]
    if "anyOf" in node:
        return [types for one in node["anyOf"] for types in kind(one)]
    if "enum" in node or "const" in node:
        return [f"Literal[{', '.join(map(repr, node.get('enum', [node.get('const')])))}]"]
    if isinstance(node.get("type"), list):
        return [SCALARS[name] for name in node["type"]]
    if node.get("type") == "array":
        return [f"Sequence[{union(node.get('items', {}))}]"]
    if node.get("type") == "object":
        values = node.get("additionalProperties")
        return [
            f"Mapping[str, {union(values)}]" if isinstance(values, dict) and "properties" not in node else "FileKeys"
        ]
    name = PATTERNS.get(node.get("pattern", ""))
    return [name or SCALARS.get(node.get("type", ""), "Any")]


def union(node: dict[str, Any]) -> str:
    names = [word for types in kind(node) for word in types.split(" | ") if types]
    known = [name for name in dict.fromkeys(names) if name != "None"]
    return " | ".join([*known, "None"] if "None" in names else known) or "Any"


def written(name: str, base: str, intro: str, model: dict[str, Any], left_out: tuple[str, ...]) -> str:
    """The class of the keys of a model, with a docstring that describes each."""
    lines, docs = [], []
    for key, node in model["properties"].items():
        if key in left_out:
            continue
        word = f"{key}_" if keyword.iskeyword(key) else key
        types = union(node)
        lines.append(f"    {word}: {f'Required[{types}]' if key in model.get('required', ()) else types}")
        default = node.get("default")
        words = [f"`{word}`", f"({types}" + (f"; {default!r} by default)" if default not in (None, {}, []) else ")")]
        text = f"- {' '.join(words)}: {node['description']}"
        docs.append(textwrap.fill(text, 116, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False))
    doc = textwrap.indent("\n".join(docs), "    ").replace("\\", "\\\\")
    return f'\n\nclass {name}({base}, total=False):\n    """{intro}\n\n{doc}\n    """\n\n' + "\n".join(lines) + "\n"


def generated() -> str:
    made = schema()
    parts = {name: made["$defs"][name] for name in ("Aggregate", "AgentModel")}
    twice = {*parts["Aggregate"]["properties"]} & {*parts["AgentModel"]["properties"]}
    assert not twice, f"{twice} is a key of an agent and of aggregate: a keyword can be only one of them"
    text = (
        HEAD
        + written("AggregateKeys", "TypedDict", "The keys of groups: those below `aggregate`.", parts["Aggregate"], ())
        + written("AgentKeys", "AggregateKeys", "The other keys of an agent.", parts["AgentModel"], OF_AGENT)
        + written("AppKeys", "TypedDict", "The other keys at the top of the file.", made, OF_APP)
    )
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(KEYS), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=60).stdout


if __name__ == "__main__":
    KEYS.write_text(generated(), encoding="utf-8")
