//! What curl's end tells, by running it against a server that misbehaves.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::command::Done;
use crate::env::{TestEnv, text, tool_or_leave};

/// A server that answers by the request's path and counts what arrives.
struct Server {
    port: u16,
    hits: Arc<AtomicUsize>,
}

impl Server {
    fn new() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let hits = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&hits);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let count = Arc::clone(&count);
                std::thread::spawn(move || answer(stream, &count));
            }
        });
        Server { port, hits }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    fn hits(&self) -> usize {
        self.hits.load(Ordering::SeqCst)
    }
}

/// Reads one request and answers it as its path says; `drop` closes without an answer.
fn answer(mut stream: TcpStream, hits: &AtomicUsize) {
    let mut reader = BufReader::new(stream.try_clone().expect("the stream"));
    let mut first = String::new();
    reader.read_line(&mut first).ok();
    let mut length = 0;
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok();
    hits.fetch_add(1, Ordering::SeqCst);
    let path = first
        .split(' ')
        .nth(1)
        .unwrap_or_default()
        .trim_start_matches('/')
        .to_owned();
    let extra = if path == "429" {
        "Retry-After: 1\r\n"
    } else {
        ""
    };
    match path.as_str() {
        "drop" => {}
        "hang" => std::thread::sleep(Duration::from_secs(20)),
        "short" => drop(stream.write_all(b"HTTP/1.1 200 x\r\nContent-Length: 100\r\n\r\nhalf")),
        code => {
            let head = format!(
                "HTTP/1.1 {code} x\r\n{extra}Content-Length: 0\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).ok();
        }
    }
}

/// Runs curl under idem with two retries.
fn curl(t: &TestEnv, key: &str, args: &[&str]) -> Done {
    t.idem(&format!(
        "run --key {key} --retries 2 --backoff const:10ms -- curl -sS"
    ))
    .args(args)
    .end()
}

/// The class of the last attempt.
fn class(t: &TestEnv, key: &str) -> String {
    let status = t.status(key);
    text(
        &status["attempts"]
            .as_array()
            .and_then(|a| a.last())
            .expect("an attempt")["class"],
    )
}

#[test]
fn refused_is_safe_and_tried_again() {
    if !tool_or_leave("curl") {
        return;
    }
    let t = TestEnv::new();
    curl(&t, "k", &["-d", "a=1", "http://127.0.0.1:1/"]).code(7);
    assert_eq!(t.status("k")["attempts"].as_array().map(Vec::len), Some(3));
    assert_eq!(class(&t, "k"), "safe");
}

#[test]
fn answers_have_their_classes() {
    if !tool_or_leave("curl") {
        return;
    }
    for (path, code, wanted, hits) in [
        ("404", 22, "permanent", 1),
        ("503", 22, "uncertain", 1),
        ("500", 22, "uncertain", 1),
        ("429", 22, "throttled", 3),
        ("200", 0, "success", 1),
    ] {
        let (t, server) = (TestEnv::new(), Server::new());
        let done = curl(
            &t,
            "k",
            &[
                "--fail",
                "-D",
                "/dev/stderr",
                "-d",
                "a=1",
                &server.url(path),
            ],
        );
        done.code(code);
        assert_eq!(class(&t, "k"), wanted, "{path}\n{done}");
        assert_eq!(server.hits(), hits, "{path}\n{done}");
        if path == "429" {
            assert!(
                done.elapsed >= Duration::from_secs(2),
                "Retry-After was not kept\n{done}"
            );
        }
    }
}

#[test]
fn a_lost_reply_is_uncertain_and_sent_once() {
    if !tool_or_leave("curl") {
        return;
    }
    for (path, more) in [
        ("drop", &[][..]),
        ("short", &[][..]),
        ("hang", &["--max-time", "2"][..]),
    ] {
        let (t, server) = (TestEnv::new(), Server::new());
        let url = server.url(path);
        let done = curl(&t, "k", &[more, &["-d", "a=1", &url]].concat());
        assert_ne!(done.code, 0, "{done}");
        assert_eq!(
            (t.state("k").as_str(), server.hits()),
            ("unknown", 1),
            "{path}\n{done}"
        );
        curl(&t, "k", &[more, &["-d", "a=1", &url]].concat()).code(122);
        assert_eq!(server.hits(), 1, "{path}");
    }
}

#[test]
fn curls_own_retries_spoil_the_proof() {
    if !tool_or_leave("curl") {
        return;
    }
    let t = TestEnv::new();
    let args = [
        "--retry",
        "1",
        "--retry-connrefused",
        "--retry-delay",
        "1",
        "-d",
        "a=1",
        "http://127.0.0.1:1/",
    ];
    curl(&t, "k", &args).code(7);
    assert_eq!(class(&t, "k"), "uncertain");
    assert_eq!(t.status("k")["attempts"].as_array().map(Vec::len), Some(1));
}
