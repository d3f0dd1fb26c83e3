//! wget.

use crate::http::{Answer, status};
use crate::server::Server;
use crate::tls;
use crate::world::{Ran, World};

crate::proofs! { "wget", needs ["wget", "openssl", crate::tls::PYTHON];
    refused: ["not connected"];
    no_such_host: ["not connected"];
    no_answer_to_the_connect: ["not connected"];
    hangs_after_reading: ["the answer was lost"];
    never_read: ["the answer was lost"];
    reset: ["the answer was lost"];
    closed_without_an_answer: ["the answer was lost"];
    cut_answer: ["the request may have arrived"];
    silent_wget: ["the request may have arrived"];
    statuses: ["an HTTP error"];
    hints: [];
    it_tries_again_by_itself: ["it went on after an answer"];
    its_own_retry_reached_the_server: ["a request was sent before the last connect"];
    a_redirect_reached_the_server: ["it went on after an answer"];
    a_login_reached_the_server: ["it went on after an answer"];
    an_address_that_took_the_request: ["the answer was lost"];
    wrong_usage: ["wrong usage"];
    login_refused: ["the login was refused"];
    untrusted_certificate: ["the certificate was refused"];
}

fn post(world: &mut World, options: &str, url: &str) -> Ran {
    world
        .line(&format!("wget -O - {options} --post-data a=1 {url}"))
        .run()
}

fn refused(world: &mut World) {
    let server = Server::refuses();
    let url = server.url("/");
    post(world, "-t1", &url).is_safe();
    post(world, "--tries=1 -T 20 -S", &url).is_safe();
    post(world, "--tries=5 -t1", &url).is_safe();
    post(world, "-t1 --tries=1 -nv", &url).is_uncertain();
    post(world, "-t1 --trie=1", &url).is_uncertain();
    post(world, "", &url).is_uncertain();
}

fn no_such_host(world: &mut World) {
    let url = format!("http://{}.test/", "x".repeat(64));
    post(world, "-t1", &url).is_safe();
}

fn no_answer_to_the_connect(world: &mut World) {
    let server = Server::silent();
    post(world, "-t1 --connect-timeout=1", &server.url("/")).is_safe();
}

fn hangs_after_reading(world: &mut World) {
    let server = Server::always(Answer::Hang);
    post(world, "-t1 --read-timeout=1", &server.url("/")).is_uncertain();
    assert_eq!(server.count("POST"), 1);
}

fn never_read(world: &mut World) {
    let server = Server::never_reads();
    post(world, "-t1 --read-timeout=1", &server.url("/")).is_uncertain();
    assert_eq!(server.connections(), 1);
}

fn reset(world: &mut World) {
    for server in [Server::resets_unread(), Server::always(Answer::Reset)] {
        let line = format!("wget -O - -t1 --post-data a=1 {}", server.url("/"));
        let ran = world.line(&line).with("-r 3 --backoff const:1ms").run();
        ran.is_uncertain();
        assert_eq!(server.connections(), 1);
    }
}

fn closed_without_an_answer(world: &mut World) {
    let server = Server::always(Answer::Close);
    post(world, "-t1", &server.url("/")).is_uncertain();
    post(world, "-t1 -nv", &server.url("/")).is_uncertain();
    assert_eq!(server.count("POST"), 2);
}

fn cut_answer(world: &mut World) {
    let server = Server::always(Answer::Cut);
    post(world, "-t1", &server.url("/")).is_uncertain();
    assert_eq!(server.count("POST"), 1);
}

fn silent_wget(world: &mut World) {
    post(world, "-q -t1", &Server::refuses().url("/")).is_uncertain();
}

fn statuses(world: &mut World) {
    let answers = [
        (403, "permanent"),
        (404, "permanent"),
        (408, "uncertain"),
        (409, "permanent"),
        (429, "throttled"),
        (500, "uncertain"),
        (503, "uncertain"),
        (504, "uncertain"),
    ];
    for (code, class) in answers {
        let server = Server::always(Answer::Reply(status(code)));
        let ran = post(world, "-t1", &server.url("/"));
        ran.is(class, 1);
        assert_eq!(ran.last().http_status, Some(code.into()), "{ran:#?}");
        assert_eq!(server.count("POST"), 1);
    }
}

fn hints(world: &mut World) {
    for (hint, expected) in [
        ("120", Some(120_000)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(0)),
    ] {
        let answer = status(429).with("Retry-After", hint);
        let server = Server::always(Answer::Reply(answer));
        let ran = post(world, "-t1 -S", &server.url("/"));
        assert_eq!(
            ran.is_throttled().last().retry_after_ms,
            expected,
            "{ran:#?}"
        );
        let hidden = post(world, "-t1", &server.url("/"));
        assert_eq!(
            hidden.is_throttled().last().retry_after_ms,
            None,
            "{hidden:#?}"
        );
    }
}

fn it_tries_again_by_itself(world: &mut World) {
    let server = Server::always(Answer::Reset);
    post(world, "-t3 --waitretry=1", &server.url("/")).is_uncertain();
    assert_eq!(server.count("POST"), 3);
}

fn its_own_retry_reached_the_server(world: &mut World) {
    let server = Server::once(Answer::Close);
    let ran = post(world, "-t2 --waitretry=1", &server.url("/"));
    ran.is_uncertain();
    assert!(
        ran.stderr.contains("failed: Connection refused"),
        "{ran:#?}"
    );
    assert_eq!(server.count("POST"), 1);
}

fn a_redirect_reached_the_server(world: &mut World) {
    let gone = Server::refuses();
    let elsewhere = gone.url("/");
    let server = Server::always(Answer::Reply(status(302).with("Location", &elsewhere)));
    for options in ["-t1", "-t1 -nv"] {
        let ran = post(world, options, &server.url("/"));
        ran.is_uncertain();
        assert!(
            ran.stderr.contains("failed: Connection refused"),
            "{ran:#?}"
        );
    }
    assert_eq!(server.count("POST"), 2);
    let throttles = Server::always(Answer::Reply(status(429)));
    let moved = status(302).with("Location", &throttles.url("/"));
    let server = Server::always(Answer::Reply(moved));
    post(world, "-t1", &server.url("/")).is_uncertain();
    assert_eq!(server.count("POST"), 1);
}

fn a_login_reached_the_server(world: &mut World) {
    let challenge = status(401).with("WWW-Authenticate", "Basic realm=\"x\"");
    for options in ["-t1", "-t1 -nv --max-redirect=0"] {
        let server = Server::once(Answer::Reply(challenge.clone()));
        let ran = post(
            world,
            &format!("{options} --user=a --password=b"),
            &server.url("/"),
        );
        ran.is_uncertain();
        assert!(
            ran.stderr.contains("failed: Connection refused"),
            "{ran:#?}"
        );
        assert_eq!(server.count("POST"), 1);
    }
}

/// A name with two addresses, of which only the second one answers.
fn an_address_that_took_the_request(world: &mut World) {
    let server = Server::always(Answer::Reset);
    let url = format!("http://localhost:{}/", server.port());
    post(world, "-t1 --prefer-family=IPv6", &url).is_uncertain();
    assert_eq!(server.count("POST"), 1);
}

fn wrong_usage(world: &mut World) {
    world.line("wget --no-such-option").run().is_permanent();
}

fn login_refused(world: &mut World) {
    let challenge = status(401).with("WWW-Authenticate", "Basic realm=\"x\"");
    let server = Server::always(Answer::Reply(challenge));
    let ran = post(world, "-t1", &server.url("/"));
    assert_eq!(ran.is_permanent().code, 6, "{ran:#?}");
    assert_eq!(server.count("POST"), 1);
}

fn untrusted_certificate(world: &mut World) {
    let server = tls::untrusted(world);
    let url = server.url("/").replace("http:", "https:");
    let ran = post(world, "-t1 --no-proxy", &url);
    assert_eq!(ran.is_permanent().code, 5, "{ran:#?}");
    assert_eq!(tls::sent_bytes(world, &server), 0);
}
