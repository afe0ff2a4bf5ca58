"""The errors of parsing an expression and of evaluating it on a record. No error holds a value of a record."""


class ExpressionError(Exception):
    """The text is not an expression. `column` counts from 1."""

    def __init__(self, column: int, problem: str) -> None:
        super().__init__(f"column {column}: {problem}")
        self.column = column
        self.problem = problem


class EvaluationError(Exception):
    """The expression has no value on this record."""


class TooCostly(EvaluationError):
    """The evaluation exceeded its limits. It does so on the same record everywhere."""
