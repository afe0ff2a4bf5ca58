"""Any tree that the parser can give."""

from hypothesis import strategies as st

from sluicegate.streams.expressions.scope import OPERATORS
from sluicegate.streams.expressions.tree import (
    FunctionCall,
    Has,
    Identifier,
    ListOf,
    Literal,
    Macro,
    MapOf,
    Node,
    Select,
)

names = st.sampled_from(["a", "b2", "_c", "total", "message", "inside", "nullable"])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
literals = st.builds(Literal, st.none() | st.booleans() | numbers | texts)


def _paths(operands: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    by_text = st.builds(lambda operand, text: FunctionCall("_[_]", (operand, Literal(text))), operands, texts)
    return st.builds(Select, operands, names) | by_text


def _calls(function: st.SearchStrategy[str], *arguments: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.builds(FunctionCall, function, st.tuples(*arguments))


paths = st.recursive(st.builds(Identifier, names), _paths, max_leaves=3)


def _larger(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    macros = st.sampled_from(["all", "exists", "exists_one", "map", "filter"])
    methods = st.sampled_from(["startsWith", "contains", "endsWith"])
    return st.one_of(
        _paths(inner),
        _calls(st.sampled_from(sorted(OPERATORS)), inner, inner),
        _calls(st.sampled_from(["@in", "_[_]"]), inner, inner),
        _calls(st.sampled_from(["!_", "-_", "size", "double"]), inner),
        _calls(st.just("_?_:_"), inner, inner, inner),
        _calls(st.just("default"), paths, inner),
        st.builds(Has, paths),
        st.builds(lambda function, target, one: FunctionCall(function, (one,), target), methods, inner, inner),
        st.builds(ListOf, st.lists(inner, max_size=3).map(tuple)),
        st.builds(MapOf, st.lists(st.tuples(inner, inner), max_size=2).map(tuple)),
        st.builds(Macro, macros, inner, names, inner),
        st.builds(Macro, st.just("map"), inner, names, inner, inner),
    )


trees = st.recursive(literals | st.builds(Identifier, names), _larger, max_leaves=12)
