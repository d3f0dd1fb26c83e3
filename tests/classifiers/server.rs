//! A server on the loopback that misbehaves as told, and counts what arrives.

use std::io::{Read, copy};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use crate::http::{self, Answer, Request};

/// Far beyond what a loaded machine needs.
const LIMIT: Duration = Duration::from_secs(60);

/// What a server does with a connection.
type Handler = dyn Fn(TcpStream, &Counts) + Send + Sync;

/// Whether the server goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lives {
    On,
    /// It takes one connection, and the port is closed before that is answered.
    Once,
}

/// A listening port, or one where nobody listens.
pub struct Server {
    port: u16,
    counts: Arc<Counts>,
    /// Keeps anybody else from getting the port.
    _held: Vec<TcpStream>,
}

/// What has arrived.
#[derive(Default)]
pub struct Counts {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    connections: usize,
    requests: Vec<Request>,
    /// Connections that are being handled.
    busy: usize,
    /// Connections that nobody reads.
    parked: Vec<TcpStream>,
    /// Our own connections, which only show that everything before them was accepted.
    marks: Vec<SocketAddr>,
    over: bool,
}

impl Counts {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// A request arrived; how many had before.
    fn request(&self, request: Request) -> usize {
        let mut state = self.state();
        state.requests.push(request);
        state.requests.len() - 1
    }

    fn park(&self, stream: TcpStream) {
        self.state().parked.push(stream);
    }

    fn wait_until(&self, done: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let (state, late) = self
            .changed
            .wait_timeout_while(self.state(), LIMIT, |state| !done(state))
            .unwrap();
        assert!(!late.timed_out(), "a connection did not end in time");
        state
    }
}

impl Server {
    /// Nobody listens, and nobody else will.
    pub fn refuses() -> Server {
        let listener = listen();
        Server {
            port: port_of(&listener),
            _held: hold(&listener),
            counts: Arc::default(),
        }
    }

    /// The kernel answers nothing to whoever wants to connect.
    pub fn silent() -> Server {
        let listener = listen();
        let address = listener.local_addr().unwrap();
        crate::system::shrink_backlog(&listener);
        let mut waiting = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
            waiting.push(stream);
            assert!(waiting.len() < 100, "the backlog never fills");
        }
        let counts = Arc::new(Counts::default());
        let of_thread = Arc::clone(&counts);
        // The thread owns the listener, and lets go of it only with the server.
        thread::spawn(move || {
            drop(
                of_thread
                    .changed
                    .wait_while(of_thread.state(), |state| !state.over),
            );
            drop(listener);
        });
        Server {
            port: address.port(),
            counts,
            _held: waiting,
        }
    }

    /// Accepts, and never reads.
    pub fn never_reads() -> Server {
        Server::start(Lives::On, |stream, counts| counts.park(stream))
    }

    /// Accepts, and resets when the first bytes are there, unread.
    pub fn resets_unread() -> Server {
        Server::start(Lives::On, |stream, _| {
            let _ = stream.peek(&mut [0]);
            crate::system::reset_on_close(&stream);
        })
    }

    /// Reads each request and answers it; the number is how many came before.
    pub fn http(answer: impl Fn(&Request, usize) -> Answer + Send + Sync + 'static) -> Server {
        Server::start(Lives::On, move |stream, counts| {
            respond(&answer, stream, counts)
        })
    }

    /// Gives every request the same answer.
    pub fn always(answer: Answer) -> Server {
        Server::http(move |_, _| answer.clone())
    }

    /// Reads one request, and is gone before it answers it.
    pub fn once(answer: Answer) -> Server {
        let answer = move |_: &Request, _| answer.clone();
        Server::start(Lives::Once, move |stream, counts| {
            respond(&answer, stream, counts)
        })
    }

    /// Runs a command for each connection, which is its stdin and stdout.
    pub fn inetd(command: impl Fn() -> Command + Send + Sync + 'static) -> Server {
        Server::start(Lives::On, move |stream, _| {
            let input = OwnedFd::from(stream.try_clone().unwrap());
            let mut command = command();
            let mut child = command
                .stdin(input)
                .stdout(OwnedFd::from(stream))
                .spawn()
                .unwrap();
            drop(command);
            child.wait().unwrap();
        })
    }

    /// Hands each connection on to a server at a path.
    pub fn relay(path: PathBuf) -> Server {
        Server::between(path, |mut from, mut to| {
            let _ = copy(&mut from, &mut to);
        })
    }

    /// Hands each connection on to a server at a path, and ends it instead of giving the reply back.
    pub fn loses_replies(path: PathBuf) -> Server {
        Server::between(path, |mut from, _| {
            let _ = from.read(&mut [0]);
        })
    }

    fn between(
        path: PathBuf,
        back: impl Fn(UnixStream, TcpStream) + Send + Sync + 'static,
    ) -> Server {
        let back = Arc::new(back);
        Server::start(Lives::On, move |mut stream, _| {
            let mut inner = UnixStream::connect(&path).unwrap();
            let ends = (inner.try_clone().unwrap(), stream.try_clone().unwrap());
            let back = Arc::clone(&back);
            let replies = thread::spawn(move || {
                let whole = ends.1.try_clone().unwrap();
                back(ends.0, ends.1);
                let _ = whole.shutdown(Shutdown::Both);
            });
            let _ = copy(&mut stream, &mut inner);
            let _ = inner.shutdown(Shutdown::Both);
            replies.join().unwrap();
        })
    }

    fn start(lives: Lives, handler: impl Fn(TcpStream, &Counts) + Send + Sync + 'static) -> Server {
        let listener = listen();
        let port = port_of(&listener);
        let held = match lives {
            Lives::On => Vec::new(),
            Lives::Once => hold(&listener),
        };
        let counts = Arc::new(Counts::default());
        let of_thread = Arc::clone(&counts);
        let handler: Arc<Handler> = Arc::new(handler);
        thread::spawn(move || accept(listener, lives, &of_thread, &handler));
        Server {
            port,
            counts,
            _held: held,
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// `http://127.0.0.1:PORT` and this path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// How many connections arrived. The clients must have ended.
    pub fn connections(&self) -> usize {
        self.settled().connections
    }

    /// The requests that arrived. The clients must have ended.
    pub fn requests(&self) -> Vec<Request> {
        self.settled().requests.clone()
    }

    /// How many requests of this method arrived. The clients must have ended.
    pub fn count(&self, method: &str) -> usize {
        let requests = self.requests();
        requests.iter().filter(|r| r.method() == method).count()
    }

    /// Waits until every connection was accepted and handled.
    fn settled(&self) -> MutexGuard<'_, State> {
        if let Some(mark) = self.mark() {
            let own = mark.local_addr().unwrap();
            drop(self.counts.wait_until(|state| !state.marks.contains(&own)));
        }
        self.counts.wait_until(|state| state.busy == 0)
    }

    /// A connection of our own; nothing where nobody listens any more.
    fn mark(&self) -> Option<TcpStream> {
        // The lock keeps the acceptor from taking it for somebody else's.
        let mut state = self.counts.state();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let stream = TcpStream::connect_timeout(&address, Duration::from_millis(300)).ok()?;
        state.marks.push(stream.local_addr().ok()?);
        Some(stream)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Ok(mut state) = self.counts.state.lock() else {
            return;
        };
        state.over = true;
        for stream in state.parked.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(state);
        self.counts.changed.notify_all();
        drop(self.mark());
    }
}

fn listen() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

fn port_of(listener: &TcpListener) -> u16 {
    listener.local_addr().unwrap().port()
}

/// A connection to the port itself: as long as it lives, nobody is given the port.
fn hold(listener: &TcpListener) -> Vec<TcpStream> {
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    vec![near, far]
}

fn respond(answer: &dyn Fn(&Request, usize) -> Answer, stream: TcpStream, counts: &Counts) {
    if let Some(request) = http::read(&stream) {
        let before = counts.request(request.clone());
        answer(&request, before).give(stream);
    }
}

fn accept(listener: TcpListener, lives: Lives, counts: &Arc<Counts>, handler: &Arc<Handler>) {
    let mut listener = Some(listener);
    while let Some((stream, peer)) = listener.as_ref().map(|l| l.accept().unwrap()) {
        let mut state = counts.state();
        if state.over {
            return;
        }
        if state.marks.contains(&peer) {
            state.marks.retain(|mark| *mark != peer);
            counts.changed.notify_all();
            continue;
        }
        state.connections += 1;
        state.busy += 1;
        drop(state);
        if lives == Lives::Once {
            listener = None;
        }
        handle(stream, Arc::clone(counts), Arc::clone(handler));
    }
}

fn handle(stream: TcpStream, counts: Arc<Counts>, handler: Arc<Handler>) {
    thread::spawn(move || {
        handler(stream, &counts);
        counts.state().busy -= 1;
        counts.changed.notify_all();
    });
}
