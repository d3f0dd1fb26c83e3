//! The client against a server that says what the test wants, right or wrong.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::*;

/// Far beyond what a loaded machine needs.
const LIMIT: Duration = Duration::from_secs(30);

fn soon() -> Instant {
    Instant::now() + LIMIT
}

/// A server for as many connections as there are scripts. What each returns comes from `join`.
fn serve<T: Send + 'static>(
    scripts: Vec<Box<dyn FnOnce(TcpStream) -> T + Send>>,
) -> (String, JoinHandle<Vec<T>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("bound").port();
    let server = thread::spawn(move || {
        let connections = scripts.into_iter().map(|script| {
            let (stream, _) = listener.accept().expect("accepted");
            stream.set_read_timeout(Some(LIMIT)).expect("set");
            script(stream)
        });
        connections.collect()
    });
    (
        format!("postgres://u:pw@127.0.0.1:{port}/d?sslmode=disable"),
        server,
    )
}

/// A server for one connection.
fn serve_one<T: Send + 'static>(
    script: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> (String, JoinHandle<Vec<T>>) {
    serve(vec![Box::new(script)])
}

fn connect(url: &str) -> Result<Client, PgError> {
    let target = Target::parse(url, &|_| None).expect("well formed");
    Client::connect(&target, soon())
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("short");
    [&[tag], &length.to_be_bytes()[..], body].concat()
}

fn error(severity: &str, code: &str, text: &str) -> Vec<u8> {
    let fields = format!("SXXX\0V{severity}\0C{code}\0M{text}\0\0");
    message(b'E', fields.as_bytes())
}

/// Reads the startup message.
fn read_startup(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("a startup message");
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut body).expect("a startup message");
    body
}

/// Reads one message.
fn read_message(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut header = [0; 5];
    stream.read_exact(&mut header).expect("a message");
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]);
    let mut body = vec![0; length as usize - 4];
    stream.read_exact(&mut body).expect("a message");
    (header[0], body)
}

fn ready() -> Vec<u8> {
    message(b'Z', b"I")
}

fn parameter(name: &str, value: &str) -> Vec<u8> {
    message(b'S', format!("{name}\0{value}\0").as_bytes())
}

/// Lets the client in without a password.
fn welcome(stream: &mut TcpStream) {
    read_startup(stream);
    let greeting = [
        message(b'R', &0_u32.to_be_bytes()),
        parameter("server_version", "15.1"),
        parameter("in_hot_standby", "off"),
        parameter("default_transaction_read_only", "off"),
        message(b'K', &[0, 0, 0, 1, 0, 0, 0, 2]),
        ready(),
    ];
    stream.write_all(&greeting.concat()).expect("sent");
}

/// Reads the messages of one statement.
fn read_statement(stream: &mut TcpStream) -> Vec<u8> {
    let mut tags = Vec::new();
    while tags.last() != Some(&b'S') {
        tags.push(read_message(stream).0);
    }
    tags
}

/// One column of this type.
fn one_column(oid: u32) -> Vec<u8> {
    let mut body = vec![0, 1, b'c', 0, 0, 0, 0, 0, 0, 0];
    body.extend(oid.to_be_bytes());
    body.extend([0, 8, 0xff, 0xff, 0xff, 0xff, 0, 1]);
    message(b'T', &body)
}

/// What follows the description of the columns where all goes well.
fn completed(rows: &[&[u8]]) -> Vec<u8> {
    let mut reply = Vec::new();
    for row in rows {
        let length = u32::try_from(row.len()).expect("short");
        reply.extend(message(
            b'D',
            &[&[0, 1], &length.to_be_bytes()[..], row].concat(),
        ));
    }
    reply.extend(message(b'C', format!("SELECT {}\0", rows.len()).as_bytes()));
    reply
}

/// The start of every reply.
fn begun() -> Vec<u8> {
    [message(b'1', &[]), message(b'2', &[])].concat()
}

/// The outcome of a statement that this reply follows, and of one after it.
fn answered(reply: Vec<u8>) -> (Result<Rows, PgError>, Result<Rows, PgError>, Client) {
    let (url, server) = serve_one(move |mut stream| {
        welcome(&mut stream);
        let tags = read_statement(&mut stream);
        stream.write_all(&reply).expect("sent");
        tags
    });
    let mut client = connect(&url).expect("connected");
    let first = client.query("SELECT $1", &[Param::from(1_i64)], soon());
    // One round trip with the unnamed statement.
    assert_eq!(server.join().expect("ended"), [b"PBDES".to_vec()]);
    let second = client.query("SELECT 1", &[], soon());
    (first, second, client)
}

#[test]
fn only_what_is_needed_is_said_at_the_start() {
    let (url, server) = serve_one(|mut stream| {
        let startup = read_startup(&mut stream);
        stream
            .write_all(&error("FATAL", "3D000", "no\nsuch \x1b[1mdatabase"))
            .expect("sent");
        startup
    });
    let error = connect(&url).expect_err("refused");
    let expected = PgError::Server {
        sqlstate: "3D000".to_owned(),
        message: "no such \\u{1b}[1mdatabase".to_owned(),
        detail: None,
        fatal: true,
    };
    assert_eq!(error, expected);
    let said = server.join().expect("ended").remove(0);
    let expected =
        b"\0\x03\0\0user\0u\0database\0d\0application_name\0idem\0client_encoding\0UTF8\0\0";
    assert_eq!(said, expected);
}

#[test]
fn a_reply_is_read_and_the_connection_goes_on() {
    let (url, _server) = serve_one(|mut stream| {
        welcome(&mut stream);
        for n in [1_i64, 2] {
            read_statement(&mut stream);
            let row = n.to_be_bytes();
            let reply = [begun(), one_column(20), completed(&[&row]), ready()];
            // In pieces that end anywhere.
            for piece in reply.concat().chunks(7) {
                stream.write_all(piece).expect("sent");
            }
        }
    });
    let mut client = connect(&url).expect("connected");
    assert_eq!(client.parameter("server_version"), Some("15.1"));
    for n in [1, 2] {
        let rows = client.query("SELECT", &[], soon()).expect("answered");
        assert_eq!(rows.only().and_then(|row| row.get::<i64>(0)), Ok(n));
    }
}

#[test]
fn a_reply_that_breaks_off_closes_the_connection() {
    let whole = [begun(), one_column(20), completed(&[&[0; 8]]), ready()].concat();
    for length in 0..whole.len() {
        let (first, second, client) = answered(whole[..length].to_vec());
        assert!(
            matches!(first, Err(PgError::Closed(_))),
            "{length}: {first:?}"
        );
        assert!(
            matches!(second, Err(PgError::Closed(_))),
            "{length}: {second:?}"
        );
        assert!(!client.is_open());
    }
}

#[test]
fn nonsense_closes_the_connection() {
    let too_many_values = message(b'D', &[0, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
    let too_long_value = message(b'D', &[0, 1, 0x7f, 0xff, 0xff, 0xff, 1]);
    for nonsense in [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        vec![b'D', 0, 0, 0, 1],
        vec![b'D', 0x7f, 0xff, 0xff, 0xff],
        vec![b'D', 0xff, 0xff, 0xff, 0xff],
        message(b'!', b""),
        message(b'G', &[0, 0, 0]),
        message(b'R', &0_u32.to_be_bytes()),
        message(b'Z', b""),
        message(b'T', b"\0\x01c"),
        [one_column(20), too_many_values].concat(),
        [one_column(20), too_long_value].concat(),
    ] {
        let (first, second, client) = answered(nonsense.clone());
        assert!(
            matches!(first, Err(PgError::Protocol(_))),
            "{nonsense:?}: {first:?}"
        );
        assert!(matches!(second, Err(PgError::Closed(_))), "{second:?}");
        assert!(!client.is_open());
    }
}

#[test]
fn a_session_that_is_ended_in_a_reply_is_closed() {
    let end = error("FATAL", "57P01", "terminating connection");
    for reply in [end.clone(), [begun(), one_column(20), end].concat()] {
        let (first, second, _) = answered(reply);
        let first = first.expect_err("ended");
        assert_eq!(first.sqlstate(), Some("57P01"));
        assert!(first.is_connection_lost());
        assert!(matches!(second, Err(PgError::Closed(_))));
    }
}

#[test]
fn the_reason_counts_more_than_the_end() {
    let (first, _, client) = answered(error("ERROR", "53200", "out of memory"));
    assert_eq!(first.expect_err("refused").sqlstate(), Some("53200"));
    assert!(!client.is_open());
}

#[test]
fn an_endless_talker_is_heard_only_so_long() {
    let notice = message(b'N', b"VWARNING\0C01000\0Mlook\0\0");
    let reply = [notice.repeat(1000), begun(), completed(&[]), ready()].concat();
    let (first, _, mut client) = answered(reply);
    assert!(first.is_ok());
    // The statement after it has failed, and cleared them.
    assert_eq!(client.take_warnings(), []);
    let (url, _server) = serve_one(move |mut stream| {
        welcome(&mut stream);
        read_statement(&mut stream);
        let reply = [notice.repeat(1000), begun(), completed(&[]), ready()].concat();
        stream.write_all(&reply).expect("sent");
    });
    let mut client = connect(&url).expect("connected");
    client.query("SELECT", &[], soon()).expect("answered");
    assert_eq!(client.take_warnings().len(), 100);
}

#[test]
fn a_server_that_trickles_is_not_waited_for() {
    let (url, server) = serve_one(|mut stream| {
        welcome(&mut stream);
        read_statement(&mut stream);
        let notice = message(b'N', b"VNOTICE\0C00000\0Mstill here\0\0");
        // Until nobody reads any more.
        while stream.write_all(&notice).is_ok() {
            thread::sleep(Duration::from_millis(5));
        }
    });
    let mut client = connect(&url).expect("connected");
    let begun = Instant::now();
    let deadline = begun + Duration::from_millis(300);
    let error = client.query("SELECT", &[], deadline).expect_err("late");
    assert!(matches!(error, PgError::TimedOut(_)), "{error:?}");
    assert!(begun.elapsed() >= Duration::from_millis(300) && begun.elapsed() < LIMIT);
    assert!(!client.is_open());
    server.join().expect("ended");
}

#[test]
fn a_server_that_does_not_read_is_not_waited_for() {
    let (url, server) = serve_one(|mut stream| {
        welcome(&mut stream);
        stream
    });
    let mut client = connect(&url).expect("connected");
    let held = server.join().expect("ended");
    let big = vec![0; 64 << 20];
    let deadline = Instant::now() + Duration::from_millis(300);
    let error = client.query("SELECT $1", &[Param::from(&big[..])], deadline);
    assert!(matches!(error, Err(PgError::TimedOut(_))), "{error:?}");
    assert!(!client.is_open());
    drop(held);
}

#[test]
fn goodbye_is_said() {
    let (url, server) = serve_one(|mut stream| {
        welcome(&mut stream);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("read");
        rest
    });
    drop(connect(&url).expect("connected"));
    assert_eq!(server.join().expect("ended"), [b"X\0\0\0\x04".to_vec()]);
}

#[test]
fn a_server_must_prove_that_it_knows_the_password() {
    let mechanisms = message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0");
    // Lets anybody in right away, after the first message, or with a proof of nothing.
    for step in 0..3 {
        let mechanisms = mechanisms.clone();
        let (url, _server) = serve_one(move |mut stream| {
            read_startup(&mut stream);
            let open = [message(b'R', &0_u32.to_be_bytes()), ready()].concat();
            stream.write_all(&mechanisms).expect("sent");
            let (_, first) = read_message(&mut stream);
            if step > 0 {
                let text = String::from_utf8_lossy(&first);
                let nonce = text.rsplit("r=").next().unwrap_or_default();
                let challenge = format!("\0\0\0\x0br={nonce}x,s=c2FsdA==,i=4096");
                stream
                    .write_all(&message(b'R', challenge.as_bytes()))
                    .expect("sent");
                read_message(&mut stream);
            }
            if step > 1 {
                let proof = message(b'R', b"\0\0\0\x0cv=AAAA");
                stream.write_all(&proof).expect("sent");
            }
            stream.write_all(&open).expect("sent");
        });
        match connect(&url).map(drop) {
            Err(PgError::Protocol(_)) if step < 2 => {}
            Err(PgError::Authentication(text)) if step == 2 => {
                assert!(text.contains("prove"), "{text}");
            }
            other => panic!("step {step}: {other:?}"),
        }
    }
}

#[test]
fn authentication_that_nobody_speaks_is_told() {
    for (question, why) in [
        (&b"\0\0\0\x07"[..], "GSSAPI"),
        (b"\0\0\0\x0aSCRAM-SHA-512\0\0", "SCRAM-SHA-256 is"),
    ] {
        let question = message(b'R', question);
        let (url, _server) = serve_one(move |mut stream| {
            read_startup(&mut stream);
            stream.write_all(&question).expect("sent");
        });
        match connect(&url).map(drop) {
            Err(PgError::Authentication(text)) => assert!(text.contains(why), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_password_itself_is_not_sent_where_others_can_read_along() {
    for local in [true, false] {
        let (url, server) = serve_one(|mut stream| {
            stream
                .write_all(&message(b'R', &3_u32.to_be_bytes()))
                .expect("sent");
            let mut answer = Vec::new();
            let mut byte = [0];
            while answer.last() != Some(&0) || answer.len() < 8 {
                match stream.read(&mut byte) {
                    Ok(1) => answer.push(byte[0]),
                    _ => return answer,
                }
            }
            stream
                .write_all(&message(b'R', &0_u32.to_be_bytes()))
                .expect("sent");
            answer
        });
        let target = Target::parse(&url, &|_| None).expect("well formed");
        let host = &target.hosts[0];
        let address = ([127, 0, 0, 1], host.port).into();
        let socket = socket::Socket::tcp(&address, soon()).expect("connected");
        let mut wire = wire::Wire::new(stream::Stream::Plain(socket), "it".to_owned());
        let answer = auth::authenticate(&mut wire, &target, host, local);
        drop(wire);
        let sent = server.join().expect("ended").remove(0);
        match local {
            true => assert_eq!((answer, &sent[..]), (Ok(()), &b"p\0\0\0\x07pw\0"[..])),
            false => {
                assert!(
                    matches!(answer, Err(PgError::Authentication(_))),
                    "{answer:?}"
                );
                assert_eq!(sent, b"");
            }
        }
    }
    let away = address::Host::parse_list(Some("db"), None)
        .expect("a host")
        .remove(0);
    assert!(!auth::is_local(&away, Some([10, 0, 0, 1].into())));
    assert!(auth::is_local(&away, Some([127, 0, 0, 1].into())));
}

#[test]
fn a_long_greeting_is_not_listened_to() {
    let (url, _server) = serve_one(|mut stream| {
        read_startup(&mut stream);
        stream.write_all(&[b'E', 0x10, 0, 0, 0]).expect("sent");
        // The client must not wait for the rest.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    });
    assert!(matches!(connect(&url), Err(PgError::Protocol(_))));
}

#[test]
fn a_server_that_starts_is_passed_over_and_told_where_it_is_the_only_one() {
    let starting = || -> Box<dyn FnOnce(TcpStream) + Send> {
        Box::new(|mut stream| {
            read_startup(&mut stream);
            let text = "the database system is starting up";
            stream
                .write_all(&error("FATAL", "57P03", text))
                .expect("sent");
        })
    };
    let (url, _server) = serve(vec![starting()]);
    assert_eq!(
        connect(&url).expect_err("refused").sqlstate(),
        Some("57P03")
    );
    let (url, _server) = serve(vec![
        starting(),
        Box::new(|mut stream| welcome(&mut stream)),
    ]);
    let twice = {
        let (before, after) = url.split_once("127").expect("a host");
        let (host, rest) = after.split_once('/').expect("a path");
        format!("{before}127{host},127{host}/{rest}")
    };
    assert!(connect(&twice).is_ok());
}

#[test]
fn answers_to_the_question_for_tls() {
    for (answer, mode) in [
        (b'E', "prefer"),
        (b'H', "prefer"),
        (b'E', "require"),
        (b'N', "require"),
    ] {
        let (url, server) = serve_one(move |mut stream| {
            let request = read_startup(&mut stream);
            stream.write_all(&[answer]).expect("sent");
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).expect("read");
            (request, rest)
        });
        let error = connect(&url.replace("disable", mode)).expect_err("refused");
        match answer {
            b'E' => assert!(matches!(error, PgError::Unreachable(_)), "{error:?}"),
            b'H' => assert!(matches!(error, PgError::Protocol(_)), "{error:?}"),
            _ => assert!(matches!(error, PgError::Tls(_)), "{error:?}"),
        }
        // Nothing about the user has left.
        let request = 80_877_103_u32.to_be_bytes().to_vec();
        assert_eq!(server.join().expect("ended"), [(request, Vec::new())]);
    }
}

#[test]
fn a_handshake_that_fails_falls_back_only_where_protection_is_not_asked_for() {
    let botched = || -> Box<dyn FnOnce(TcpStream) + Send> {
        Box::new(|mut stream| {
            read_startup(&mut stream);
            stream.write_all(b"Sthis is no TLS at all").expect("sent");
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
        })
    };
    let (url, _server) = serve(vec![botched(), Box::new(|mut stream| welcome(&mut stream))]);
    let client = connect(&url.replace("disable", "prefer")).expect("connected");
    assert!(!client.is_tls());
    let (url, _server) = serve(vec![botched()]);
    let error = connect(&url.replace("disable", "require")).expect_err("refused");
    assert!(matches!(error, PgError::Tls(_)), "{error:?}");
}

#[test]
fn a_statement_that_cannot_be_sent_leaves_the_connection_alone() {
    let (url, _server) = serve_one(|mut stream| welcome(&mut stream));
    let mut client = connect(&url).expect("connected");
    let many = vec![Param::from(1_i32); 70_000];
    for (sql, params) in [("SELECT 1", &many[..]), ("SELECT '\0'", &[])] {
        let error = client.query(sql, params, soon()).expect_err("unsendable");
        assert_eq!(error.sqlstate(), Some("54000"));
    }
    assert!(client.batch("SELECT '\0'", soon()).is_err());
    assert!(client.is_open());
}
