//! Statements: values both ways, errors, warnings.

use idem::store::postgres::{Client, Param, PgError};

use crate::{connect, shared, soon};

fn client() -> Option<Client> {
    let cluster = shared()?;
    Some(connect(&cluster.url(&cluster.new_database())).unwrap())
}

#[test]
fn every_kind_of_value_comes_back_as_it_was() {
    let Some(mut client) = client() else { return };
    let bytes: Vec<u8> = (0..=255).collect();
    let params = [
        Param::from("a 'quoted' \"text\" ✓ \\ \n"),
        Param::from(&bytes[..]),
        Param::from(i64::MIN),
        Param::from(i32::MAX),
        Param::from(true),
        Param::from(0.1_f64),
    ];
    let rows = client
        .query("SELECT $1, $2, $3, $4, $5, $6", &params, soon())
        .unwrap();
    let row = rows.only().unwrap();
    assert_eq!(row.get::<&str>(0).unwrap(), "a 'quoted' \"text\" ✓ \\ \n");
    assert_eq!(row.get::<&[u8]>(1).unwrap(), bytes);
    assert_eq!(row.get::<i64>(2).unwrap(), i64::MIN);
    assert_eq!(row.get::<i32>(3).unwrap(), i32::MAX);
    assert!(row.get::<bool>(4).unwrap());
    assert_eq!(row.get::<f64>(5).unwrap().to_bits(), 0.1_f64.to_bits());
}

#[test]
fn a_null_is_none_and_nothing_else() {
    let Some(mut client) = client() else { return };
    let params = [
        Param::Text(None),
        Param::Bytes(None),
        Param::Int8(None),
        Param::Int4(None),
        Param::Bool(None),
        Param::Float8(None),
    ];
    let rows = client
        .query("SELECT $1, $2, $3, $4, $5, $6", &params, soon())
        .unwrap();
    let row = rows.only().unwrap();
    assert_eq!(row.get::<Option<&str>>(0), Ok(None));
    assert_eq!(row.get::<Option<&[u8]>>(1), Ok(None));
    assert_eq!(row.get::<Option<i64>>(2), Ok(None));
    assert_eq!(row.get::<Option<i32>>(3), Ok(None));
    assert_eq!(row.get::<Option<bool>>(4), Ok(None));
    assert_eq!(row.get::<Option<f64>>(5), Ok(None));
    assert!(matches!(row.get::<&str>(0), Err(PgError::Protocol(_))));
    assert!(matches!(
        row.get::<Option<i64>>(0),
        Err(PgError::Protocol(_))
    ));
    assert!(matches!(
        row.get::<Option<i64>>(6),
        Err(PgError::Protocol(_))
    ));
}

#[test]
fn arrays_come_back_and_unnest() {
    let Some(mut client) = client() else { return };
    let texts = vec![Some("a"), None, Some(""), Some("{\"x\",}")];
    let bytes: Vec<Option<&[u8]>> = vec![Some(b"\0\xff"), None, Some(b""), Some(b"x")];
    let longs = vec![Some(i64::MAX), None, Some(-1), Some(0)];
    let shorts = vec![Some(i32::MIN), None, Some(7), Some(0)];
    let params = [
        Param::TextArray(texts.clone()),
        Param::BytesArray(bytes.clone()),
        Param::Int8Array(longs.clone()),
        Param::Int4Array(shorts.clone()),
        Param::TextArray(Vec::new()),
    ];
    let rows = client
        .query("SELECT $1, $2, $3, $4, $5", &params, soon())
        .unwrap();
    let row = rows.only().unwrap();
    assert_eq!(row.get::<Vec<Option<&str>>>(0).unwrap(), texts);
    assert_eq!(row.get::<Vec<Option<&[u8]>>>(1).unwrap(), bytes);
    assert_eq!(row.get::<Vec<Option<i64>>>(2).unwrap(), longs);
    assert_eq!(row.get::<Vec<Option<i32>>>(3).unwrap(), shorts);
    assert_eq!(row.get::<Vec<&str>>(4).unwrap(), Vec::<&str>::new());
    // One of its elements is NULL.
    assert!(matches!(row.get::<Vec<&str>>(0), Err(PgError::Protocol(_))));
    let sql = "SELECT * FROM unnest($1, $2, $3, $4) AS u(t, b, l, s)";
    let rows = client.query(sql, &params[..4], soon()).unwrap();
    assert_eq!(rows.affected(), 4);
    let read: Vec<Option<&str>> = rows.iter().map(|row| row.get(0).unwrap()).collect();
    assert_eq!(read, texts);
}

#[test]
fn eight_mebibytes_go_both_ways() {
    let Some(mut client) = client() else { return };
    let big: Vec<u8> = (0..8_u32 << 20).map(|n| (n % 251) as u8).collect();
    client
        .batch("CREATE TABLE big (body bytea)", soon())
        .unwrap();
    let sql = "INSERT INTO big VALUES ($1) RETURNING length(body)";
    let rows = client.query(sql, &[Param::from(&big[..])], soon()).unwrap();
    assert_eq!(rows.only().unwrap().get::<i32>(0), Ok(8 << 20));
    let rows = client.query("SELECT body FROM big", &[], soon()).unwrap();
    let read: &[u8] = rows.only().unwrap().get(0).unwrap();
    assert!(read == big, "the bytes differ");
}

#[test]
fn an_error_has_its_code_and_leaves_the_connection_usable() {
    let Some(mut client) = client() else { return };
    let error = client
        .query("SELECT * FROM nowhere", &[], soon())
        .unwrap_err();
    assert_eq!(error.sqlstate(), Some("42P01"));
    assert!(!error.is_connection_lost());
    client
        .batch("CREATE TABLE one (n int8 PRIMARY KEY)", soon())
        .unwrap();
    for expected in [None, Some("23505")] {
        let done = client.query("INSERT INTO one VALUES ($1)", &[Param::from(1_i64)], soon());
        match expected {
            None => assert_eq!(done.unwrap().affected(), 1),
            Some(code) => assert_eq!(done.unwrap_err().sqlstate(), Some(code)),
        }
    }
    assert!(client.is_open());
}

#[test]
fn what_the_server_says_beside_a_reply_is_kept_for_one_statement() {
    let Some(mut client) = client() else { return };
    let sql = "DO $$ BEGIN RAISE WARNING 'canceled wait' USING ERRCODE = '01000'; END $$";
    client.query(sql, &[], soon()).unwrap();
    let warnings = client.take_warnings();
    assert_eq!(warnings.len(), 1);
    assert_eq!(
        (
            warnings[0].severity.as_str(),
            warnings[0].sqlstate.as_str(),
            warnings[0].message.as_str()
        ),
        ("WARNING", "01000", "canceled wait")
    );
    client.query(sql, &[], soon()).unwrap();
    client.query("SELECT 1", &[], soon()).unwrap();
    assert_eq!(client.take_warnings(), []);
}

#[test]
fn the_server_s_settings_are_known() {
    let Some(client) = client() else { return };
    assert_eq!(client.parameter("client_encoding"), Some("UTF8"));
    assert_eq!(client.parameter("in_hot_standby"), Some("off"));
    assert!(client.parameter("server_version").is_some());
    assert_eq!(client.parameter("nothing"), None);
}
