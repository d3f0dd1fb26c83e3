//! curl.

use std::process::Command;

use crate::http::{Answer, status};
use crate::server::Server;
use crate::tls;
use crate::world::{Ran, World};

crate::proofs! { "curl", needs ["curl", "openssl", crate::tls::PYTHON];
    refused: ["not connected"];
    refused_is_tried_again: ["not connected"];
    no_such_host: ["not connected"];
    no_tls: ["not connected"];
    no_answer_to_the_connect: ["timed out before it was connected"];
    never_read: ["timed out after it was connected"];
    hangs_after_reading: ["timed out after it was connected"];
    reset_unread: ["the request may have arrived"];
    reset_after_reading: ["the request may have arrived"];
    closed_without_an_answer: ["the request may have arrived"];
    cut_answer: ["the request may have arrived"];
    silent_curl: ["the request may have arrived"];
    garbage: ["an answer that is no HTTP"];
    statuses: ["an HTTP error"];
    throttled: ["an HTTP error"];
    hints: [];
    throttled_is_tried_again_after_the_hint: ["an HTTP error"];
    a_status_without_fail: [];
    its_own_retry_reached_the_server: ["it retried"];
    its_own_silent_retry_reached_the_server: [];
    a_redirect_reached_the_server: [];
    a_login_reached_the_server: [];
    two_urls: ["another failure before the last one"];
    wrong_usage: ["wrong usage, URL or local file"];
    unknown_protocol: ["the protocol is not supported"];
    untrusted_certificate: ["the certificate was refused"];
    no_tunnel: ["the proxy opened no tunnel"];
}

fn post(world: &mut World, options: &str, server: &Server) -> Ran {
    let url = server.url("/");
    world
        .line(&format!("curl -sS {options} -d a=1 {url}"))
        .run()
}

fn refused(world: &mut World) {
    let server = Server::refuses();
    post(world, "-m 20", &server).is_safe();
    let url = server.url("/");
    let wrapped = format!("env A=b nice -n 1 timeout 50 curl -sS -d a=1 {url}");
    world.line(&wrapped).run().is_safe();
    let line = format!("curl -sS -d a=1 {url}");
    world.call(["sh", "-c", &line]).run().is_permanent();
}

fn refused_is_tried_again(world: &mut World) {
    let server = Server::refuses();
    let line = format!("curl -sS -d a=1 {}", server.url("/"));
    let ran = world.line(&line).with("-r 2 --backoff const:1ms").run();
    ran.is("safe", 3);
}

fn no_such_host(world: &mut World) {
    // A label this long is refused by the resolver itself.
    let host = "x".repeat(64);
    world
        .line(&format!("curl -sS -d a=1 http://{host}.test/"))
        .run()
        .is_safe();
    world
        .line(&format!(
            "curl -sS -d a=1 -x http://{host}.test:1 http://x.test/"
        ))
        .run()
        .is_safe();
}

fn no_tls(world: &mut World) {
    let server = Server::inetd(|| {
        let mut greeting = Command::new("echo");
        greeting.arg("220 this is no TLS");
        greeting
    });
    let url = server.url("/").replace("http:", "https:");
    let ran = world
        .line(&format!("curl -sS --noproxy * -d a=1 {url}"))
        .run();
    assert_eq!(ran.is_safe().code, 35, "{ran:#?}");
    assert_eq!(server.connections(), 1);
}

fn no_answer_to_the_connect(world: &mut World) {
    let server = Server::silent();
    post(world, "--connect-timeout 1", &server).is_safe();
    post(world, "--max-time 1", &server).is_safe();
    post(world, "--max-time 1 -L", &server).is_uncertain();
}

fn never_read(world: &mut World) {
    let server = Server::never_reads();
    post(world, "--max-time 1", &server).is_uncertain();
    assert_eq!(server.connections(), 1);
}

fn hangs_after_reading(world: &mut World) {
    let server = Server::always(Answer::Hang);
    post(world, "--max-time 1", &server).is_uncertain();
    assert_eq!(server.count("POST"), 1);
    post(world, "--speed-limit 10 --speed-time 1", &server).is_uncertain();
    assert_eq!(server.count("POST"), 2);
}

fn reset_unread(world: &mut World) {
    let server = Server::resets_unread();
    let line = format!("curl -sS -d a=1 {}", server.url("/"));
    // A retry would be the second request, had the first one been read.
    world
        .line(&line)
        .with("-r 3 --backoff const:1ms")
        .run()
        .is_uncertain();
    assert_eq!(server.connections(), 1);
}

fn reset_after_reading(world: &mut World) {
    let server = Server::always(Answer::Reset);
    let line = format!("curl -sS -d a=1 {}", server.url("/"));
    world
        .line(&line)
        .with("-r 3 --backoff const:1ms")
        .run()
        .is_uncertain();
    assert_eq!(server.count("POST"), 1);
}

fn closed_without_an_answer(world: &mut World) {
    let server = Server::always(Answer::Close);
    let ran = post(world, "", &server);
    ran.is_uncertain();
    assert_eq!(ran.code, 52, "{ran:#?}");
    assert_eq!(server.count("POST"), 1);
}

fn cut_answer(world: &mut World) {
    let server = Server::always(Answer::Cut);
    let ran = post(world, "", &server);
    ran.is_uncertain();
    assert_eq!(ran.code, 18, "{ran:#?}");
    assert_eq!(server.count("POST"), 1);
}

fn silent_curl(world: &mut World) {
    let server = Server::refuses();
    let url = server.url("/");
    world
        .line(&format!("curl -s -d a=1 {url}"))
        .run()
        .is_uncertain();
}

fn garbage(world: &mut World) {
    let server = Server::always(Answer::Bytes(b"what?\r\n".to_vec()));
    let ran = post(world, "", &server);
    ran.is_uncertain();
    assert_eq!(ran.code, 1, "{ran:#?}");
    assert_eq!(server.count("POST"), 1);
}

fn statuses(world: &mut World) {
    let answers = [
        (400, "permanent"),
        (401, "permanent"),
        (403, "permanent"),
        (404, "permanent"),
        (408, "uncertain"),
        (409, "permanent"),
        (429, "throttled"),
        (500, "uncertain"),
        (502, "uncertain"),
        (503, "uncertain"),
        (504, "uncertain"),
    ];
    for (code, class) in answers {
        let server = Server::always(Answer::Reply(status(code)));
        let ran = post(world, "--fail", &server);
        ran.is(class, 1);
        assert_eq!(ran.last().http_status, Some(code.into()), "{ran:#?}");
        assert_eq!(server.count("POST"), 1);
    }
}

fn throttled(world: &mut World) {
    let server = Server::always(Answer::Reply(status(429)));
    post(world, "--fail", &server).is_throttled();
    post(world, "--fail-with-body", &server).is_throttled();
    // It might have followed a redirect into this.
    post(world, "--fail -L", &server).is_uncertain();
    assert_eq!(server.count("POST"), 3);
}

fn hints(world: &mut World) {
    let seconds = |code| Answer::Reply(status(code).with("Retry-After", "120"));
    let date =
        |code| Answer::Reply(status(code).with("Retry-After", "Fri, 31 Dec 2100 23:59:59 GMT"));
    let past =
        |code| Answer::Reply(status(code).with("Retry-After", "Sun, 06 Nov 1994 08:49:37 GMT"));
    let day_ms = Some(24 * 60 * 60 * 1000);
    for (answer, class, hint) in [
        (seconds(429), "throttled", Some(120_000)),
        (date(429), "throttled", day_ms),
        (past(429), "throttled", Some(0)),
        (seconds(503), "uncertain", Some(120_000)),
        (date(503), "uncertain", day_ms),
    ] {
        let server = Server::always(answer);
        for show in ["-D /dev/stderr", "-i", "-v"] {
            let ran = post(world, &format!("--fail {show}"), &server);
            ran.is(class, 1);
            assert_eq!(ran.last().retry_after_ms, hint, "{ran:#?}");
        }
        let hidden = post(world, "--fail", &server);
        assert_eq!(hidden.last().retry_after_ms, None, "{hidden:#?}");
        assert_eq!(server.count("POST"), 4);
    }
}

fn throttled_is_tried_again_after_the_hint(world: &mut World) {
    let server = Server::http(|_, before| match before {
        0 => Answer::Reply(status(429).with("Retry-After", "1")),
        _ => Answer::Reply(status(200)),
    });
    let line = format!("curl -sS --fail -D /dev/stderr -d a=1 {}", server.url("/"));
    let started = std::time::Instant::now();
    let ran = world.line(&line).with("-r 1 --backoff const:1ms").run();
    ran.is("success", 2);
    assert!(started.elapsed().as_millis() >= 1000);
    assert_eq!(server.count("POST"), 2);
}

fn a_status_without_fail(world: &mut World) {
    let server = Server::always(Answer::Reply(status(500)));
    let line = format!("curl -sS -d a=1 {}", server.url("/"));
    let ran = world.line(&line).with("-v").run();
    ran.is("success", 1);
    assert!(
        ran.stderr.contains("curl without --fail ends with 0"),
        "{ran:#?}"
    );
    let quiet = world.line(&line).run();
    assert_eq!(
        (quiet.is("success", 1).stderr.as_str(), quiet.code),
        ("", 0)
    );
    let named = world.line(&line).with("--classifier curl").run();
    assert_eq!(named.is("success", 1).code, 0);
    assert_eq!(server.count("POST"), 3);
}

fn its_own_retry_reached_the_server(world: &mut World) {
    let server = Server::once(Answer::Reply(status(503)));
    let url = server.url("/");
    let retry = "--retry 1 --retry-delay 1 --retry-connrefused";
    let ran = world
        .line(&format!(
            "curl --no-progress-meter --fail {retry} -d a=1 {url}"
        ))
        .run();
    assert_eq!(ran.is_uncertain().code, 7, "{ran:#?}");
    assert_eq!(server.count("POST"), 1);
}

fn its_own_silent_retry_reached_the_server(world: &mut World) {
    let server = Server::once(Answer::Reply(status(503)));
    let url = server.url("/");
    world
        .line(&format!("curl -s --retry 1 --retry-delay 1 -d a=1 {url}"))
        .run()
        .is_uncertain();
    assert_eq!(server.count("POST"), 1);
}

fn a_redirect_reached_the_server(world: &mut World) {
    let elsewhere = Server::refuses();
    let moved = status(302).with("Location", &elsewhere.url("/"));
    let server = Server::always(Answer::Reply(moved));
    let ran = post(world, "--fail -L", &server);
    ran.is_uncertain();
    assert_eq!(ran.code, 7, "{ran:#?}");
    assert_eq!(server.count("POST"), 1);
}

fn a_login_reached_the_server(world: &mut World) {
    let challenge = status(401).with("WWW-Authenticate", "Basic realm=\"x\"");
    let server = Server::once(Answer::Reply(challenge));
    let ran = post(world, "--fail --anyauth -u a:b", &server);
    ran.is_uncertain();
    assert_eq!(ran.code, 7, "{ran:#?}");
    assert_eq!(server.count("POST"), 1);
}

fn two_urls(world: &mut World) {
    let server = Server::always(Answer::Reset);
    let gone = Server::refuses();
    let (first, second) = (server.url("/"), gone.url("/"));
    let ran = world
        .line(&format!("curl -sS -d a=1 {first} {second}"))
        .run();
    ran.is_uncertain();
    assert_eq!(ran.code, 7, "{ran:#?}");
    assert_eq!(server.count("POST"), 1);
}

fn wrong_usage(world: &mut World) {
    let server = Server::always(Answer::Reply(status(200)));
    let url = server.url("/");
    for (options, code) in [
        ("--no-such-option", 2),
        ("-F f=@missing", 26),
        ("-T missing", 26),
    ] {
        let ran = world.line(&format!("curl -sS {options} {url}")).run();
        ran.is_permanent();
        assert_eq!(ran.code, code, "{ran:#?}");
    }
    let ran = world.line("curl -sS http://127.0.0.1:no-port/").run();
    assert_eq!(ran.is_permanent().code, 3, "{ran:#?}");
    assert_eq!(server.connections(), 0);
}

fn unknown_protocol(world: &mut World) {
    world
        .line("curl -sS what://127.0.0.1/")
        .run()
        .is_permanent();
}

fn untrusted_certificate(world: &mut World) {
    let server = tls::untrusted(world);
    let url = server.url("/").replace("http:", "https:");
    let ran = world
        .line(&format!("curl -sS --noproxy * -d a=1 {url}"))
        .run();
    assert_eq!(ran.is_permanent().code, 60, "{ran:#?}");
    assert_eq!(tls::sent_bytes(world, &server), 0);
    world
        .line(&format!(
            "curl -sS --noproxy * --cacert missing -d a=1 {url}"
        ))
        .run()
        .is_permanent();
    world
        .line(&format!("curl -sS --noproxy * --cert missing -d a=1 {url}"))
        .run()
        .is_permanent();
    assert_eq!(tls::sent_bytes(world, &server), 0);
    // Who does not ask for trust does send something.
    let ran = world
        .line(&format!("curl -sS --noproxy * -k -d a=1 {url}"))
        .run();
    ran.is_uncertain();
    assert!(tls::sent_bytes(world, &server) > 0);
}

fn no_tunnel(world: &mut World) {
    for (code, class) in [(403, "permanent"), (407, "permanent"), (502, "safe")] {
        let server = Server::always(Answer::Reply(status(code)));
        let proxy = server.url("/");
        let line = format!("curl -sS -x {proxy} -d a=1 https://origin.test/");
        world.line(&line).run().is(class, 1);
        assert_eq!((server.count("CONNECT"), server.count("POST")), (1, 0));
    }
}
