//! What a datum may be. Python makes it of a schema, as nested tuples.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyTuple};

const DEEPEST: usize = 64; // levels of kinds: the reader calls itself once for each

pub enum Kind {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Text,
    /// A length and so many bytes; not to be written.
    Bytes,
    /// The same, with at least one byte and not too many.
    Decimal,
    /// So many bytes; not to be written.
    Fixed(usize),
    Date,
    /// A time of day, in units of a second.
    Clock {
        bits: u32,
        unit: i64,
    },
    /// Units of a second since 1970; with the zone, `Z` is written behind it.
    Moment {
        unit: i64,
        zone: bool,
    },
    Uuid,
    /// The symbols as JSON.
    Enum(Vec<Vec<u8>>),
    Array(Box<Kind>),
    Map(Box<Kind>),
    Union(Vec<Kind>),
    Record(Vec<Field>),
    /// What only Python reads.
    Odd,
}

/// `name` is JSON with its colon; without a name the field is read and not written.
pub struct Field {
    pub name: Option<Vec<u8>>,
    pub kind: Kind,
}

impl Kind {
    /// Of a tuple with the kind's name and what it needs.
    pub fn taken(given: &Bound<'_, PyAny>, depth: usize) -> PyResult<Kind> {
        let given = given.cast::<PyTuple>()?;
        let name: String = given.get_item(0)?.extract()?;
        if depth > DEEPEST {
            return Err(PyValueError::new_err("the kinds are nested too deeply"));
        }
        let inner = || Kind::taken(&given.get_item(1)?, depth + 1).map(Box::new);
        Ok(match name.as_str() {
            "null" => Kind::Null,
            "boolean" => Kind::Boolean,
            "int" => Kind::Int,
            "long" => Kind::Long,
            "float" => Kind::Float,
            "double" => Kind::Double,
            "string" => Kind::Text,
            "bytes" => Kind::Bytes,
            "decimal" => Kind::Decimal,
            "fixed" => Kind::Fixed(given.get_item(1)?.extract()?),
            "date" => Kind::Date,
            "clock" => Kind::Clock { bits: given.get_item(1)?.extract()?, unit: unit(&given.get_item(2)?)? },
            "moment" => Kind::Moment { unit: unit(&given.get_item(1)?)?, zone: given.get_item(2)?.extract()? },
            "uuid" => Kind::Uuid,
            "enum" => Kind::Enum(given.get_item(1)?.extract()?),
            "array" => Kind::Array(inner()?),
            "map" => Kind::Map(inner()?),
            "union" => Kind::Union(each(&given.get_item(1)?, |kind| Kind::taken(kind, depth + 1))?),
            "record" => Kind::Record(each(&given.get_item(1)?, |field| {
                let (name, kind): (Option<Vec<u8>>, Bound<'_, PyAny>) = field.extract()?;
                Ok(Field { name, kind: Kind::taken(&kind, depth + 1)? })
            })?),
            "odd" => Kind::Odd,
            other => return Err(PyValueError::new_err(format!("there is no kind {other}"))),
        })
    }
}

fn unit(given: &Bound<'_, PyAny>) -> PyResult<i64> {
    match given.extract()? {
        found @ (1_000 | 1_000_000) => Ok(found),
        other => Err(PyValueError::new_err(format!("there is no unit of 1/{other} s"))),
    }
}

fn each<T>(given: &Bound<'_, PyAny>, made: impl Fn(&Bound<'_, PyAny>) -> PyResult<T>) -> PyResult<Vec<T>> {
    given.try_iter()?.map(|item| made(&item?)).collect()
}
