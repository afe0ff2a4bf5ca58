"""`aggregate` as the file writes it."""

from typing import Annotated, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator

from sluicegate.streams.agent import GroupSettings
from sluicegate.streams.config.sections.deadlines import DebounceField, GroupTimeoutField, TimeoutModel
from sluicegate.streams.config.sections.entries import FilePart
from sluicegate.streams.config.sections.fields import (
    FIELD,
    FUNCTION,
    LONGEST_EXPRESSION,
    Count,
    Expression,
    FieldPath,
    Function,
    ValueField,
    refused,
    unless_unknown,
)
from sluicegate.streams.config.sections.windows import WindowField
from sluicegate.streams.config.text.scalars import Unknown
from sluicegate.streams.hints import did_you_mean
from sluicegate.streams.reducers import ENTRIES, REDUCERS
from sluicegate.streams.reduction import Option, ReducerKind

_EXPRESSION_SCHEMA = {"type": "string", "minLength": 1, "maxLength": LONGEST_EXPRESSION}
RESERVED = ("key", "key_base64", "count", "reason", "opened_at", "closed_at")
_ALONE = [entry.name for entry in ENTRIES if entry.alone]
_ARGUMENTS = {"number": "field", "field": "field", "function": "function"}


class UntilModel(FilePart, frozen=True):
    field: FieldPath = Field(description="The field that is compared.", examples=["status"])
    equals: ValueField = Field(description="The value of the field that completes the group.", examples=["closed"])


_UNTIL_FORM = "{field, equals}"
UntilField = Annotated[
    Annotated[UntilModel, Tag(_UNTIL_FORM)] | Annotated[Expression, Tag("expression")],
    Discriminator(lambda value: _UNTIL_FORM if isinstance(value, dict | UntilModel) else "expression"),
    unless_unknown(lambda: UntilModel.model_construct(field="unknown", equals=None)),
    WithJsonSchema({"anyOf": [_EXPRESSION_SCHEMA, UntilModel.model_json_schema()]}),
]


class ReducerModel(FilePart, frozen=True):
    """One computed field: `kind` is the name of an entry in streams/reducers.py."""

    kind: str
    field: FieldPath | None = None
    function: Function | None = None
    option: float | int | None = None


def _as_reducer(value: object) -> object:
    if isinstance(value, Unknown) or value in _ALONE:
        return {"kind": "count" if isinstance(value, Unknown) else value}
    if isinstance(value, dict) and len(value) == 1:
        [(kind, argument)] = value.items()
        if (entry := REDUCERS.get(kind)) is None:
            raise refused("is not a reducer", _nearest(str(kind)))
        if entry.takes == "nothing":
            raise refused("takes no field", f"write {kind}")
        if entry.option is not None:
            return {"kind": kind, **_with_option(entry, entry.option, argument)}
        return {"kind": kind, _ARGUMENTS[entry.takes]: argument if argument is not None else ""}
    if isinstance(value, str):
        entry = REDUCERS.get(value)
        raise refused("is not a reducer", f"write {_form(entry)}" if entry else _nearest(value))
    raise refused("is not a reducer", "write count, collect, or {sum: FIELD} and the like")


def _with_option(entry: ReducerKind, option: Option, argument: object) -> dict[str, object]:
    """The field and the number of a reducer that needs both."""
    if not isinstance(argument, dict) or {*argument} != {"field", option.name}:
        raise refused(f"needs a field and {option.name}", f"write {_form(entry)}")
    number = argument[option.name]
    if isinstance(number, Unknown):
        number = option.least
    kinds = int if option.whole else int | float
    if isinstance(number, bool) or not isinstance(number, kinds) or not option.least <= number <= option.most:
        what = "an integer" if option.whole else "a number"
        raise refused(f"needs {what} from {option.least} to {option.most:,} as {option.name}", f"write {_form(entry)}")
    return {
        "field": argument["field"] if argument["field"] is not None else "",
        "option": int(number) if isinstance(number, int) else float(number),
    }


def _form(entry: ReducerKind) -> str:
    if entry.option is not None:
        return f"{{{entry.name}: {_with_number(entry.option)}}}"
    return f"{{{entry.name}: {'module:function' if entry.takes == 'function' else 'FIELD'}}}"


def _with_number(option: Option) -> str:
    return f"{{field: FIELD, {option.name}: {option.example}}}"


def _nearest(word: str) -> str:
    return did_you_mean(word, [*REDUCERS], {other: entry.name for entry in ENTRIES for other in entry.others})


_PATTERNS = {"field": FIELD, "function": FUNCTION}


def _argument_schema(entry: ReducerKind) -> dict[str, object]:
    argument: dict[str, object] = {"type": "string", "pattern": _PATTERNS[_ARGUMENTS[entry.takes]]}
    if (option := entry.option) is None:
        return {**argument, "description": entry.meaning}
    number = {"type": "integer" if option.whole else "number", "minimum": option.least, "maximum": option.most}
    return {
        "type": "object",
        "required": ["field", option.name],
        "additionalProperties": False,
        "properties": {
            "field": {**argument, "description": "The field."},
            option.name: {**number, "description": option.meaning, "examples": [option.example]},
        },
        "description": entry.meaning,
        "examples": [{"field": "amount", option.name: option.example}],
    }


_REDUCER_SCHEMA = {
    "anyOf": [
        {"enum": _ALONE},
        {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": False,
            "properties": {entry.name: _argument_schema(entry) for entry in ENTRIES if entry.takes != "nothing"},
        },
    ]
}
ReducerSpec = Annotated[ReducerModel, BeforeValidator(_as_reducer), WithJsonSchema(_REDUCER_SCHEMA)]


class Aggregate(FilePart, GroupSettings, frozen=True):
    timeout: GroupTimeoutField | None = Field(
        default=None,
        description="The age at which a group is complete: one time since its first record, `{after, since}`, or "
        "`{first, last}`; or a deadline from the data, `{at: due_at}` or `{after: EXPRESSION}`.",
        examples=["30s", {"after": "30s", "since": "last"}, {"at": "due_at"}],
    )
    debounce: DebounceField | None = Field(
        default=None,
        description="The time without a record of the key after which the group is complete: another word for "
        "`timeout: {last, first}`.",
        examples=["10s", {"period": "10s", "at_most": "1m"}],
    )
    until: UntilField | None = Field(
        default=None,
        description="An expression, or `{field, equals}`. The record for which it is true completes the group.",
        examples=["group.weight >= 500"],
    )
    compute: Annotated[dict[str, ReducerSpec], unless_unknown(dict)] = Field(
        default_factory=dict,
        description="The fields of the result by name, each with a reducer.",
        examples=[{"spent": {"sum": "amount"}, "orders": "count"}],
    )
    max_items: Count | None = Field(default=None, description="The most records of a group.", examples=[1000])
    window: WindowField | None = Field(
        default=None,
        description="Windows of event time. Each key has one group for each window.",
        examples=[{"tumbling": "5m", "grace": "30s"}],
    )

    @model_validator(mode="after")
    def _debounced(self) -> Self:
        """Converts `debounce` into the equivalent timeout."""
        if self.debounce is not None and self.timeout is None:
            self.__dict__["timeout"] = TimeoutModel.model_construct(
                last=self.debounce.period, first=self.debounce.at_most
            )
        elif self.debounce is not None:
            raise refused("has both timeout and debounce, which have the same meaning", "leave one of them out")
        return self
