//! Replies: rows and typed values in them.

use std::ops::Range;

use bytes::Bytes;
use fallible_iterator::FallibleIterator;
use postgres_protocol::Oid;
use postgres_protocol::message::backend::{DataRowBody, RowDescriptionBody};

use super::error::PgError;
use super::params::oid;

/// The rows of a reply, in the server's order.
#[derive(Debug, Default)]
pub struct Rows {
    types: Vec<Oid>,
    rows: Vec<RowData>,
    affected: u64,
}

#[derive(Debug)]
struct RowData {
    bytes: Bytes,
    values: Vec<Option<Range<usize>>>,
}

/// One row.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    types: &'a [Oid],
    data: &'a RowData,
}

impl Rows {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many rows the statement returned, inserted, updated or deleted, by the server's count.
    pub fn affected(&self) -> u64 {
        self.affected
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|data| self.row(data))
    }

    /// The first row, if there is one.
    pub fn first(&self) -> Option<Row<'_>> {
        self.rows.first().map(|data| self.row(data))
    }

    /// The row of a statement that returns exactly one; an error if it did not.
    pub fn only(&self) -> Result<Row<'_>, PgError> {
        match self.rows.as_slice() {
            [data] => Ok(self.row(data)),
            rows => Err(PgError::Protocol(format!(
                "the PostgreSQL server returned {} rows where there is one",
                rows.len()
            ))),
        }
    }

    fn row<'a>(&'a self, data: &'a RowData) -> Row<'a> {
        Row {
            types: &self.types,
            data,
        }
    }
}

impl<'a> Row<'a> {
    /// The value of a column, counted from 0. Fails where there is no such column, where it has another
    /// type, and where it is NULL and `T` is no `Option`.
    pub fn get<T: FromSql<'a>>(&self, column: usize) -> Result<T, PgError> {
        let (Some(oid), Some(value)) = (self.types.get(column), self.data.values.get(column))
        else {
            return Err(unfit(column, "is not there"));
        };
        if !T::accepts(*oid) {
            return Err(unfit(column, &format!("has the unexpected type {oid}")));
        }
        let bytes = value
            .as_ref()
            .and_then(|range| self.data.bytes.get(range.clone()));
        match bytes {
            Some(bytes) => {
                T::from_sql(bytes).ok_or_else(|| unfit(column, "has a value out of its range"))
            }
            None => T::null().ok_or_else(|| unfit(column, "is NULL")),
        }
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Whether there is no column.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }
}

fn unfit(column: usize, why: &str) -> PgError {
    PgError::Protocol(format!(
        "column {column} of the PostgreSQL server's reply {why}"
    ))
}

/// A type that values of a reply can be read as.
pub trait FromSql<'a>: Sized {
    /// Whether columns of this type can be read so.
    fn accepts(oid: Oid) -> bool;
    /// Reads a value in its binary format; none where it does not fit.
    fn from_sql(bytes: &'a [u8]) -> Option<Self>;
    /// What NULL is; none where it cannot be told.
    fn null() -> Option<Self> {
        None
    }
}

impl<'a, T: FromSql<'a>> FromSql<'a> for Option<T> {
    fn accepts(oid: Oid) -> bool {
        T::accepts(oid)
    }

    fn from_sql(bytes: &'a [u8]) -> Option<Self> {
        T::from_sql(bytes).map(Some)
    }

    fn null() -> Option<Self> {
        Some(None)
    }
}

impl<'a> FromSql<'a> for &'a str {
    fn accepts(oid: Oid) -> bool {
        matches!(
            oid,
            oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::JSON | oid::UNKNOWN
        )
    }

    fn from_sql(bytes: &'a [u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok()
    }
}

impl FromSql<'_> for String {
    fn accepts(oid: Oid) -> bool {
        <&str>::accepts(oid)
    }

    fn from_sql(bytes: &[u8]) -> Option<Self> {
        <&str>::from_sql(bytes).map(str::to_owned)
    }
}

impl<'a> FromSql<'a> for &'a [u8] {
    fn accepts(oid: Oid) -> bool {
        oid == oid::BYTEA
    }

    fn from_sql(bytes: &'a [u8]) -> Option<Self> {
        Some(bytes)
    }
}

impl FromSql<'_> for i64 {
    fn accepts(oid: Oid) -> bool {
        matches!(oid, oid::INT8 | oid::INT4 | oid::INT2 | oid::OID)
    }

    // An OID has no sign; nobody has that many that it matters.
    fn from_sql(bytes: &[u8]) -> Option<Self> {
        match bytes.len() {
            8 => bytes.try_into().ok().map(i64::from_be_bytes),
            4 => bytes.try_into().ok().map(i32::from_be_bytes).map(i64::from),
            2 => bytes.try_into().ok().map(i16::from_be_bytes).map(i64::from),
            _ => None,
        }
    }
}

impl FromSql<'_> for i32 {
    fn accepts(oid: Oid) -> bool {
        matches!(oid, oid::INT4 | oid::INT2)
    }

    fn from_sql(bytes: &[u8]) -> Option<Self> {
        i64::from_sql(bytes).and_then(|value| value.try_into().ok())
    }
}

impl FromSql<'_> for bool {
    fn accepts(oid: Oid) -> bool {
        oid == oid::BOOL
    }

    fn from_sql(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

impl FromSql<'_> for f64 {
    fn accepts(oid: Oid) -> bool {
        matches!(oid, oid::FLOAT8 | oid::FLOAT4)
    }

    fn from_sql(bytes: &[u8]) -> Option<Self> {
        match bytes.len() {
            8 => bytes.try_into().ok().map(f64::from_be_bytes),
            4 => bytes.try_into().ok().map(f32::from_be_bytes).map(f64::from),
            _ => None,
        }
    }
}

macro_rules! arrays {
    ($($type:ty: $oid:expr;)+) => {$(
        impl<'a> FromSql<'a> for Vec<$type> {
            fn accepts(oid: Oid) -> bool {
                oid == $oid
            }

            fn from_sql(bytes: &'a [u8]) -> Option<Self> {
                array(bytes)
            }
        }
    )+};
}

arrays! {
    Option<&'a str>: oid::TEXT_ARRAY;
    Option<&'a [u8]>: oid::BYTEA_ARRAY;
    Option<i64>: oid::INT8_ARRAY;
    Option<i32>: oid::INT4_ARRAY;
    &'a str: oid::TEXT_ARRAY;
    &'a [u8]: oid::BYTEA_ARRAY;
    i64: oid::INT8_ARRAY;
    i32: oid::INT4_ARRAY;
}

/// Reads an array of one dimension.
fn array<'a, T: FromSql<'a>>(bytes: &'a [u8]) -> Option<Vec<T>> {
    let mut rest = bytes;
    let dimensions = number(&mut rest)?;
    let (_has_nulls, _element) = (number(&mut rest)?, number(&mut rest)?);
    let length = match dimensions {
        0 => 0,
        1 => usize::try_from(number(&mut rest)?).ok()?,
        _ => return None,
    };
    if dimensions == 1 {
        let _lower_bound = number(&mut rest)?;
    }
    // Every element takes at least its length's four bytes.
    let mut values = Vec::with_capacity(length.min(rest.len() / 4));
    for _ in 0..length {
        let value = match usize::try_from(number(&mut rest)?) {
            Ok(length) => {
                let (value, after) = rest.split_at_checked(length)?;
                rest = after;
                T::from_sql(value)?
            }
            Err(_) => T::null()?,
        };
        values.push(value);
    }
    rest.is_empty().then_some(values)
}

fn number(rest: &mut &[u8]) -> Option<i32> {
    let (number, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(i32::from_be_bytes(*number))
}

/// A reply as it comes in.
#[derive(Debug, Default)]
pub struct Collected {
    rows: Rows,
    bytes: usize,
}

impl Collected {
    /// A statement's columns. Of several statements the last one's rows remain.
    pub fn describe(&mut self, body: &RowDescriptionBody) -> Result<(), PgError> {
        let types = body.fields().map(|field| Ok(field.type_oid())).collect();
        self.rows.types = types.map_err(|_| malformed())?;
        self.rows.rows.clear();
        Ok(())
    }

    /// A row.
    pub fn push(&mut self, body: DataRowBody) -> Result<(), PgError> {
        let values: Vec<_> = body.ranges().collect().map_err(|_| malformed())?;
        if values.len() != self.rows.types.len() {
            return Err(malformed());
        }
        let bytes = body.buffer_bytes().clone();
        let overhead = size_of::<RowData>() + size_of_val(values.as_slice());
        self.bytes = self.bytes.saturating_add(bytes.len() + overhead);
        self.rows.rows.push(RowData { bytes, values });
        Ok(())
    }

    /// The end of a statement; the tag's last word is the count, if there is one.
    pub fn complete(&mut self, tag: &str) {
        let count = tag.rsplit(' ').next().and_then(|word| word.parse().ok());
        self.rows.affected = count.unwrap_or(0);
    }

    /// How many bytes of memory the rows take so far.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// All of it.
    pub fn rows(self) -> Rows {
        self.rows
    }
}

fn malformed() -> PgError {
    PgError::Protocol("the PostgreSQL server sent rows that cannot be understood".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads bytes as every type there is; whatever they are, nothing may panic.
    fn read_as_all(bytes: &[u8]) -> usize {
        [
            <&str>::from_sql(bytes).is_some(),
            i64::from_sql(bytes).is_some(),
            i32::from_sql(bytes).is_some(),
            bool::from_sql(bytes).is_some(),
            f64::from_sql(bytes).is_some(),
            Vec::<Option<&str>>::from_sql(bytes).is_some(),
            Vec::<&[u8]>::from_sql(bytes).is_some(),
            Vec::<Option<i64>>::from_sql(bytes).is_some(),
            Vec::<i32>::from_sql(bytes).is_some(),
        ]
        .iter()
        .filter(|read| **read)
        .count()
    }

    fn numbers(numbers: &[i32]) -> Vec<u8> {
        numbers.iter().flat_map(|n| n.to_be_bytes()).collect()
    }

    #[test]
    fn arrays_that_lie_are_none() {
        let one = numbers(&[1, 0, 23, 1, 1, 4, 7]);
        assert_eq!(Vec::<i32>::from_sql(&one), Some(vec![7]));
        for lie in [
            vec![],
            numbers(&[1, 0, 23, 2, 1, 4, 7]),
            numbers(&[1, 0, 23, 1, 1, 4, 7, 8]),
            numbers(&[1, 0, 23, 1, 1, 5, 7]),
            numbers(&[1, 0, 23, 1, 1, i32::MAX, 7]),
            numbers(&[1, 0, 23, i32::MAX, 1]),
            numbers(&[1, 0, 23, -1, 1]),
            numbers(&[2, 0, 23, 1, 1, 1, 1, 4, 7]),
            numbers(&[0, 0, 23, 1]),
        ] {
            assert_eq!(Vec::<i32>::from_sql(&lie), None, "{lie:?}");
        }
        assert_eq!(
            Vec::<i32>::from_sql(&numbers(&[1, 1, 23, 1, 1, -1])),
            None,
            "NULL is no number"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64), head in 0..3) {
            read_as_all(&bytes);
            let array = [numbers(&[head, 0, 25, 2, 1]), bytes].concat();
            read_as_all(&array);
        }

        #[test]
        fn numbers_are_read_as_they_are(long: i64, double: f64) {
            prop_assert_eq!(i64::from_sql(&long.to_be_bytes()), Some(long));
            prop_assert_eq!(i32::from_sql(&long.to_be_bytes()), i32::try_from(long).ok());
            let read = f64::from_sql(&double.to_be_bytes()).map(f64::to_bits);
            prop_assert_eq!(read, Some(double.to_bits()));
        }
    }
}
