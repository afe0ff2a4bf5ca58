"""The names and paths that an expression reads."""

import pytest

from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.scope import joined, paths, roots
from sluicegate.streams.expressions.words import normal

READ = [
    ("1 + 2", set()),
    ("amount", {"amount"}),
    ("customer.tier", {"customer.tier"}),
    ('customer["tier"].x', {"customer.tier.x"}),
    ('message.headers["order-id"]', {"message.headers.order-id"}),
    ("a.b[0].c", {"a.b"}),
    ("a[b.c].d", {"a", "b.c"}),
    ("has(a.b) && default(c.d, e) > f", {"a.b", "c.d", "e", "f"}),
    ("a ? b : {'k': c}.k", {"a", "b", "c"}),
    ("size(a) + b.size() + [c, d.e].size()", {"a", "b", "c", "d.e"}),
    ("items.all(i, i.price > limit)", {"items", "limit"}),
    ("i.all(i, i.price > i.cost)", {"i"}),
    ("rows.map(r, r.ok, r.items.filter(i, i.x > r.y && i.z > z))", {"rows", "z"}),
    ("items.exists(i, i.x) && i.x", {"items", "i.x"}),
    ("!a && -b < c", {"a", "b", "c"}),
    ("a + a.b", {"a", "a.b"}),
]


@pytest.mark.parametrize(("text", "expected"), READ, ids=[text for text, _ in READ])
def test_the_paths_and_roots_of(text: str, expected: set[str]) -> None:
    node = parse(text)
    assert {".".join(path) for path in paths(node)} == expected
    assert roots(node) == {path.partition(".")[0] for path in expected}


def test_a_chain_is_taken_apart_in_its_order() -> None:
    assert [normal(part) for part in joined(parse("a && (b && c) && (d || e)"), "_&&_")] == ["a", "b", "c", "d || e"]
    assert [normal(part) for part in joined(parse("a && b"), "_||_")] == ["a && b"]
