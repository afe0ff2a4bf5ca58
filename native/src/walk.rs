//! Follows the bytes of a datum as strictly as Sluicegate does in Python, and writes JSON of it. None: it is not plain.

use crate::kind::{Field, Kind};
use crate::text::{self, Out, put};

const MOST_KEYS: usize = 64; // of a map that is written: each is compared with those before it
const MOST_OF_DECIMAL: usize = 1_024; // bytes: Python refuses a decimal whose exponent is too large
const INT: u32 = 32; // bits
const LONG: u32 = 64;

pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes }
    }

    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// A zigzag number of at most so many bits.
    fn number(&mut self, bits: u32) -> Option<i64> {
        let (mut found, mut shift) = (0u64, 0u32);
        loop {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift >= bits || (part << shift) >> shift != part {
                return None;
            }
            found |= part << shift;
            if byte < 0x80 {
                break;
            }
            shift += 7;
        }
        if bits < LONG && found >> bits != 0 {
            return None;
        }
        Some((found >> 1) as i64 ^ -((found & 1) as i64))
    }

    fn index(&mut self, bits: u32) -> Option<usize> {
        usize::try_from(self.number(bits)?).ok()
    }

    fn sized(&mut self) -> Option<&'a [u8]> {
        let length = self.index(LONG)?;
        self.take(length)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.sized()?).ok()
    }
}

pub fn read(kind: &Kind, datum: &mut Cursor, out: Out) -> Option<()> {
    match kind {
        Kind::Null => put(out, |json| json.extend_from_slice(b"null")),
        Kind::Boolean => {
            let word: &[u8] = match datum.byte()? {
                0 => b"false",
                1 => b"true",
                _ => return None,
            };
            put(out, |json| json.extend_from_slice(word))
        }
        Kind::Int => {
            let found = datum.number(INT)?;
            put(out, |json| text::integer(json, found))
        }
        Kind::Long => {
            let found = datum.number(LONG)?;
            put(out, |json| text::integer(json, found))
        }
        Kind::Float => {
            let found = f32::from_le_bytes(datum.array()?);
            put(out, |json| text::float(json, found.into()))
        }
        Kind::Double => {
            let found = f64::from_le_bytes(datum.array()?);
            put(out, |json| text::float(json, found))
        }
        Kind::Text => {
            let found = datum.text()?;
            put(out, |json| text::quoted(json, found))
        }
        Kind::Bytes => unwritten(datum.sized()?, out),
        Kind::Decimal => unwritten(datum.sized().filter(|found| (1..=MOST_OF_DECIMAL).contains(&found.len()))?, out),
        Kind::Fixed(size) => unwritten(datum.take(*size)?, out),
        Kind::Date => text::date(datum.number(INT)?, out),
        Kind::Clock { bits, unit } => text::clock(datum.number(*bits)?, *unit, out),
        Kind::Moment { unit, zone } => text::moment(datum.number(LONG)?, *unit, *zone, out),
        Kind::Uuid => {
            let found = datum.text().filter(|found| text::is_uuid(found))?;
            put(out, |json| text::quoted(json, found))
        }
        Kind::Enum(symbols) => {
            let symbol = symbols.get(datum.index(INT)?)?;
            put(out, |json| json.extend_from_slice(symbol))
        }
        Kind::Array(items) => array(items, datum, out),
        Kind::Map(values) => map(values, datum, out),
        Kind::Union(branches) => read(branches.get(datum.index(LONG)?)?, datum, out),
        Kind::Record(fields) => record(fields, datum, out),
        Kind::Odd => None,
    }
}

fn unwritten(_: &[u8], out: Out) -> Option<()> {
    out.is_none().then_some(())
}

fn record(fields: &[Field], datum: &mut Cursor, mut out: Out) -> Option<()> {
    let mut mark = b'{';
    for Field { name, kind } in fields {
        match (name, out.as_deref_mut()) {
            (Some(name), Some(json)) => {
                json.push(mark);
                mark = b',';
                json.extend_from_slice(name);
                read(kind, datum, Some(json))?;
            }
            _ => read(kind, datum, None)?,
        }
    }
    put(out, |json| json.extend_from_slice(if mark == b'{' { b"{}" } else { b"}" }))
}

fn array(items: &Kind, datum: &mut Cursor, mut out: Out) -> Option<()> {
    let mut mark = b'[';
    blocks(datum, |datum| {
        put(out.as_deref_mut(), |json| json.push(mark))?;
        mark = b',';
        read(items, datum, out.as_deref_mut())
    })?;
    put(out, |json| json.extend_from_slice(if mark == b'[' { b"[]" } else { b"]" }))
}

/// Of a key that is there twice Python writes the last value at the first place: such a map is not plain.
fn map<'a>(values: &Kind, datum: &mut Cursor<'a>, mut out: Out) -> Option<()> {
    let mut keys: Vec<&'a str> = vec![];
    blocks(datum, |datum| {
        let key = datum.text()?;
        if let Some(json) = out.as_deref_mut() {
            if keys.len() == MOST_KEYS || keys.contains(&key) {
                return None;
            }
            json.push(if keys.is_empty() { b'{' } else { b',' });
            keys.push(key);
            text::quoted(json, key);
            json.push(b':');
        }
        read(values, datum, out.as_deref_mut())
    })?;
    put(out, |json| json.extend_from_slice(if keys.is_empty() { b"{}" } else { b"}" }))
}

/// Blocks of items until an empty one. A negative count is followed by the block's size in bytes.
fn blocks<'a>(datum: &mut Cursor<'a>, mut item: impl FnMut(&mut Cursor<'a>) -> Option<()>) -> Option<()> {
    loop {
        let mut count = datum.number(LONG)?;
        if count == 0 {
            return Some(());
        }
        if count < 0 {
            count = count.checked_neg()?;
            if datum.index(LONG)? > datum.rest.len() {
                return None;
            }
        }
        for _ in 0..count {
            item(datum)?;
        }
    }
}
