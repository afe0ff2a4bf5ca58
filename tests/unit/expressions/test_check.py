"""Every message of `check`, and what it must not refuse."""

import pytest

from sluicegate.streams.expressions.check import Finding, check, check_condition
from sluicegate.streams.expressions.functions import FUNCTIONS
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.signatures import SIGNATURES
from sluicegate.streams.expressions.types import (
    BOOLEAN,
    DOUBLE,
    DURATION,
    INTEGER,
    NUMBER,
    TEXT,
    TIME,
    UNKNOWN,
    ValueType,
    common,
    list_of,
    map_of,
    nullable,
    open_record_of,
    record_of,
)

NAMES = {
    "country": TEXT,
    "qty": INTEGER,
    "amount": DOUBLE,
    "some": NUMBER,
    "total": ValueType("text", note="a decimal"),
    "status": ValueType("text", symbols=("paid", "open")),
    "due": TEXT,
    "at": TIME,
    "wait": DURATION,
    "paid": BOOLEAN,
    "risk": nullable(INTEGER),
    "vip": nullable(BOOLEAN),
    "customer": nullable(record_of({"tier": nullable(TEXT), "name": TEXT})),
    "tags": list_of(TEXT),
    "items": list_of(record_of({"price": DOUBLE, "rebate": nullable(DOUBLE)})),
    "headers": map_of(nullable(TEXT)),
}
VALUES = "+ takes two numbers, texts or lists, or a time and a duration"
TIMES = "- takes two numbers or times, or a time and a duration"

WRONG = [
    # Names.
    ('countri == "DE"', 1, "no field countri in invoice.avsc; did you mean country?"),
    ("zzz > 3", 1, "no field zzz in invoice.avsc"),
    ('has(customer) && customer.tierr == "gold"', 27, "no field tierr in customer; did you mean tier?"),
    ("items.exists(i, i.prize > 3)", 19, "no field prize in i; did you mean price?"),
    ('{"a": 1, "b": qty}.c == 1', 20, 'no field c in {"a": 1, "b": qty}'),
    ("country.tier", 9, "country is text and has no field tier"),
    ("defualt(qty, 1) > 3", 1, "no function defualt; did you mean default?"),
    ("default(qty) > 3", 1, "default takes a field and a value, such as default(qty, 1)"),
    ("lenght(tags) > 3", 1, "no function lenght; did you mean size?"),
    ("abs(amount) > 3", 1, "no function abs; did you mean math.abs?"),
    ("siez(tags) > 3", 1, "no function siez; did you mean size?"),
    ("math.ciel(amount) > 3.0", 6, "no function math.ciel; did you mean math.ceil?"),
    # Arithmetic.
    ("total * qty", 1, "* takes numbers, total is text (a decimal); write double(total)"),
    ("qty / total", 7, "/ takes numbers, total is text (a decimal); write double(total)"),
    ('qty * "3"', 7, '* takes numbers, "3" is text'),
    ("qty % amount", 7, "% takes integers, amount is double; write int(amount)"),
    ("qty + country", 1, f"{VALUES}, qty is integer and country is text; write string(qty)"),
    ("paid + 1", 1, f"{VALUES}, paid is boolean"),
    ("null + 1", 1, f"{VALUES}, null is null"),
    ("at - due", 6, f"{TIMES}, due is text; write timestamp(due)"),
    ("at - 3", 1, f"{TIMES}, at is time and 3 is integer"),
    ("-country", 2, "- takes a number, country is text; write double(country)"),
    # Comparisons.
    ('amount > "3"', 1, '> takes two values of one type, amount is double and "3" is text'),
    (
        "amount > total",
        1,
        "> takes two values of one type, amount is double and total is text (a decimal); write double(total)",
    ),
    ("at < due", 1, "< takes two values of one type, at is time and due is text; write timestamp(due)"),
    ("wait >= due", 1, ">= takes two values of one type, wait is duration and due is text; write duration(due)"),
    (
        "total == 3",
        1,
        "== compares values of one type, total is text (a decimal) and 3 is integer; write double(total)",
    ),
    ("paid != 1", 1, "!= compares values of one type, paid is boolean and 1 is integer"),
    ('status == "payed"', 11, '"payed" is not a symbol of status; did you mean "paid"?'),
    ('"lost" != status', 1, '"lost" is not a symbol of status; its symbols are paid, open'),
    ('status in ["open", "closed"]', 20, '"closed" is not a symbol of status; its symbols are paid, open'),
    ("country in [1]", 13, "in compares values of one type, country is text and 1 is integer; write double(country)"),
    ("qty in tags", 1, "in compares values of one type, qty is integer and tags holds text"),
    ("country in status", 12, "in takes a list or a map on its right, status is text; write status.contains(country)"),
    ("qty in 3", 8, "in takes a list or a map on its right, 3 is integer"),
    # Booleans.
    ("qty && paid", 1, "&& takes booleans, qty is integer"),
    ("paid || country", 9, "|| takes booleans, country is text"),
    ("!qty", 2, "! takes booleans, qty is integer"),
    ("qty ? paid : paid", 1, "? : takes booleans, qty is integer"),
    ("tags.all(t, size(t))", 13, "all takes booleans, size(t) is integer"),
    # Lists and maps.
    ("qty.all(i, i > 3)", 1, "all takes a list or a map, qty is integer"),
    ("tags.all(t, t > 3)", 13, "> takes two values of one type, t is text and 3 is integer; write double(t)"),
    ('tags["x"]', 6, 'an index of a list is an integer, "x" is text'),
    ("headers[3]", 9, "an index of a map is text, 3 is integer"),
    ("country[0]", 1, "[ ] takes a list or a map, country is text"),
    ("{3: 1}", 2, "the keys of a map are text, 3 is integer"),
    # Functions.
    ("size(tags, 2) > 3", 1, "size takes 1 argument, 2 given"),
    ("tags.join(1, 2)", 6, "join takes 0 or 1 argument, 2 given"),
    ("math.greatest()", 6, "math.greatest takes at least 1 argument, 0 given"),
    ("size(qty)", 6, "size takes lists, maps or text, qty is integer"),
    ('startsWith(country, "x")', 1, "startsWith is called on a value; write value.startsWith(x)"),
    ("country.double()", 9, "double is called by itself; write double(x)"),
    ('qty.startsWith("x")', 1, "startsWith takes text, qty is integer; write string(qty)"),
    ("country.startsWith(3)", 20, "startsWith takes text, 3 is integer"),
    ("due.getHours()", 1, "getHours takes durations or times, due is text"),
    ("due.getFullYear()", 1, "getFullYear takes times, due is text; write timestamp(due)"),
    ('math.least("a", 2)', 12, 'math.least takes numbers, "a" is text'),
    ("duration(3)", 10, "duration takes durations or text, 3 is integer"),
]
NULLS = "may be null; ask has({0}) before, or write default({0}, ...)"
WARNED = [
    ("risk > 3", 1, "risk"),
    ("3 < risk", 5, "risk"),
    ('customer.name == "x"', 1, "customer.name"),
    ('has(customer) && customer.tier == "gold"', 18, "customer.tier"),
    ('has(customer.tier) || customer.tier == "gold"', 23, "customer.tier"),
    ('headers["bot"] == "1"', 1, 'headers["bot"]'),
    ("items.all(i, i.rebate > 3)", 14, "i.rebate"),
    ("risk == qty", 1, "risk"),
    ("vip", 1, "vip"),
    ("!vip", 2, "vip"),
    ("has(risk) ? paid : risk > 3", 20, "risk"),
    ("has(i.rebate) && items.all(i, i.rebate > 3)", 31, "i.rebate"),
]
FINE = [
    'has(customer.tier) && customer.tier == "gold"',
    'customer.tier == "gold" && has(customer.tier)',
    '!has(customer.tier) || customer.tier == "gold"',
    'has(customer.tier) ? customer.tier == "gold" : paid',
    '!(has(headers.bot) && headers.bot == "1") && paid',
    'customer != null && customer.name == "x"',
    'null == customer || customer.name == "x"',
    "customer.tier == null",
    'default(customer.tier, "none") == "gold"',
    "default(risk, 0) > 3",
    "has(risk) && qty > 1 && risk > 3",
    "items.all(i, has(i.rebate) && i.rebate > 3)",
    "qty == 2.0 && amount > 3 && some % 2 == 0 && qty in [1, 2.5]",
    'timestamp(due) < at - duration("24h") && double(total) >= 100',
    'status == "paid" && status in ["paid", "open"]',
    'tags.map(t, size(t)).exists(n, n > 3) && "x" in tags && tags[0].contains("y")',
    '"k" in headers && headers.all(k, k.startsWith("x"))',
    'items.filter(i, i.price > 3).size() == 2 && " a ".trim().split(",", 2).join("") == country',
    "math.greatest(qty, amount, 3) > math.least([1, 2]) && -qty < 3",
    "dyn(qty) == country && math.isFinite(amount) && tags[1.0] == country",
    "at.getHours() == 3 && wait.getHours() > 1",
]


@pytest.mark.parametrize(("text", "column", "problem"), WRONG, ids=[text for text, *_ in WRONG])
def test_check_says(text: str, column: int, problem: str) -> None:
    assert check(parse(text), NAMES, "invoice.avsc")[1] == (
        Finding(column, problem, is_name=problem.startswith("no field ")),
    )


@pytest.mark.parametrize(("text", "column", "name"), WARNED, ids=[text for text, *_ in WARNED])
def test_check_warns_of_values_that_may_be_null(text: str, column: int, name: str) -> None:
    names = {**NAMES, "i": record_of({"rebate": nullable(DOUBLE)})}
    finding = Finding(column, f"{name} {NULLS.format(name)}", is_warning=True)
    assert check_condition(parse(text), names, "invoice.avsc") == (finding,)


def test_a_record_that_may_have_other_names_has_fields_of_known_types() -> None:
    names = {"order": open_record_of({"total": TEXT})}
    assert check(parse("order.other * 2 > 1"), names, "invoice.avsc")[1] == ()
    [finding] = check(parse("order.total * 2 > 1"), names, "invoice.avsc")[1]
    assert finding.problem == "* takes numbers, order.total is text; write double(order.total)"


@pytest.mark.parametrize("text", FINE)
def test_check_finds_nothing(text: str) -> None:
    assert check_condition(parse(text), NAMES, "invoice.avsc") == ()


@pytest.mark.parametrize("text", FINE)
def test_check_finds_nothing_where_no_type_is_known(text: str) -> None:
    assert check_condition(parse(text), {}) == ()


def test_of_unknown_types_only_contradictions_are_found() -> None:
    for text, problem in (
        ("a + b * c > d && e.f[g] in h", None),
        ("zzz > 3", None),
        ("a && 3", "&& takes booleans, 3 is integer"),
        ('size(a) == "x"', '== compares values of one type, size(a) is integer and "x" is text'),
        ("(a * b).startsWith(c)", "startsWith takes text, a * b is number; write string(a * b)"),
    ):
        assert [finding.problem for finding in check(parse(text), {})[1]] == ([problem] if problem else [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("qty", "must be boolean, qty is integer"),
        ("total", "must be boolean, total is text (a decimal)"),
        ("tags.map(t, t)", "must be boolean, tags.map(t, t) is list of text"),
        ("null", "must be boolean, null is null"),
    ],
)
def test_a_condition_must_be_boolean(text: str, problem: str) -> None:
    assert [finding.problem for finding in check_condition(parse(text), NAMES)] == [problem]


def test_several_findings_are_in_the_order_of_the_text_and_each_is_there_once() -> None:
    findings = check(parse("risk > 3 && total * 2 > 3 && risk < 5 && qty"), NAMES)[1]
    assert [finding.column for finding in findings] == [1, 13, 30, 42]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("qty + 1", INTEGER),
        ("qty + 1.0", DOUBLE),
        ("qty / 2", INTEGER),
        ("some + 1", NUMBER),
        ("qty + unknown", NUMBER),
        ("unknown + unknown", UNKNOWN),
        ("country + unknown", TEXT),
        ("at - at", DURATION),
        ("at - wait", TIME),
        ("wait + at", TIME),
        ("tags + tags", list_of(TEXT)),
        ("[1, 2]", list_of(INTEGER)),
        ("[1, 2.0]", list_of(NUMBER)),
        ("paid ? 1 : 2.0", NUMBER),
        ("paid ? 1 : null", nullable(INTEGER)),
        ("default(risk, 2)", INTEGER),
        ("default(customer.tier, unknown)", UNKNOWN),
        ("risk", nullable(INTEGER)),
        ("customer.name", nullable(TEXT)),
        ("items.map(i, i.price)", list_of(DOUBLE)),
        ("items[0].price", DOUBLE),
        ("math.abs(qty)", INTEGER),
        ("math.greatest(qty, 2.0)", NUMBER),
        ("timestamp(due)", TIME),
        ("headers", map_of(nullable(TEXT))),
    ],
)
def test_the_type_of(text: str, expected: ValueType) -> None:
    kind, findings = check(parse(text), NAMES)
    assert kind == expected
    assert not [finding for finding in findings if not finding.is_warning]


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_the_check_knows_how_a_function_is_called(name: str) -> None:
    """The check and the exact form take the same numbers of values, as a method and as a function."""
    form = FUNCTIONS[name]
    for is_method, taken in ((True, form.method), (False, form.function)):
        known = [signature for signature in SIGNATURES[name] if (signature.target is not None) is is_method]
        counts = {n for n in range(9) if any(name.takes(n - is_method) for name in known)}
        assert counts == (set(range(1, 9)) if form.unbounded and not is_method else set(taken))


def test_the_check_knows_no_other_function() -> None:
    assert set(SIGNATURES) == set(FUNCTIONS)


def test_the_common_type_of_nothing_is_unknown() -> None:
    assert common([]) == UNKNOWN


def test_a_long_chain_is_checked() -> None:
    for chain in (" + ".join(["qty"] * 200), " && ".join(["paid"] * 200), " || ".join(["has(risk)"] * 80)):
        assert check(parse(chain), NAMES)[1] == ()
