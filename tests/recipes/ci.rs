//! A job of CI that is run again, and one that is cancelled.

use crate::command::Cmd;
use crate::env::text;
use crate::procs;
use crate::world::{GATE, World};

const COMMIT: &str = "c0ffee";

fn world() -> World {
    let w = World::new();
    w.tool(
        "deploy",
        &format!("echo \"$1\" >>n; {GATE}; echo \"$1\" >live; echo deployed"),
    );
    w.tool(
        "is-live",
        "echo x >>asked; [ \"$(cat live 2>/dev/null)\" = \"$1\" ] && echo live",
    );
    w.private_dir("disk");
    w
}

/// The step on a new runner, which has a home of its own.
fn step(w: &World, runner: &str) -> Cmd {
    let step = w.recipe("ci-deploy").env("HOME", w.private_dir(runner));
    let state = w.private_dir(&format!("{runner}/state"));
    step.env("XDG_STATE_HOME", state)
        .env("CI", "true")
        .env("CI_DISK", w.t.root().join("disk"))
        .env("COMMIT", COMMIT)
}

/// Starts the step and has it cancelled while it deploys.
fn cancelled(w: &World, meanwhile: impl FnOnce()) {
    let first = step(w, "home/one").own_group().start();
    w.t.upto_lines("n", 1);
    meanwhile();
    procs::signal_group(first.pid(), libc::SIGTERM);
    first.end().died_of(libc::SIGTERM);
}

#[test]
fn a_job_that_is_run_again_deploys_once() {
    let w = world();
    w.t.touch("go");
    step(&w, "home/one").end().code(0).out("deployed\n").err("");
    step(&w, "home/two").end().code(0).out("deployed\n").err("");
    assert_eq!(w.t.read("n"), "c0ffee\n");
    assert_eq!(w.t.lines("asked"), 0);
    let next = step(&w, "home/three").env("COMMIT", "beef");
    next.end().code(0).out("deployed\n");
    assert_eq!(w.t.read("n"), "c0ffee\nbeef\n");
}

#[test]
fn a_cancelled_job_that_has_deployed_does_not_deploy_again() {
    let w = world();
    cancelled(&w, || w.t.write("live", COMMIT));
    step(&w, "home/two").end().code(0).out("live\n");
    step(&w, "home/three").end().code(0).out("live\n");
    assert_eq!((w.t.lines("n"), w.t.lines("asked")), (1, 1));
}

#[test]
fn a_cancelled_job_that_has_not_deployed_deploys_when_it_is_run_again() {
    let w = world();
    cancelled(&w, || ());
    let store = w.t.root().join("disk/idem.db");
    let status = w
        .command("idem")
        .args(["status", "deploy-c0ffee", "--json"]);
    let status = status.env("IDEM_STORE", store).end().code(0).json();
    assert_eq!(text(&status["state"]), "unknown");
    w.t.touch("go");
    step(&w, "home/two").end().code(0).out("deployed\n");
    assert_eq!((w.t.lines("n"), w.t.lines("asked")), (2, 1));
}
