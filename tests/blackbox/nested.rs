//! idem inside idem, and what it hands down.

use std::time::Duration;

use crate::env::{TestEnv, text};

#[test]
fn one_layer_retries() {
    let t = TestEnv::new();
    t.script("mid", "#!/bin/sh\n\"$IDEM\" run --key inner --retries 3 --backoff const:10ms -- sh -c 'echo x >> n; exit 9'\n");
    t.idem("run --key outer --retries 2 --backoff const:10ms -- ./mid")
        .end()
        .code(9);
    assert_eq!(t.lines("n"), 3, "three, not twelve");
}

#[test]
fn a_layer_that_insists_retries() {
    let t = TestEnv::new();
    t.script(
        "mid",
        "#!/bin/sh\n\"$IDEM\" run --key inner --retry-layer --retries 1 --backoff const:10ms -- sh -c 'echo x >> n; exit 9'\n",
    );
    t.idem("run --key outer -- ./mid").end().code(9);
    assert_eq!(t.lines("n"), 2);
}

#[test]
fn a_dead_ancestor_retries_for_nobody() {
    let t = TestEnv::new();
    let inner = "until test -e go; do sleep 0.02; done; \"$IDEM\" run --key inner --retries 2 --backoff const:10ms -- \
                 sh -c 'echo x >> n; exit 9'";
    t.run("--key outer", &format!("({inner}) >log 2>&1 & exit 0"))
        .end()
        .code(0);
    t.touch("go");
    t.upto_lines("n", 3);
    t.upto_quiet();
    assert_eq!(t.lines("n"), 3);
}

#[test]
fn the_smaller_deadline_counts() {
    let t = TestEnv::new();
    let inner = "\"$IDEM\" run --key inner --deadline 1h -- sleep 300";
    let done = t
        .run("--key outer --deadline 3s --kill-after 1s", inner)
        .end();
    done.code(124).within(Duration::from_secs(40));
    t.run(
        "--key d --deadline 100s",
        "echo $IDEM_DEADLINE; date +%s%3N",
    )
    .end()
    .code(0);
    let said = t.idem("output d").end().out_text();
    let ms: Vec<i64> = said
        .split_whitespace()
        .map(|w| w.parse().expect("milliseconds"))
        .collect();
    let left = ms[0] - ms[1];
    assert!(
        (60_000..=98_100).contains(&left),
        "100 s less a reserve of 2 s: {left}"
    );
}

#[test]
fn an_inner_class_reaches_the_outer_one() {
    let t = TestEnv::new();
    let inner = "\"$IDEM\" run --key inner -- sh -c 'echo x >> n; kill -9 $$'; exit 1";
    t.run("--key outer", inner).end().code(1);
    assert_eq!(t.state("outer"), "unknown");
    let attempt = &t.status("outer")["attempts"][0];
    assert_eq!(text(&attempt["class"]), "uncertain");
}

#[test]
fn tokens_and_keys_can_be_put_into_the_arguments() {
    let t = TestEnv::new();
    let script = "test \"$1\" = \"$IDEM_TOKEN\" && echo same $2 $3";
    // The second time, it is replayed.
    for _ in 0..2 {
        let run = t.idem("run --key e --expand -- sh -c");
        let done = run
            .args([script, "sh", "{token}", "{key}", "{attempt}"])
            .end();
        done.code(0).out("same e 1\n");
    }
}

#[test]
fn an_empty_key_header_is_refused() {
    let t = TestEnv::new();
    for header in [
        "Idempotency-Key: ",
        "Idempotency-Key:",
        "idempotency-key:  ",
    ] {
        let run = t
            .idem("run --key h -- sh -c")
            .args(["echo x >> n", "curl", "-H", header]);
        run.end().code(125).out("").one_line();
    }
    assert_eq!(t.lines("n"), 0);
}
