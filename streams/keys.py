"""Keys of the file: one entry each, beside the field of `agent.py` that has its value.

A field `name: Annotated[KIND, FileKey(...)] = DEFAULT` of a table is a key of the file. The model of the file, its JSON
Schema, the keywords of Python, the page of keys, the document of the rule and the class of a change come from this
entry (sluicegate.streams.config.sections.entries, sluicegate.streams.rules). A key whose value in the file has another
form than the value that runs is a field of the model itself.
"""

from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal, NamedTuple, get_type_hints

FINISH, CONVERT, REWIND, FLUSH, DROP = "finish", "convert", "rewind", "flush", "drop"
POLICIES = (FINISH, CONVERT, REWIND, FLUSH, DROP)
"""What may become of an open group: it ends under its own rule; it goes on under the new rule; it ends without a
result, and its records are read again; it fires as it is; it is forgotten."""
ENDS = (FLUSH, DROP)
"""The policies that do not ask what the group was filled with."""


class ChangeClass(NamedTuple):
    """What a change of a key means for open groups. `text` is the explanation for users. `policies` are those under
    which an open group can stay correct."""

    text: str
    policies: tuple[str, ...]


ELSEWHERE = ChangeClass("app or store", ())
TOPICS = ChangeClass("topics or agents", ())
INPUT = ChangeClass("how the input is read", ENDS)
COMPUTED = ChangeClass("key or compute", (FINISH, REWIND, *ENDS))
REVISION = ChangeClass("revision", (CONVERT, REWIND, *ENDS))
KEPT = ChangeClass("compute, from what groups hold", POLICIES)
DUPLICATES = ChangeClass("duplicates", POLICIES)
OUTPUT = ChangeClass("what is sent", POLICIES)
TAKEN = ChangeClass("which records count", POLICIES)
END = ChangeClass("end of a group", POLICIES)
FILE = ChangeClass("the file", POLICIES)
CLASSES = (ELSEWHERE, TOPICS, INPUT, COMPUTED, REVISION, KEPT, DUPLICATES, OUTPUT, TAKEN, END, FILE)
"""Those that demand most of a person come first. A change of the class FILE is no change of the rule: it holds from the
restart on."""


@dataclass(frozen=True, slots=True)
class FileKey:
    """One key. Its name, its type and its default are those of the field.

    `text` and `example` describe it for users; `change` is the class of a change. `kind` is what the type does not
    tell: text may be a topic, an expression or a limit, and a whole number a size. `least` and `most` are the bounds of
    a whole number. A default outside of them, or empty text, is a key that the file leaves out. `after` is the key
    before it in the reference, where this is not the one before it in the table.
    """

    text: str
    example: Any
    change: ChangeClass = FILE
    kind: Literal["", "topic", "expression", "size", "limit"] = ""
    least: int = 1
    most: int = 1_000_000_000
    after: str = ""


class TableKey(NamedTuple):
    """A key with its field."""

    name: str
    entry: FileKey
    type: Any
    default: Any
    secret: bool

    @property
    def numbers(self) -> bool:
        """Whether the file has text for a number: a duration or a size."""
        return self.type in (float, float | None) or self.entry.kind == "size"

    @property
    def left_out(self) -> bool:
        """Whether the default is not a value of the key."""
        counts = self.type is int and not self.entry.kind
        return self.default in (None, "") or (counts and not self.entry.least <= self.default <= self.entry.most)


@cache
def keys_of(table: type[Any]) -> tuple[TableKey, ...]:
    """The keys of a table, in its order."""
    hints = get_type_hints(table, include_extras=True)
    table_keys = []
    for field in fields(table):
        for entry in getattr(hints[field.name], "__metadata__", ()):
            if isinstance(entry, FileKey):
                table_keys.append(
                    TableKey(field.name, entry, hints[field.name].__origin__, field.default, not field.repr)
                )
    return tuple(table_keys)
