"""The native reader without one of its checks: each twin must be found by tests/native/test_same.py."""

from typing import NamedTuple


class Twin(NamedTuple):
    """`text` stands exactly once in a file of native/src, and `instead` is in its place in the twin."""

    promise: str
    file: str
    text: str
    instead: str


TWINS = (
    Twin(
        "text is UTF-8",
        "walk.rs",
        "std::str::from_utf8(self.sized()?).ok()",
        'std::str::from_utf8(self.sized()?).ok().or(Some("?"))',
    ),
    Twin("nothing follows the record", "lib.rs", "datum.is_at_end().then_some(json)", "Some(json)"),
    Twin(
        "an index is not negative",
        "walk.rs",
        "usize::try_from(self.number(bits)?).ok()",
        "Some(self.number(bits)?.unsigned_abs() as usize)",
    ),
    Twin("an int has 32 bits", "walk.rs", "if bits < LONG && found >> bits != 0 {", "if false {"),
    Twin("a number ends", "walk.rs", "shift >= bits || (part << shift) >> shift != part", "shift >= LONG"),
    Twin("a boolean is 0 or 1", "walk.rs", '1 => b"true",\n                _ => return None,', '_ => b"true",'),
    Twin("a decimal has a byte", "walk.rs", ".filter(|found| (1..=MOST_OF_DECIMAL).contains(&found.len()))?", "?"),
    Twin(
        "bytes are not written",
        "walk.rs",
        "out.is_none().then_some(())",
        'put(out, |json| json.extend_from_slice(b"\\"\\""))',
    ),
    Twin(
        "a key of a map is there once",
        "walk.rs",
        "keys.len() == MOST_KEYS || keys.contains(&key)",
        "keys.len() == MOST_KEYS",
    ),
    Twin(
        "a block is in the message",
        "walk.rs",
        "datum.index(LONG)? > datum.rest.len()",
        "datum.number(LONG)? > i64::MAX - 1",
    ),
    Twin(
        "what is odd is declined",
        "walk.rs",
        "Kind::Odd => None,",
        'Kind::Odd => put(out, |json| json.extend_from_slice(b"null")),',
    ),
    Twin("no date is before the year 1", "text.rs", "FIRST: i64 = -719_162", "FIRST: i64 = -719_163"),
    Twin("no date is after the year 9999", "text.rs", "LAST: i64 = 2_932_896", "LAST: i64 = 2_932_897"),
    Twin("a time is of one day", "text.rs", "within(found, 0, DAY * unit - 1)?;", ""),
    Twin(
        "a moment before 1970 is of the day before",
        "text.rs",
        "found.rem_euclid(DAY * unit)",
        "(found % (DAY * unit)).abs()",
    ),
    Twin("a UUID is one", "walk.rs", ".filter(|found| text::is_uuid(found))?", "?"),
    Twin("what is not a number of JSON is null", "text.rs", "if found.is_finite() {", "if found == found {"),
    Twin("control characters are escaped", "text.rs", "byte < 0x20 || byte == b'\"'", "byte < 0x1f || byte == b'\"'"),
    Twin("a frame begins with a zero byte", "lib.rs", "*zero == 0 && ", "*zero < 2 && "),
    Twin("the schema id is the wanted one", "lib.rs", "wanted == id", "wanted & id != id + 1"),
)
