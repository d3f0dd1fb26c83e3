//! Views that go on, and a look for trouble.

use crate::env::{TestEnv, keys, upto};

#[test]
fn the_log_follows() {
    let t = TestEnv::new();
    t.run("--key a", "true").end().code(0);
    let follow = t.idem("log --follow").start();
    crate::env::upto("the past", || !follow.out_so_far().is_empty());
    let before = follow.out_so_far().lines().count();
    t.run("--key b", "true").end().code(0);
    crate::env::upto("the news", || follow.out_so_far().lines().count() > before);
    follow.signal(libc::SIGINT);
    assert_ne!(follow.end().code, 125);
}

#[test]
fn problems_are_what_a_person_must_look_at() {
    let t = TestEnv::new();
    t.run("--key good", "true").end().code(0);
    t.idem("status --problems --exit-code").end().code(0);
    t.run("--key bad", "exit 7").end().code(7);
    t.make_unknown("lost", "kill -9 $$");
    let list = t.idem("status --json --problems").end().code(0).json();
    assert_eq!(keys(&list), ["lost", "bad"]);
    t.idem("status --problems --exit-code").end().code(1);
}

#[test]
fn a_watched_list_shows_what_is_new() {
    let t = TestEnv::new();
    t.run("--key first", "true").end().code(0);
    let watch = t.idem("status --watch").start();
    upto("the list", || watch.out_so_far().contains("first"));
    t.run("--key second", "true").end().code(0);
    upto("the news", || watch.out_so_far().contains("second"));
    watch.signal(libc::SIGINT);
    assert_ne!(watch.end().code, 125);
}

#[test]
fn what_runs_far_longer_than_usual_is_flagged() {
    let t = TestEnv::new();
    let script = format!("test -e fast || {}", crate::env::gate("go"));
    t.touch("fast");
    t.run("--key quick", &script).end().code(0);
    std::fs::remove_file(t.path("fast")).expect("removed");
    let runs = t.run("--key slow", &script).start();
    let list = || t.idem("status").end().code(0).out_text();
    upto("it is overdue", || list().contains("wait; overdue"));
    let page = t.idem("status slow").end().code(0).out_text();
    assert!(page.contains("overdue  "), "{page}");
    t.idem("status --problems --exit-code").end().code(1);
    t.touch("go");
    runs.end().code(0);
    assert!(!list().contains("overdue"));
}
