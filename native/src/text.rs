//! Writes JSON byte for byte as Python does.

use std::io::Write;

const DAY: i64 = 86_400; // seconds
const FIRST: i64 = -719_162; // 0001-01-01 and 9999-12-31, in days since 1970
const LAST: i64 = 2_932_896;

/// Where JSON goes; None: the datum is read and not written.
pub type Out<'o> = Option<&'o mut Vec<u8>>;

pub fn put(out: Out, write: impl FnOnce(&mut Vec<u8>)) -> Option<()> {
    if let Some(json) = out {
        write(json);
    }
    Some(())
}

pub fn integer(json: &mut Vec<u8>, found: i64) {
    json.extend_from_slice(itoa::Buffer::new().format(found).as_bytes());
}

/// What is no number of JSON is null.
pub fn float(json: &mut Vec<u8>, found: f64) {
    if found.is_finite() {
        json.extend_from_slice(ryu::Buffer::new().format_finite(found).as_bytes());
    } else {
        json.extend_from_slice(b"null");
    }
}

pub fn quoted(json: &mut Vec<u8>, found: &str) {
    json.push(b'"');
    if found.bytes().any(is_escaped) {
        for byte in found.bytes() {
            escaped(json, byte);
        }
    } else {
        json.extend_from_slice(found.as_bytes());
    }
    json.push(b'"');
}

fn is_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

fn escaped(json: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0..0x20 => {
            json.extend_from_slice(b"\\u00");
            json.push(b'0' + (byte >> 4));
            json.push(b"0123456789abcdef"[usize::from(byte & 15)]);
            return;
        }
        _ => return json.push(byte),
    };
    json.extend_from_slice(&[b'\\', short]);
}

/// A UUID as Python writes it.
pub fn is_uuid(found: &str) -> bool {
    found.len() == 36
        && found.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

pub fn date(days: i64, out: Out) -> Option<()> {
    within(days, FIRST, LAST)?;
    put(out, |json| {
        json.push(b'"');
        day(json, days);
        json.push(b'"');
    })
}

/// A time of day, in units of a second.
pub fn clock(found: i64, unit: i64, out: Out) -> Option<()> {
    within(found, 0, DAY * unit - 1)?;
    put(out, |json| {
        json.push(b'"');
        time(json, found, unit);
        json.push(b'"');
    })
}

/// A point in time, in units of a second since 1970.
pub fn moment(found: i64, unit: i64, zone: bool, out: Out) -> Option<()> {
    let days = found.div_euclid(DAY * unit);
    within(days, FIRST, LAST)?;
    put(out, |json| {
        json.push(b'"');
        day(json, days);
        json.push(b'T');
        time(json, found.rem_euclid(DAY * unit), unit);
        json.extend_from_slice(if zone { b"Z\"" } else { b"\"" });
    })
}

fn within(found: i64, first: i64, last: i64) -> Option<()> {
    (first..=last).contains(&found).then_some(())
}

/// A fraction has three digits, or six where it is finer than a millisecond.
fn time(json: &mut Vec<u8>, found: i64, unit: i64) {
    let (seconds, part) = (found / unit, found % unit);
    let _ = write!(json, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let micros = part * (1_000_000 / unit);
    if micros % 1_000 != 0 {
        let _ = write!(json, ".{micros:06}");
    } else if micros != 0 {
        let _ = write!(json, ".{:03}", micros / 1_000);
    }
}

/// The date of a day since 1970, in the proleptic Gregorian calendar: Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", `civil_from_days`.
fn day(json: &mut Vec<u8>, days: i64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let _ = write!(json, "{year:04}-{month:02}-{day:02}");
}
