"""Keys of the file: one entry for each, next to the field in `agent/` that has its value.

A field `name: Annotated[KIND, FileKey(...)] = DEFAULT` of a table is a key of the file. The model of the file, its JSON
Schema, the keywords of Python, the page of keys, the document of the rule and the class of a change are generated from
this entry (sluicegate.streams.config.sections.entries, sluicegate.streams.rules). A key whose value in the file differs
in form from its value at run time is a field of the model itself.
"""

from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal, NamedTuple, get_type_hints

FINISH, CONVERT, REWIND, FLUSH, DROP = "finish", "convert", "rewind", "flush", "drop"
POLICIES = (FINISH, CONVERT, REWIND, FLUSH, DROP)
"""The policies for an open group: it ends under its own rule; it continues under the new rule; it ends without a
result, and its records are read again; it fires as it is; it is dropped."""
ENDS = (FLUSH, DROP)
"""The policies that do not depend on the rule that filled the group."""


class ChangeClass(NamedTuple):
    """The effect of a change of a key on open groups. `text` is the explanation for users. `policies` are the policies
    under which an open group can stay correct."""

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
"""Ordered by the effort that they require of an operator, highest first. A change of the class FILE does not change the
rule: it takes effect at the restart."""


@dataclass(frozen=True, slots=True)
class FileKey:
    """One key. Its name, its type and its default are those of the field.

    `text` and `example` describe it for users; `change` is the class of a change. `kind` refines the type: text may be
    a topic, an expression or a limit, and a whole number a size. `least` and `most` are the bounds of a whole number. A
    default outside of them, or empty text, is a key that the file omits. `after` is the key before it in the reference,
    if this differs from the order of the table.
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
        """Whether the default is not a valid value of the key."""
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
