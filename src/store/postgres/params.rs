//! Statements and the values in them, in PostgreSQL's binary formats.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use postgres_protocol::message::frontend;
use postgres_protocol::{IsNull, Oid};

use super::error::PgError;

/// The numbers of PostgreSQL's own types; they are the same in every server.
pub mod oid {
    use postgres_protocol::Oid;

    pub const BOOL: Oid = 16;
    pub const BYTEA: Oid = 17;
    pub const NAME: Oid = 19;
    pub const INT8: Oid = 20;
    pub const INT2: Oid = 21;
    pub const INT4: Oid = 23;
    pub const TEXT: Oid = 25;
    pub const OID: Oid = 26;
    pub const JSON: Oid = 114;
    pub const FLOAT4: Oid = 700;
    pub const FLOAT8: Oid = 701;
    pub const UNKNOWN: Oid = 705;
    pub const BYTEA_ARRAY: Oid = 1001;
    pub const INT4_ARRAY: Oid = 1007;
    pub const TEXT_ARRAY: Oid = 1009;
    pub const INT8_ARRAY: Oid = 1016;
    pub const BPCHAR: Oid = 1042;
    pub const VARCHAR: Oid = 1043;
}

/// A value of a statement; its type is the one of `$n`. None is NULL.
#[derive(Debug, Clone, PartialEq)]
pub enum Param<'a> {
    /// `text`. The server refuses one with a NUL in it.
    Text(Option<&'a str>),
    /// `bytea`.
    Bytes(Option<&'a [u8]>),
    /// `int8`.
    Int8(Option<i64>),
    /// `int4`.
    Int4(Option<i32>),
    /// `bool`.
    Bool(Option<bool>),
    /// `float8`.
    Float8(Option<f64>),
    /// `text[]`, of one dimension.
    TextArray(Vec<Option<&'a str>>),
    /// `bytea[]`, of one dimension.
    BytesArray(Vec<Option<&'a [u8]>>),
    /// `int8[]`, of one dimension.
    Int8Array(Vec<Option<i64>>),
    /// `int4[]`, of one dimension.
    Int4Array(Vec<Option<i32>>),
}

macro_rules! from {
    ($($variant:ident: $type:ty;)+) => {$(
        impl<'a> From<$type> for Param<'a> {
            fn from(value: $type) -> Param<'a> {
                Param::$variant(Some(value))
            }
        }

        impl<'a> From<Option<$type>> for Param<'a> {
            fn from(value: Option<$type>) -> Param<'a> {
                Param::$variant(value)
            }
        }
    )+};
}

from! {
    Text: &'a str;
    Bytes: &'a [u8];
    Int8: i64;
    Int4: i32;
    Bool: bool;
    Float8: f64;
}

/// Why a value could not be written.
type Unwritable = Box<dyn Error + Sync + Send>;

impl Param<'_> {
    fn oid(&self) -> Oid {
        match self {
            Param::Text(_) => oid::TEXT,
            Param::Bytes(_) => oid::BYTEA,
            Param::Int8(_) => oid::INT8,
            Param::Int4(_) => oid::INT4,
            Param::Bool(_) => oid::BOOL,
            Param::Float8(_) => oid::FLOAT8,
            Param::TextArray(_) => oid::TEXT_ARRAY,
            Param::BytesArray(_) => oid::BYTEA_ARRAY,
            Param::Int8Array(_) => oid::INT8_ARRAY,
            Param::Int4Array(_) => oid::INT4_ARRAY,
        }
    }

    fn write(&self, to: &mut BytesMut) -> Result<IsNull, Unwritable> {
        let scalar = |bytes: Option<&[u8]>, to: &mut BytesMut| match bytes {
            Some(bytes) => {
                to.put_slice(bytes);
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        };
        match self {
            Param::Text(value) => scalar(value.map(str::as_bytes), to),
            Param::Bytes(value) => scalar(*value, to),
            Param::Int8(value) => scalar(value.map(i64::to_be_bytes).as_ref().map(|b| &b[..]), to),
            Param::Int4(value) => scalar(value.map(i32::to_be_bytes).as_ref().map(|b| &b[..]), to),
            Param::Bool(value) => scalar(value.map(|b| [u8::from(b)]).as_ref().map(|b| &b[..]), to),
            Param::Float8(value) => {
                scalar(value.map(f64::to_be_bytes).as_ref().map(|b| &b[..]), to)
            }
            Param::TextArray(values) => array(oid::TEXT, values, |v| v.as_bytes(), to),
            Param::BytesArray(values) => array(oid::BYTEA, values, |v| v, to),
            Param::Int8Array(values) => array(oid::INT8, values, |v| v.to_be_bytes(), to),
            Param::Int4Array(values) => array(oid::INT4, values, |v| v.to_be_bytes(), to),
        }
    }
}

/// Writes an array: dimensions, whether there are NULLs, the element's type, then length and lower bound
/// of the one dimension, then each element behind its length. An empty array has no dimension.
fn array<T: Copy, B: AsRef<[u8]>>(
    element: Oid,
    values: &[Option<T>],
    bytes: impl Fn(T) -> B,
    to: &mut BytesMut,
) -> Result<IsNull, Unwritable> {
    to.put_i32(i32::from(!values.is_empty()));
    to.put_i32(i32::from(values.iter().any(Option::is_none)));
    to.put_u32(element);
    if values.is_empty() {
        return Ok(IsNull::No);
    }
    to.put_i32(i32::try_from(values.len())?);
    to.put_i32(1);
    for value in values {
        match value {
            Some(value) => {
                let bytes = bytes(*value);
                to.put_i32(i32::try_from(bytes.as_ref().len())?);
                to.put_slice(bytes.as_ref());
            }
            None => to.put_i32(-1),
        }
    }
    Ok(IsNull::No)
}

/// The messages that execute one statement: everything up to the request for the reply's end, so that it
/// takes one round trip, with binary values both ways.
pub fn statement(sql: &str, params: &[Param<'_>]) -> Result<BytesMut, PgError> {
    const BINARY: i16 = 1;
    let mut messages = BytesMut::new();
    frontend::parse("", sql, params.iter().map(Param::oid), &mut messages).map_err(unsendable)?;
    frontend::bind(
        "",
        "",
        [BINARY],
        params,
        |param, to| param.write(to),
        [BINARY],
        &mut messages,
    )
    .map_err(|error| match error {
        frontend::BindError::Conversion(error) => unsendable(error),
        frontend::BindError::Serialization(error) => unsendable(error),
    })?;
    frontend::describe(b'P', "", &mut messages).map_err(unsendable)?;
    frontend::execute("", 0, &mut messages).map_err(unsendable)?;
    frontend::sync(&mut messages);
    Ok(messages)
}

/// The message that executes several statements.
pub fn script(sql: &str) -> Result<BytesMut, PgError> {
    let mut message = BytesMut::new();
    frontend::query(sql, &mut message).map_err(unsendable)?;
    Ok(message)
}

/// Nothing of it was sent: SQLSTATE 54000, program limit exceeded, as the server would say.
fn unsendable(error: impl ToString) -> PgError {
    PgError::Server {
        sqlstate: "54000".to_owned(),
        message: format!(
            "the statement cannot be sent to the PostgreSQL server: {}",
            error.to_string()
        ),
        detail: None,
        fatal: false,
    }
}
