"""The slots of a state that code patterns name."""

import ast
from typing import Any

from sluicegate.streams.aggregation.layout import BYTES, COLUMNS, COUNT, FIRST, LAST, SEEN

SLOTS: dict[str, Any] = {"COUNT": ast.Constant(COUNT), "LAST": ast.Constant(LAST), "BYTES": ast.Constant(BYTES)}
SLOTS |= {"SEEN": ast.Constant(SEEN), "FIRST": ast.Constant(FIRST), "COLUMNS": ast.Constant(COLUMNS)}
