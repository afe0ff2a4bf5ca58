"""Reads the hashes of `lookup:` under WATCH, so that EXEC fails when one of them has changed since."""

from collections.abc import Mapping, Sequence
from typing import Any

import redis

from sluicegate.connectors.lookups import KEYS_AT_ONCE, by_key, failed
from sluicegate.connectors.redis.connection import translated
from sluicegate.connectors.sessions import RedisSession
from sluicegate.streams.agent import Lookup
from sluicegate.streams.contracts.stores import LookupKey, RowFields

PLACEHOLDER = "{key}"
SCRIPT = """
local rows = {}
for i, key in ipairs(KEYS) do
  local row = redis.call('EXISTS', key) == 1 and redis.pcall('HMGET', key, unpack(ARGV))
  if row and row.err then
    if not string.find(row.err, 'WRONGTYPE', 1, true) then return row end
    row = false
  end
  rows[i] = row
end
return rows"""


def look_up(session: RedisSession, lookup: Lookup, keys: Sequence[LookupKey]) -> Mapping[LookupKey, RowFields]:
    """Same as `RowLookups.look_up`. A field that the hash does not have is null. A key of another kind is no row: the
    record chose its name."""
    pipe = session.pipeline.reading
    answers: list[tuple[Any, Sequence[Any]]] = []
    with translated():
        for at in range(0, len(keys), KEYS_AT_ONCE):
            page = keys[at : at + KEYS_AT_ONCE]
            names = [lookup.source.replace(PLACEHOLDER, str(key)) for key in page]
            try:
                pipe.watch(*names)
                rows = pipe.immediate_execute_command("EVAL", SCRIPT, len(names), *names, *lookup.fields)
            except redis.ResponseError as error:
                if type(error) is not redis.ResponseError:
                    raise
                raise failed(lookup, "a key may not be read") from error
            answers += [(key, [_text(value) for value in row]) for key, row in zip(page, rows, strict=True) if row]
    return by_key(lookup, keys, answers)


def _text(value: bytes | None) -> str | bytes | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return value
