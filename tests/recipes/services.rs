//! A service that deduplicates, and many keys at once.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::env::tool_or_leave;
use crate::procs;
use crate::world::{GATE, World};

/// Takes charges, each token once; the answer to the first request gets lost.
struct Payments {
    address: String,
    tokens: Arc<Mutex<Vec<String>>>,
}

impl Payments {
    fn open() -> Payments {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let tokens = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&tokens);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                charge(stream, &seen);
            }
        });
        Payments {
            address: format!("http://{address}"),
            tokens,
        }
    }

    /// The tokens of all requests.
    fn tokens(&self) -> Vec<String> {
        self.tokens.lock().expect("the tokens").clone()
    }
}

fn charge(mut stream: TcpStream, tokens: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("the stream"));
    let (mut token, mut length, mut line) = (String::new(), 0, String::new());
    while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
        let (name, value) = line.split_once(':').unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "idempotency-key" => token = value.trim().to_owned(),
            "content-length" => length = value.trim().parse().unwrap_or(0),
            _ => {}
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the body");
    assert_eq!(String::from_utf8_lossy(&body), "order=17&amount=5");
    let mut tokens = tokens.lock().expect("the tokens");
    tokens.push(token);
    if tokens.len() > 1 {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\ncharged\n";
        stream.write_all(answer).ok();
    }
}

#[test]
fn a_payment_whose_answer_was_lost_is_charged_once() {
    if !tool_or_leave("curl") {
        return;
    }
    let (w, payments) = (World::new(), Payments::open());
    let pay = || {
        let recipe = w.recipe("curl-payment").env("ORDER", "17");
        recipe.env("AMOUNT", "5").env("PAYMENTS", &payments.address)
    };
    pay().end().code(0).out("charged\n");
    pay().end().code(0).out("charged\n");
    let tokens = payments.tokens();
    let charges: BTreeSet<&String> = tokens.iter().collect();
    assert_eq!((tokens.len(), charges.len()), (2, 1), "{tokens:?}");
    assert!(tokens[0].len() > 8, "{tokens:?}");
}

const IDS: usize = 8;

fn with_ids() -> World {
    let w = World::new();
    let ids: Vec<String> = (1..=IDS).map(|id| format!("{id}\n")).collect();
    w.t.write("ids.txt", ids.concat());
    w
}

#[test]
fn many_keys_go_on_where_they_were_cut_off() {
    let w = with_ids();
    w.tool("send-mail", &format!("echo \"$1\" >>n; {GATE}"));
    let first = w.recipe("xargs").own_group().start();
    w.t.upto_lines("n", 4);
    procs::signal_group(first.pid(), libc::SIGKILL);
    first.end().died_of(libc::SIGKILL);
    w.t.touch("go");
    w.recipe("xargs").end().code(0).err("");
    let mut sent: Vec<usize> = w.t.words("n").split(' ').flat_map(str::parse).collect();
    sent.sort_unstable();
    assert_eq!(sent, (1..=IDS).collect::<Vec<_>>());
}

#[test]
fn one_failure_among_many_keys_is_the_only_one_done_again() {
    let w = with_ids();
    w.tool(
        "send-mail",
        "echo \"$1\" >>n; test \"$1\" != 3 -o -e fixed || { echo refused >&2; exit 9; }",
    );
    w.recipe("xargs").end().code(123).says("refused");
    assert_eq!(w.t.lines("n"), IDS);
    let failed = w.command("idem").args(["status", "mail-*"]);
    let failed = failed.args(["--state", "failed,unknown", "--json"]).end();
    let failed = failed.code(0).json();
    assert_eq!(failed.as_array().map(Vec::len), Some(1), "{failed}");
    assert_eq!(failed[0]["key"], "mail-3");
    w.t.touch("fixed");
    w.recipe("xargs").end().code(0).out("").err("");
    assert_eq!(w.t.lines("n"), IDS + 1);
}
