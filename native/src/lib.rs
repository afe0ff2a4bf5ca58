//! The native part of Sluicegate: it reads plain Avro records and declines all others, which Sluicegate then reads in
//! Python. It gives the same bytes as Python, or none.
#![forbid(unsafe_code)]

mod kind;
mod text;
mod walk;

use kind::Kind;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use walk::Cursor;

/// What Sluicegate and this module agree on: the kinds of `Kind::taken` and the signatures below.
const CONTRACT: u32 = 2;
const FRAME: usize = 5; // a zero byte and four bytes of schema id

/// Reads messages of one kind. With `framed` they begin with Confluent's frame, with `id` with that schema id.
#[pyclass(frozen)]
struct Reader {
    kind: Kind,
    framed: bool,
    id: Option<u32>,
}

#[pymethods]
impl Reader {
    /// Raises ValueError for kinds that this version does not know.
    #[new]
    fn new(kind: &Bound<'_, PyAny>, framed: bool, id: Option<u32>) -> PyResult<Reader> {
        Ok(Reader { kind: Kind::taken(kind, 0)?, framed, id })
    }

    /// The message as JSON; None: Python must read it, and says what is wrong with it if anything is.
    fn text<'py>(&self, value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
        let bytes = value.cast::<PyBytes>().ok()?;
        self.json(bytes.as_bytes()).map(|json| PyBytes::new(value.py(), &json))
    }
}

impl Reader {
    fn json(&self, message: &[u8]) -> Option<Vec<u8>> {
        let mut datum = Cursor::new(if self.framed { self.opened(message)? } else { message });
        let mut json = Vec::with_capacity(128);
        walk::read(&self.kind, &mut datum, Some(&mut json))?;
        datum.is_at_end().then_some(json)
    }

    fn opened<'a>(&self, message: &'a [u8]) -> Option<&'a [u8]> {
        let (frame, datum) = message.split_at_checked(FRAME)?;
        let (zero, id) = frame.split_first()?;
        let id = u32::from_be_bytes(id.try_into().ok()?);
        (*zero == 0 && self.id.is_none_or(|wanted| wanted == id)).then_some(datum)
    }
}

#[pymodule(gil_used = false)]
fn sluicegate_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("CONTRACT", CONTRACT)?;
    module.add_class::<Reader>()
}
