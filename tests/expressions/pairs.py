"""Random pairs of an expression and a document. A few expressions mix types on purpose."""

import random
from typing import Any, NamedTuple

WRONG = 0.04  # how often a part is of another type than the one that is asked for
DEPTH = 4

INTEGERS = (0, 1, -1, 2, 3, 7, -7, 60, 100, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63))
DOUBLES = (0.0, -0.0, 0.5, 1.0, -1.5, 2.25, 3.0, 1e300, -1e300, 1e-7, 123456.0, 1234567.0, 9.3e18)
TEXTS = ("", "a", "b", "ab", "A", "DE", "FR", "x-1", "é", "日本", "😀z", "10", "-3", "1.5", "true", " a ", "a,b,,c")
TIMES = (
    "2026-01-01T00:00:00Z",
    "2024-02-29T23:59:59.5Z",
    "1969-12-31T23:59:59Z",
    "2026-06-30T12:00:00+02:00",
    "nonsense",
)
LENGTHS = ("0s", "1s", "-1.5s", "36h", "1h30m", "250ms", "1m0.5s", "nonsense")
ZONES = ("UTC", "+01:00", "-08:00", "05:30")
FIELDS = {
    "i": "integer",
    "j": "integer",
    "d": "double",
    "e": "double",
    "s": "text",
    "t": "text",
    "f": "boolean",
    "g": "boolean",
    "ns": "integers",
    "ts": "texts",
    "items": "objects",
    "o": "object",
    "gone": "integer",
}
INSIDE = {"price": "integer", "rate": "double", "name": "text", "open": "boolean", "tags": "texts"}
ORDERS = ("<", "<=", ">", ">=", "==", "!=")


class Pair(NamedTuple):
    text: str
    document: dict[str, Any]


class Pairs:
    """An endless supply that follows from the seed. `extended`: with `default`, `== null` and bare `has`."""

    def __init__(self, seed: int, extended: bool) -> None:
        self._random = random.Random(f"{seed} {extended}")
        self._extended = extended
        self._variables: list[tuple[str, str]] = []

    def next(self) -> Pair:
        wanted = self._random.choice(
            ("boolean",) * 6 + ("integer", "double", "number", "text", "time", "length", "texts")
        )
        return Pair(self.of(wanted, self._random.randint(1, DEPTH)), self.document())

    def document(self) -> dict[str, Any]:
        made = {
            name: self._value(kind) for name, kind in FIELDS.items() if name != "gone" and self._random.random() < 0.9
        }
        for name in made:
            if self._random.random() < 0.05:
                made[name] = None
            elif self._random.random() < 0.05:
                made[name] = self._value(self._random.choice([*FIELDS.values()]))
        return made

    def _value(self, kind: str) -> Any:
        pick = self._random.choice
        match kind:
            case "integer":
                return pick(INTEGERS)
            case "double":
                return pick(DOUBLES)
            case "text":
                return pick(TEXTS)
            case "boolean":
                return pick((True, False))
            case "integers":
                return [pick((*INTEGERS, *DOUBLES)) for _ in range(pick((0, 1, 2, 5)))]
            case "texts":
                return [pick(TEXTS) for _ in range(pick((0, 1, 2, 4)))]
            case "objects":
                return [self._value("object") for _ in range(pick((0, 1, 3)))]
        return {name: self._value(inner) for name, inner in INSIDE.items() if self._random.random() < 0.85}

    # -- expressions -------------------------------------------------------------------------------------------------

    def of(self, kind: str, depth: int) -> str:
        if self._random.random() < WRONG:
            kind = self._random.choice(("integer", "double", "text", "boolean", "texts", "integers", "object", "time"))
        if kind == "number":
            kind = self._random.choice(("integer", "double"))
        if depth <= 0 or self._random.random() < 0.15:
            return self._leaf(kind)
        made = {
            "boolean": self._boolean,
            "integer": self._integer,
            "double": self._double,
            "text": self._text,
            "time": self._time,
            "length": self._length,
            "texts": self._texts,
            "integers": self._integers,
            "objects": self._objects,
            "object": self._object,
        }[kind](depth - 1)
        if self._random.random() < 0.04:
            return f"({self.of('boolean', depth - 1)} ? {made} : {self.of(kind, depth - 1)})"
        return made

    def _leaf(self, kind: str) -> str:
        """A literal, a field, or a variable of the type."""
        names = [name for name, its in FIELDS.items() if its == kind]
        names += [name for name, its in self._variables if its == kind] * 3
        for name in [*FIELDS, *(name for name, _ in self._variables)]:
            its = dict(self._variables).get(name, FIELDS.get(name))
            if its == "object":
                names += [f"{name}.{inner}" for inner, inner_kind in INSIDE.items() if inner_kind == kind]
        if names and self._random.random() < 0.7:
            return self._random.choice(names)
        return self._literal(kind)

    def _literal(self, kind: str) -> str:
        pick = self._random.choice
        match kind:
            case "integer":
                return str(pick(INTEGERS))
            case "double":
                return repr(pick(DOUBLES))
            case "text":
                return quoted(pick(TEXTS))
            case "boolean":
                return pick(("true", "false"))
            case "time":
                return f"timestamp({quoted(pick(TIMES[:4]))})" if self._random.random() < 0.95 else "timestamp(s)"
            case "length":
                return f"duration({quoted(pick(LENGTHS[:7]))})" if self._random.random() < 0.95 else "duration(s)"
            case "texts":
                return f"[{', '.join(quoted(pick(TEXTS)) for _ in range(pick((1, 2, 3))))}]"
            case "integers":
                return f"[{', '.join(str(pick(INTEGERS)) for _ in range(pick((1, 2, 3))))}]"
            case "objects":
                return "items"
        return pick(("o", "items[0]", '{"price": 3, "name": "a"}'))

    def _boolean(self, depth: int) -> str:
        pick = self._random.choice
        match self._random.randrange(16 if self._extended else 13):
            case 0 | 1:
                return f"({self.of('boolean', depth)} {pick(('&&', '||'))} {self.of('boolean', depth)})"
            case 2:
                return f"!{self._wrapped('boolean', depth)}"
            case 3 | 4:
                kind = pick(("integer", "double", "text", "time", "length", "number"))
                return f"({self.of(kind, depth)} {pick(ORDERS)} {self.of(kind, depth)})"
            case 5:
                kind = pick(("texts", "integers", "object", "boolean"))
                if self._random.random() < 0.2:
                    return f"({self.of(pick(('boolean', 'integer', 'double')), 0)} == {self.of('boolean', depth)})"
                return f"({self.of(kind, depth)} {pick(('==', '!='))} {self.of(kind, depth)})"
            case 6:
                kind = pick(("text", "integer"))
                return f"({self.of(kind, depth)} in {self.of(f'{kind}s', depth)})"
            case 7:
                return f"({quoted(pick(('price', 'name', 'other')))} in {self.of('object', depth)})"
            case 8:
                asked = pick(("contains", "startsWith", "endsWith"))
                return f"{self._wrapped('text', depth)}.{asked}({self.of('text', depth)})"
            case 9 | 10:
                return self._macro(pick(("all", "exists", "exists_one")), "boolean", depth)
            case 11:
                return f"has({pick(('o', 'items[0]'))}.{pick([*INSIDE, 'other'])})"
            case 12:
                return f"bool({self.of('text', depth)})"
            case 13:
                return f"has({pick([*FIELDS])})"
            case 14:
                return f"({pick([*FIELDS, 'o.price', 'o.other', 'gone.x'])} {pick(('==', '!='))} null)"
        return f"default({pick(['f', 'g', 'gone', 'o.open', 'o.other'])}, {self.of('boolean', depth)})"

    def _integer(self, depth: int) -> str:
        pick = self._random.choice
        match self._random.randrange(9 if self._extended else 8):
            case 0 | 1 | 2:
                other = pick(("integer", "integer", "integer", "double")) if self._extended else "integer"
                return f"({self.of('integer', depth)} {pick('+-*/%')} {self.of(other, depth)})"
            case 3:
                return f"-{self._wrapped('integer', depth)}"
            case 4:
                return f"size({self.of(pick(('text', 'texts', 'objects', 'object')), depth)})"
            case 5:
                return f"int({self.of(pick(('double', 'text', 'time', 'integer')), depth)})"
            case 6:
                part = pick(
                    ("FullYear", "Month", "Date", "DayOfMonth", "DayOfWeek", "DayOfYear", "Hours", "Minutes", "Seconds")
                )
                zone = quoted(pick(ZONES)) if self._random.random() < 0.5 else ""
                return f"{self._wrapped('time', depth)}.get{part}({zone})"
            case 7:
                if self._random.random() < 0.5:
                    return f"{self.of('integers', depth)}[{pick((0, 1, 9))}]"
                part = pick(("Hours", "Minutes", "Seconds", "Milliseconds"))
                return f"{self._wrapped('length', depth)}.get{part}()"
        return f"default({pick(['i', 'gone', 'o.price', 'o.other'])}, {self.of('integer', depth)})"

    def _double(self, depth: int) -> str:
        pick = self._random.choice
        match self._random.randrange(4):
            case 0 | 1:
                return f"({self.of('double', depth)} {pick('+-*/')} {self.of('double', depth)})"
            case 2:
                return f"-{self._wrapped('double', depth)}"
        return f"double({self.of(pick(('integer', 'text', 'double')), depth)})"

    def _text(self, depth: int) -> str:
        pick = self._random.choice
        match self._random.randrange(9):
            case 0 | 1:
                return f"({self.of('text', depth)} + {self.of('text', depth)})"
            case 2:
                return f"string({self.of(pick(('integer', 'boolean', 'text', 'time', 'length', 'double')), depth)})"
            case 3:
                return f"{self._wrapped('text', depth)}.{pick(('lowerAscii', 'upperAscii', 'trim'))}()"
            case 4:
                return f"{self._wrapped('text', depth)}.substring({pick((0, 1, 2, 3))})"
            case 5:
                limit = pick(("", ", 0", ", 1", ", -1"))
                return f"{self._wrapped('text', depth)}.replace({self.of('text', 0)}, {self.of('text', 0)}{limit})"
            case 6:
                separator = pick(("", quoted(","), quoted("-")))
                return f"{self._wrapped('texts', depth)}.join({separator})"
            case 7:
                return f"{self.of('texts', depth)}[{pick((0, 1))}]"
        return f"o[{quoted(pick(('name', 'other')))}]"

    def _time(self, depth: int) -> str:
        if self._random.random() < 0.5:
            return self._literal("time")
        return f"({self.of('time', depth)} {self._random.choice('+-')} {self.of('length', depth)})"

    def _length(self, depth: int) -> str:
        if self._random.random() < 0.5:
            return self._literal("length")
        left, right = self._random.choice((("time", "time"), ("length", "length")))
        return f"({self.of(left, depth)} - {self.of(right, depth)})"

    def _texts(self, depth: int) -> str:
        pick = self._random.choice
        match self._random.randrange(4):
            case 0:
                return f"({self.of('texts', depth)} + {self.of('texts', depth)})"
            case 1:
                separator = quoted(pick((",", "", "-", "a")))
                return f"{self._wrapped('text', depth)}.split({separator}{pick(('', ', 2', ', 0', ', -1'))})"
            case 2:
                return self._macro("filter", "boolean", depth, "texts")
        return self._macro("map", "text", depth)

    def _integers(self, depth: int) -> str:
        match self._random.randrange(3):
            case 0:
                return f"({self.of('integers', depth)} + {self.of('integers', depth)})"
            case 1:
                return self._macro("filter", "boolean", depth, "integers")
        return self._macro("map", "integer", depth)

    def _objects(self, depth: int) -> str:
        return self._macro("filter", "boolean", depth, "objects")

    def _object(self, depth: int) -> str:
        if self._random.random() < 0.5:
            return self._literal("object")
        return f'{{"price": {self.of("integer", depth)}, "name": {self.of("text", depth)}}}'

    def _wrapped(self, kind: str, depth: int) -> str:
        made = self.of(kind, depth)
        return f"({made})" if made.startswith("-") or " ? " in made else made

    def _macro(self, macro: str, body: str, depth: int, over: str = "") -> str:
        over = over or self._random.choice(("texts", "integers", "objects"))
        operand = self.of(over, depth - 1)
        name = f"v{len(self._variables)}"
        self._variables.append((name, {"texts": "text", "integers": "integer", "objects": "object"}[over]))
        inner = self.of(body, depth)
        if macro == "map" and self._random.random() < 0.3:
            inner = f"{self.of('boolean', depth)}, {inner}"
        self._variables.pop()
        return f"{operand}.{macro}({name}, {inner})"


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
