"""Reads the documents of `lookup:` in the transaction of a commit."""

from collections.abc import Mapping, Sequence
from typing import Any

from bson import Binary, DatetimeMS, Decimal128, ObjectId
from bson.codec_options import DatetimeConversion
from pymongo.errors import OperationFailure

from sluicegate.connectors.lookups import KEYS_AT_ONCE, by_key, failed, storable
from sluicegate.connectors.sessions import MongoSession
from sluicegate.streams.agent import Lookup
from sluicegate.streams.contracts.stores import LookupKey, RowFields


def look_up(session: MongoSession, lookup: Lookup, keys: Sequence[LookupKey]) -> Mapping[LookupKey, RowFields]:
    """Same as `RowLookups.look_up`. Text of 24 hexadecimal digits is compared as an ObjectId, too."""
    wanted: list[Any] = [
        *storable(keys),
        *(ObjectId(key) for key in keys if isinstance(key, str) and ObjectId.is_valid(key)),
    ]
    projection = {"_id": 0} | dict.fromkeys((lookup.column, *lookup.fields), 1)
    collection, rows = _reading_any_value(session.database[lookup.source]), []
    try:
        for at in range(0, len(wanted), KEYS_AT_ONCE):
            condition = {lookup.column: {"$in": wanted[at : at + KEYS_AT_ONCE]}}
            rows += list(collection.find(condition, projection, session=session.client_session))
    except OperationFailure as error:
        if error.has_error_label("TransientTransactionError") or error.timeout:
            raise
        raise failed(lookup, f"{error.code} {(error.details or {}).get('codeName', '')}".strip()) from error
    pairs = [(_plain(row[lookup.column]), [_plain(row.get(name)) for name in lookup.fields]) for row in rows]
    return by_key(lookup, keys, pairs)


def _reading_any_value(collection: Any) -> Any:
    """The collection, with options to read times that Python does not have as numbers, and to replace bytes that are
    not UTF-8."""
    options = collection.codec_options.with_options(
        datetime_conversion=DatetimeConversion.DATETIME_AUTO, unicode_decode_error_handler="replace"
    )
    return collection.with_options(codec_options=options)


def _plain(value: Any) -> Any:
    """The value without the types that only MongoDB has. A time that Python does not have is the text of its
    milliseconds since 1970."""
    if isinstance(value, DatetimeMS):
        return str(int(value))
    if isinstance(value, Decimal128):
        return value.to_decimal()
    if isinstance(value, Binary):
        return bytes(value)
    if isinstance(value, Mapping):
        return {name: _plain(member) for name, member in value.items()}
    return [_plain(element) for element in value] if isinstance(value, list) else value
