"""The code that drops duplicates."""

import ast

from sluicegate.streams.aggregation.compiled.compiler import stage
from sluicegate.streams.aggregation.compiled.values import RecordValues
from sluicegate.streams.expressions.templates import statements

START_OF_IDS = """
exactly = with_care(duplicates=duplicates)
seen = duplicates.seen
accepted, horizon = seen.accepted, seen.horizon
ordered = len(accepted)
"""
_HEADER = """
identity = None
for header, content in record.headers():
    if header == N:
        identity = content
"""
_ID = """
if not 0 < len(identity) <= longest_id:
    unproven()
if identity in accepted:
    if now - accepted[identity] >= horizon or seen.size > seen.most:
        unproven()
    duplicates.dropped += 1
    continue
"""
_TEXT = "identity = N.encode() if type(N) is str else unproven() if N is None else key_text(N)"
NOTED = """
accepted[identity] = now
"""
FLUSH_IDS = """
ordered = seen.order_newest(ordered, now)
"""
NEW_IDS = """
ordered = len(accepted)
"""


def identity_code(values: RecordValues) -> list[ast.stmt]:
    """The id of the record, which is no duplicate."""
    dedupe = values.dedupe
    if dedupe is None:
        return []
    if dedupe.by == "field":
        code = statements(_TEXT, N=values.local(dedupe.name or "", "any", True))
    else:
        code = statements("identity = record.key()" if dedupe.by == "key" else _HEADER, N=ast.Constant(dedupe.name))
    return [stage("dedupe"), *code, *statements(_ID)]
