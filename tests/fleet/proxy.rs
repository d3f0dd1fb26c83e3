//! A TCP proxy before a server that does something at one message of one run.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Where it acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Before a message of the client is handed on.
    Request,
    /// When it has been handed on, before there is an answer.
    Sent,
    /// When the server's answer to it has come, before that is handed on.
    Reply,
}

/// What it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Closes the connection on both sides.
    Cut,
    /// Hands nothing on over this connection any more, and says nothing. Released, it is closed.
    Hang,
    /// Holds this connection until it is released, and then hands everything on.
    Hold,
}

#[derive(Default)]
struct State {
    plan: Option<(usize, At, Act)>,
    /// Messages of clients so far.
    seen: usize,
    /// The plan's message has come.
    acted: bool,
    released: bool,
}

/// The proxy. It lives as long as the process.
#[derive(Clone)]
pub struct Proxy {
    port: u16,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Proxy {
    /// Starts one before the server at a port of the loopback.
    pub fn start(server: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let proxy = Proxy {
            port,
            state: Arc::default(),
        };
        let own = proxy.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A server that is not there closes its connections as well.
                if let Ok(upstream) = TcpStream::connect(("127.0.0.1", server)) {
                    own.join(&client, &upstream);
                }
            }
        });
        proxy
    }

    /// The URL of a database through it.
    pub fn url(&self, database: &str) -> String {
        let port = self.port;
        format!("postgres://idem@127.0.0.1:{port}/{database}?sslmode=disable")
    }

    /// Acts at the client message of this number, counted from now on.
    pub fn arm(&self, message: usize, at: At, act: Act) {
        *self.state() = State {
            plan: Some((message, at, act)),
            ..State::default()
        };
    }

    /// Lets go of what it holds, and acts no more.
    pub fn release(&self) {
        let mut state = self.state();
        state.plan = None;
        state.released = true;
        self.state.1.notify_all();
    }

    /// How many messages the clients have sent.
    pub fn seen(&self) -> usize {
        self.state().seen
    }

    /// Whether it has acted.
    pub fn has_acted(&self) -> bool {
        self.state().acted
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn join(&self, client: &TcpStream, upstream: &TcpStream) {
        let link = Arc::new(Link {
            proxy: self.clone(),
            client: client.try_clone().expect("a descriptor"),
            upstream: upstream.try_clone().expect("a descriptor"),
            flow: Mutex::new(Flow::On),
        });
        let other = Arc::clone(&link);
        thread::spawn(move || link.requests());
        thread::spawn(move || other.replies());
    }
}

/// One connection through the proxy.
struct Link {
    proxy: Proxy,
    client: TcpStream,
    upstream: TcpStream,
    flow: Mutex<Flow>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    /// The next reply is the one to act upon.
    Act(Act),
    Off,
}

impl Link {
    fn flow(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn requests(&self) {
        let after = Cell::new(None);
        let before = || {
            let mut state = self.proxy.state();
            let number = state.seen;
            state.seen += 1;
            let planned = state.plan.filter(|(message, ..)| *message == number);
            drop(state);
            match planned {
                Some((_, At::Request, act)) => self.act(act),
                Some((_, At::Sent, act)) => {
                    after.set(Some(act));
                    true
                }
                Some((_, At::Reply, act)) => {
                    *self.flow() = Flow::Act(act);
                    true
                }
                None => self.goes_on(),
            }
        };
        let sent = || after.take().is_none_or(|act| self.act(act));
        pump(&self.client, &self.upstream, before, sent);
        self.close();
    }

    fn replies(&self) {
        let before = || {
            let flow = *self.flow();
            match flow {
                Flow::Act(act) => {
                    *self.flow() = Flow::On;
                    self.act(act)
                }
                _ => self.goes_on(),
            }
        };
        pump(&self.upstream, &self.client, before, || true);
        // A server that is gone is not told of by one that hangs.
        if self.goes_on() {
            self.close();
        }
    }

    /// Whether there is something to be handed on; waits if the connection hangs.
    fn goes_on(&self) -> bool {
        if *self.flow() == Flow::Off {
            self.await_release();
            return false;
        }
        true
    }

    fn act(&self, act: Act) -> bool {
        if act != Act::Hold {
            *self.flow() = Flow::Off;
        }
        self.proxy.state().acted = true;
        match act {
            Act::Cut => {
                self.close();
                false
            }
            Act::Hang => {
                self.await_release();
                self.close();
                false
            }
            Act::Hold => {
                self.await_release();
                true
            }
        }
    }

    fn await_release(&self) {
        let mut state = self.proxy.state();
        while !state.released {
            let woken = self.proxy.state.1.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn close(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.upstream.shutdown(Shutdown::Both);
    }
}

/// Hands on what comes, as long as it may be.
fn pump(
    mut from: &TcpStream,
    mut to: &TcpStream,
    before: impl Fn() -> bool,
    after: impl Fn() -> bool,
) {
    let mut chunk = vec![0; 1 << 16];
    loop {
        let length = match from.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(length) => length,
        };
        if !before() || to.write_all(&chunk[..length]).is_err() || !after() {
            return;
        }
    }
}
