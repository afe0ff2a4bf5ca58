"""The canonical text of a tree, and conditions in English."""

import pytest
from hypothesis import given, settings

from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.tree import Node
from sluicegate.streams.expressions.words import in_words, normal
from tests.unit.expressions.trees import trees


@settings(derandomize=True, deadline=None, max_examples=300)
@given(trees)
def test_the_canonical_text_of_any_tree_parses_to_an_equal_tree(tree: Node) -> None:
    text = normal(tree)
    assert parse(text) == tree
    assert normal(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (" a  >\n3 ", "a > 3"),
        ("'say \"x\"'", '"say \\"x\\""'),
        ("((a)) && ((b || c))", "a && (b || c)"),
        ("(a && b) && c", "a && b && c"),
        ("a && (b && c)", "a && (b && c)"),
        ("a - (b - c) - d", "a - (b - c) - d"),
        ("(a * b) + c", "a * b + c"),
        ("a ? b : (c ? d : e)", "a ? b : c ? d : e"),
        ("(a ? b : c) ? d : e", "(a ? b : c) ? d : e"),
        ("- (1)", "-(1)"),
        ("a - -1", "a - -1"),
        ("(-1).x", "(-1).x"),
        ("1e3 + 10.50", "1000.0 + 10.5"),
        ("!(a == b)", "!(a == b)"),
        ("has ( a.b )", "has(a.b)"),
        ("x.map(i,i>0,i)", "x.map(i, i > 0, i)"),
        ("{'a':[1,2]}['a']", '{"a": [1, 2]}["a"]'),
        ("'\\u00e9\\n\\u200b'", '"é\\n\\u200b"'),
    ],
)
def test_the_canonical_text_of(text: str, canonical: str) -> None:
    assert normal(parse(text)) == canonical


def test_a_long_chain_has_a_text() -> None:
    for chain in (" + ".join(["a"] * 200), " && ".join(["a"] * 200), ".".join(["a"] * 30)):
        assert normal(parse(chain)) == chain


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            'status == "paid" && country in ["DE", "FR", "AT"]',
            'status is "paid" and country is one of "DE", "FR", "AT"',
        ),
        ("spent >= 1000", "spent is at least 1000"),
        ("spent > 1000 || paid", "spent is more than 1000 or paid is true"),
        ("10 < amount", "amount is more than 10"),
        ("amount <= 10 && amount != 3", "amount is at most 10 and amount is not 3"),
        ("!(amount < 3)", "amount is at least 3"),
        ("!paid", "paid is false"),
        ("has(customer.tier)", "customer.tier has a value"),
        ("!has(message.headers.bot)", "message.headers.bot has no value"),
        ("customer == null || null != risk", "customer has no value or risk has a value"),
        ('!(country in ["DE"])', 'country is not one of "DE"'),
        ('message.key.startsWith("test-")', 'message.key begins with "test-"'),
        ('!name.endsWith("x") && name.contains("y")', 'name does not end with "x" and name contains "y"'),
        ("amount * default(qty, 1) > 100", "amount * default(qty, 1) is more than 100"),
        ("due < at", "due is less than at"),
        # What has no short words is quoted.
        ("a && (b || c)", None),
        ("a || b && c", None),
        ("amount + 1", None),
        ("items.exists(i, i > 3)", None),
        ("(a > 3) == (b > 3)", None),
        ("paid ? a : b", None),
        (f'name == "{"x" * 80}"', None),
        ("country in countries", None),
        ("null < a", None),
    ],
)
def test_in_words(text: str, words: str | None) -> None:
    assert in_words(parse(text)) == words
