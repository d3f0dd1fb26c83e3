//! Programs in Python, with requests and with urllib.

use crate::http::{Answer, status};
use crate::needs;
use crate::server::Server;
use crate::world::{Ran, World};

crate::proofs! { "python", needs ["python3", "requests"];
    refused: ["not connected"];
    no_answer_to_the_connect: ["the answer was lost"];
    hangs_after_reading: ["the answer was lost"];
    never_read: ["the answer was lost"];
    reset: ["the answer was lost"];
    closed_without_an_answer: ["the answer was lost"];
    cut_answer: ["the answer was lost"];
    statuses: ["an HTTP error"];
    a_redirect_reached_the_server: ["it followed a redirect"];
    its_own_retry_reached_the_server: ["it retried"];
    other_failures: [];
}

const REQUESTS: &str = "
import sys, requests
requests.post(sys.argv[1], data={'a': 1}, timeout=(float(sys.argv[2]), float(sys.argv[2]))).raise_for_status()
";

const URLLIB: &str = "
import sys, urllib.request
urllib.request.urlopen(sys.argv[1], data=b'a=1', timeout=float(sys.argv[2])).read()
";

const RETRIES: &str = "
import sys, logging, requests
from urllib3.util import Retry
logging.basicConfig()
session = requests.Session()
retry = Retry(total=1, allowed_methods=None, status_forcelist=[503])
session.mount('http://', requests.adapters.HTTPAdapter(max_retries=retry))
session.post(sys.argv[1], data={'a': 1})
";

/// Runs a script, unnamed and named as a program that sends one request.
fn script(world: &mut World, source: &str, url: &str, timeout: &str) -> [Ran; 2] {
    let python = needs::path("python3");
    let argv = [python.to_str().unwrap(), "-c", source, url, timeout];
    let guessed = world.call(argv).run();
    let named = world.call(argv).with("--classifier python").run();
    [guessed, named]
}

/// Runs both scripts: the class unnamed and named, and the requests of four runs.
fn both(world: &mut World, server: &Server, timeout: &str, classes: [&str; 2]) {
    for source in [REQUESTS, URLLIB] {
        let runs = script(world, source, &server.url("/"), timeout);
        for (ran, class) in runs.iter().zip(classes) {
            ran.is(class, 1);
        }
    }
}

fn refused(world: &mut World) {
    both(world, &Server::refuses(), "20", ["uncertain", "safe"]);
}

/// A connect that timed out ends in the same base error as a lost answer.
fn no_answer_to_the_connect(world: &mut World) {
    let server = Server::silent();
    both(world, &server, "1", ["uncertain", "uncertain"]);
}

fn hangs_after_reading(world: &mut World) {
    let server = Server::always(Answer::Hang);
    both(world, &server, "1", ["uncertain", "uncertain"]);
    assert_eq!(server.count("POST"), 4);
}

fn never_read(world: &mut World) {
    let server = Server::never_reads();
    both(world, &server, "1", ["uncertain", "uncertain"]);
    assert_eq!(server.connections(), 4);
}

fn reset(world: &mut World) {
    for server in [Server::resets_unread(), Server::always(Answer::Reset)] {
        both(world, &server, "20", ["uncertain", "uncertain"]);
        assert_eq!(server.connections(), 4);
    }
}

fn closed_without_an_answer(world: &mut World) {
    let server = Server::always(Answer::Close);
    both(world, &server, "20", ["uncertain", "uncertain"]);
    assert_eq!(server.count("POST"), 4);
}

fn cut_answer(world: &mut World) {
    let server = Server::always(Answer::Cut);
    let [guessed, named] = script(world, URLLIB, &server.url("/"), "20");
    guessed.is_uncertain();
    named.is_uncertain();
    assert_eq!(server.count("POST"), 2);
}

fn statuses(world: &mut World) {
    for (code, classes) in [
        (404, ["permanent", "permanent"]),
        (429, ["uncertain", "throttled"]),
        (500, ["uncertain", "uncertain"]),
        (503, ["uncertain", "uncertain"]),
    ] {
        let server = Server::always(Answer::Reply(status(code)));
        both(world, &server, "20", classes);
        assert_eq!(server.count("POST"), 4);
    }
}

fn a_redirect_reached_the_server(world: &mut World) {
    let gone = Server::refuses();
    let elsewhere = gone.url("/");
    let server = Server::always(Answer::Reply(status(302).with("Location", &elsewhere)));
    both(world, &server, "20", ["uncertain", "uncertain"]);
    assert_eq!(server.count("POST"), 4);
}

fn its_own_retry_reached_the_server(world: &mut World) {
    for _ in 0..2 {
        let server = Server::once(Answer::Close);
        let python = needs::path("python3");
        let argv = [python.to_str().unwrap(), "-c", RETRIES, &server.url("/")];
        let ran = world.call(argv).with("--classifier python").run();
        ran.is_uncertain();
        assert!(ran.stderr.contains("Errno 111"), "{ran:#?}");
        assert_eq!(server.count("POST"), 1);
    }
}

fn other_failures(world: &mut World) {
    let python = needs::path("python3");
    let python = python.to_str().unwrap();
    world
        .call([python, "-c", "raise ValueError"])
        .run()
        .is_permanent();
    world
        .call([python, "-c", "raise SystemExit(7)"])
        .run()
        .is_permanent();
}
