"""The code that reads the values of a record."""

import ast
from collections.abc import Callable, Iterable
from typing import Any

from sluicegate.schemas.json import document
from sluicegate.streams.aggregation.clauses import KEY_TEXT, MESSAGE_KEY, clause, names_key, names_of, typed_code
from sluicegate.streams.aggregation.compiled.group_code import of_group
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.expressions.templates import expression, name, statements
from sluicegate.streams.expressions.typed import Proof, TypedCode
from sluicegate.streams.reducers import kind_of

RECORD_KEY = "key = record.key()"
_MISSING = """
if N is None:
    unproven()
"""
_SHALLOW = """
if type(N) is dict or type(N) is list:
    shallow(value)
"""
DOCUMENT = """
try:
    flat(value)
except ValidationError:
    document(value)
"""


class RecordValues:
    """The code that reads the fields. Without `where` and computed fields, the rule's own decoder has checked the
    types. Otherwise the code checks each field where it is used, after `where`. `key` is the code that reads the key of
    the record before `where`, if expressions name it. Raises NotTyped."""

    def __init__(self, rule: Rule, asks: bool, dedupes: bool) -> None:
        self.dedupe = rule.agent.dedupe if dedupes else None
        self._rule, self._locals, self._functions = rule, dict[tuple[str, bool], str](), dict[str, Any]()
        self.statements: list[ast.stmt] = []
        strict = rule.aggregation.on_missing != "ignore"
        numbers = [entry.field for entry in rule.aggregation.compute if kind_of(entry).takes == "number" and strict]
        self._numbers = frozenset(numbers)
        self.code: TypedCode | None = None
        by_field = self.dedupe is not None and self.dedupe.by == "field"
        clauses = rule.reader.lets is not None or rule.ending is not None or rule.deadline is not None
        self.key: list[ast.stmt] = []
        if (asks and rule.agent.where) or clauses or by_field:
            known = of_group(rule.places, rule.aggregation.correlation is not None) if rule.ending is not None else {}
            if not rule.aggregation.key and names_key(rule.agent):
                self.key, known = statements(RECORD_KEY), {**known, MESSAGE_KEY: expression(KEY_TEXT)}
            self.code = typed_code(rule.agent.let, known)
        self.where = None
        if asks and rule.agent.where and self.code is not None:
            self.where = self.code.where(clause("where", rule.agent.where).node)

    def local(self, path: str, proof: Proof, maybe: bool) -> str:
        """The local variable with the value of the field. With `maybe` it is None if the field is missing."""
        known = self._locals.get((path, maybe)) or self._locals.get((path, False))
        if known is not None:
            return known
        proof = "number" if path in self._numbers else proof
        made = self._locals[path, maybe] = f"n{len(self._locals)}"
        self.statements += statements("N = X", N=made, X=self._value(path, proof, maybe))
        if self.code is not None and not maybe and proof == "any":
            self.statements += statements(_MISSING, N=made)
        if self._rule.reader.keeps and (maybe or proof == "any"):
            self.statements += statements(_SHALLOW, N=made)
        return made

    def compute(self, fields: Iterable[str]) -> None:
        """Evaluate all computed fields. A record counts only if each of them has a value that can be encoded."""
        for field in sorted(fields):
            if not any(known == field for known, _ in self._locals):
                self.local(field, "any", True)

    def _value(self, path: str, proof: Proof, maybe: bool) -> ast.expr:
        if self.code is not None:
            parts = tuple(path.split("."))
            return self.code.optional(parts) if maybe else self.code.value(parts, proof)
        chain = self._rule.reader.chains[path]
        if chain is None:
            getter = self._rule.reader.getters[path]
            return expression("W(read)", W=self.bind(f"w{len(self._functions)}", getter))
        code: ast.expr = name("read")
        for attribute in chain.split("."):
            code = ast.Attribute(code, attribute, ast.Load())
        return code

    def bind(self, name: str, function: Callable[..., Any]) -> str:
        """Let this name in the code be the function. Returns the name."""
        self._functions[name] = function
        return name

    def read(self) -> list[ast.stmt]:
        """The code that decodes the record."""
        alone = self.code is None and self._rule.reader.decode is document
        return statements(DOCUMENT if alone else "read = decode(value)")

    def largest(self) -> int:
        return self._rule.max_record_bytes if self.code is None else self.code.largest()

    def names(self) -> dict[str, Any]:
        if self.code is None:
            return {"decode": self._rule.reader.unchecked or self._rule.reader.decode, **self._functions}
        return {**names_of(self.code, self._rule.reader.codec), **self._functions}
