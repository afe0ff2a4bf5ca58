"""Expressions of the file: a subset of CEL (the Common Expression Language), parsed, checked and evaluated.

The room is pure: it knows no Kafka, no store and no clock. A record is opaque to it: the caller gives a reader for each
name. What a caller needs:

- `parse.parse(text)` gives the tree, or raises `faults.ExpressionError` with a column.
- `check.check(node, names, source)` and `check.check_condition(...)` find what is wrong before any record is read.
  `types` has the types of the names.
- `exact.exact(node, reader)` gives the function from a record to the value. It raises `faults.EvaluationError`.
- `typed.TypedCode` makes Python code of expressions over one decoded record. Where the code raises an error, the exact
  form answers.
- `scope.paths(node)` and `scope.roots(node)` name what an expression reads.
- `words.in_words(node)` describes a condition in English, and `words.normal(node)` is its canonical text.
"""
