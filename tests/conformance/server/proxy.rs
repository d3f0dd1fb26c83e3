//! Stands between a client and a server, and loses what it is told to lose.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

/// How long a test waits for what must come.
const LIMIT: Duration = Duration::from_secs(20);

/// What is lost with the next statement that contains the marker. Its connection ends with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The statement.
    Request,
    /// The reply.
    Reply,
    /// The reply, and nobody can connect any more.
    ReplyAndServer,
    /// The reply, and the statement takes place only when the next one with the marker is on its way.
    ReplyUntilNext,
}

#[derive(Default)]
struct Rule {
    armed: Mutex<Option<(String, Lost)>>,
    refusing: AtomicBool,
    /// What a statement that is held back waits for, where one is.
    held: Mutex<Option<Held>>,
    cuts: AtomicUsize,
}

/// Two rendezvous: the next statement has come, and the one that was held back has taken place.
struct Held {
    next_came: mpsc::Sender<()>,
    took_place: mpsc::Receiver<()>,
}

/// A listening proxy; it lives as long as the test's process.
pub struct Proxy {
    port: u16,
    rule: Arc<Rule>,
}

impl Proxy {
    /// In front of a server on the loopback.
    pub fn start(server: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let rule = Arc::new(Rule::default());
        let proxy = Proxy {
            port,
            rule: Arc::clone(&rule),
        };
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if rule.refusing.load(Ordering::Acquire) {
                    continue;
                }
                let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
                carry(client, server, &rule);
            }
        });
        proxy
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Loses something of the next statement with this text in it.
    pub fn lose(&self, marker: &str, lost: Lost) {
        *self.rule.armed.lock().unwrap() = Some((marker.to_owned(), lost));
    }

    /// How often something was lost.
    pub fn cuts(&self) -> usize {
        self.rule.cuts.load(Ordering::Acquire)
    }
}

/// Carries both directions until either ends.
fn carry(client: TcpStream, server: TcpStream, rule: &Arc<Rule>) {
    let mute = Arc::new(AtomicBool::new(false));
    let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let (up_rule, up_mute) = (Arc::clone(rule), Arc::clone(&mute));
    thread::spawn(move || upwards(from, to, &up_rule, &up_mute));
    thread::spawn(move || {
        pump(server, client, |_| match mute.load(Ordering::Acquire) {
            // The reply has come, so the statement has taken place; it goes no further.
            true => false,
            false => true,
        });
    });
}

fn upwards(client: TcpStream, server: TcpStream, rule: &Rule, mute: &AtomicBool) {
    let mut seen = Vec::new();
    let (near, far) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    pump(client, server, |chunk| {
        // A marker may come in two pieces.
        let kept = seen.len().min(1_000);
        seen.drain(..seen.len() - kept);
        seen.extend_from_slice(chunk);
        let mut armed = rule.armed.lock().unwrap();
        let Some((marker, lost)) = armed.clone() else {
            return true;
        };
        let marker = marker.as_bytes();
        if !seen.windows(marker.len()).any(|window| window == marker) {
            return true;
        }
        if let Some(held) = rule.held.lock().unwrap().take() {
            *armed = None;
            held.next_came.send(()).unwrap();
            held.took_place.recv_timeout(LIMIT).unwrap();
            return true;
        }
        if lost == Lost::ReplyUntilNext {
            rule.cuts.fetch_add(1, Ordering::Release);
            let (next_came, next) = mpsc::channel();
            let (done, took_place) = mpsc::channel();
            *rule.held.lock().unwrap() = Some(Held {
                next_came,
                took_place,
            });
            drop(armed);
            send_when_next_comes(chunk, &near, &far, &next);
            done.send(()).unwrap();
            return false;
        }
        *armed = None;
        if lost == Lost::ReplyAndServer {
            rule.refusing.store(true, Ordering::Release);
        }
        mute.store(true, Ordering::Release);
        rule.cuts.fetch_add(1, Ordering::Release);
        lost != Lost::Request
    });
}

/// Ends the client's side at once, and sends the statement when another one comes. Returns when the
/// server has ended the session after it, and so has done what it was sent.
fn send_when_next_comes(
    statement: &[u8],
    client: &TcpStream,
    mut server: &TcpStream,
    next: &mpsc::Receiver<()>,
) {
    client.shutdown(Shutdown::Both).unwrap();
    next.recv_timeout(LIMIT).unwrap();
    server.write_all(statement).unwrap();
    // PostgreSQL's goodbye.
    server.write_all(b"X\0\0\0\x04").unwrap();
    server.set_read_timeout(Some(LIMIT)).unwrap();
    while server.read(&mut [0; 1024]).unwrap_or(0) > 0 {}
}

/// Hands on what comes while `pass` says so; then, or at the end, both connections end.
fn pump(mut from: TcpStream, mut to: TcpStream, mut pass: impl FnMut(&[u8]) -> bool) {
    let mut chunk = [0; 16_384];
    loop {
        let count = from.read(&mut chunk).unwrap_or(0);
        if count == 0 || !pass(&chunk[..count]) || to.write_all(&chunk[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
