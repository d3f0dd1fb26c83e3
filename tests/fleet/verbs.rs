//! What one host does, another sees: each verb, by two hosts that take turns.

use crate::command::Cmd;
use crate::env::{IDEM, TestEnv, gate, text, upto};
use crate::host::Fleet;

/// Two hosts of one fleet, and a working directory that both name: effects are counted there.
struct Pair {
    a: TestEnv,
    b: TestEnv,
}

fn pair() -> Option<Pair> {
    let fleet = Fleet::new()?;
    let (a, b) = (fleet.host(), fleet.host());
    Some(Pair { a, b })
}

impl Pair {
    /// `idem run` on the second host, in the first one's directory.
    fn on_b(&self, options: &str, script: &str) -> Cmd {
        self.b.run(options, script).cwd(self.a.path(""))
    }
}

#[test]
fn results_are_replayed_and_mismatches_refused() {
    let Some(p) = pair() else { return };
    let script = "echo x >> n; echo out; echo err >&2";
    p.a.run("--key k", script).end().code(0).out("out\n");
    p.on_b("--key k", script)
        .end()
        .code(0)
        .out("out\n")
        .says("err\n");
    p.on_b("--key k", "echo other").end().code(121);
    p.b.run("--key k --scope other", "echo other")
        .end()
        .code(0)
        .out("other\n");
    assert_eq!(p.a.lines("n"), 1);
    p.b.idem("output k").end().code(0).out("out\n");
    p.b.idem("output k --stderr").end().code(0).out("err\n");
    p.b.idem("wait k").end().code(0).out("out\n");
    let told =
        p.b.idem("run --key k --json")
            .args(["--", "sh", "-c", script]);
    let told = told.end().json();
    assert_eq!(told["decision"], "replayed", "{told}");
    let listed = p.b.idem("status --json").end().code(0).out_text();
    assert!(listed.contains("\"k\""), "{listed}");
    let log = p.b.idem("log k --json").end().code(0).out_text();
    assert!(log.contains("claimed") && log.contains("settled"), "{log}");
    p.a.run("--key failed", "echo x >> n; exit 2").end().code(2);
    p.on_b("--key failed", "echo x >> n; exit 2").end().code(2);
    assert_eq!(p.a.lines("n"), 2);
    p.a.idem("forget k").end().code(0);
    assert_eq!(p.b.state("k"), "none");
    p.b.idem("output k").end().code(1).one_line();
}

#[test]
fn big_outputs_come_back_byte_by_byte() {
    let Some(p) = pair() else { return };
    let script = "echo x >> n; seq 1 400000; seq 1 9 >&2";
    let first = p.a.run("--key k", script).end();
    let again = p.on_b("--key k", script).end();
    assert!(first.stdout.len() > 2_000_000);
    assert!(first.stdout == again.stdout && first.code == 0);
    assert_eq!(first.err_text(), again.err_text());
    assert_eq!(p.a.lines("n"), 1);
    // Nothing of it stays on the host, which has delivered it.
    let local = p.a.store_dir();
    let left = || {
        let found = p.a.command("find").arg(&local).args(["-name", "*-out-*"]);
        found.end().code(0).out_text()
    };
    upto("the spool file is gone", || left().is_empty());
}

#[test]
fn unknown_outcomes_are_resolved_from_anywhere() {
    let Some(p) = pair() else { return };
    let script = "echo x >> n; kill -9 $$";
    p.a.make_unknown("k", script);
    p.on_b("--key k", script).end().code(122);
    p.b.write("said", "by hand\n");
    p.b.idem("resolve k --succeeded --stdout said")
        .end()
        .code(0);
    p.a.run("--key k", script).end().code(0).out("by hand\n");
    p.a.make_unknown("l", script);
    p.b.idem("resolve l --not-done").end().code(0);
    let log = p.a.idem("log l --json").end().code(0).out_text();
    assert!(log.contains("resolved"), "{log}");
    p.a.make_unknown("m", script);
    p.b.idem("resolve m --failed --exit-code 9").end().code(0);
    p.a.run("--key m", script).end().code(9);
    assert_eq!(p.a.lines("n"), 3);
    p.b.idem("resolve m --failed").end().code(125).one_line();
    let probing = [
        "run",
        "--key",
        "n",
        "--probe",
        "echo done; exit 0",
        "--",
        "sh",
        "-c",
        script,
    ];
    let probe = p.a.command(IDEM).args(probing);
    probe.end();
    let asked = p.b.command(IDEM).cwd(p.a.path("")).args(probing);
    asked.end().code(0).out("done\n");
    assert_eq!(p.a.lines("n"), 4);
}

#[test]
fn retries_are_counted_over_hosts() {
    let Some(p) = pair() else { return };
    let options = "--key k --retries 1 --retry-on any --backoff const:10ms";
    let script = "echo x >> n; echo no; exit 75";
    p.a.run(options, script).end().code(75);
    assert_eq!(p.a.lines("n"), 2);
    let script_ok = "echo x >> n; [ $(wc -l < n) -ge 4 ] && echo yes";
    p.on_b(
        "--key l --retries 5 --retry-on any --backoff const:10ms",
        script_ok,
    )
    .end()
    .code(0)
    .out("yes\n");
    assert_eq!(p.a.lines("n"), 4);
    let told = p.a.status("l");
    assert_eq!(told["attempts"].as_array().map(Vec::len), Some(2), "{told}");
    // The first attempt's output is on the server as well.
    p.a.idem("output k --attempt 1").end().code(75).out("no\n");
}

#[test]
fn a_proposal_of_one_host_is_approved_on_another() {
    let Some(p) = pair() else { return };
    let script = "echo x >> n; echo applied";
    let hold = |host: &TestEnv| {
        let run = host.idem("run --key k --hold --preview").arg("echo plan");
        run.args(["--", "sh", "-c", script]).cwd(p.a.path(""))
    };
    hold(&p.a).end().code(122);
    let shown = p.b.idem("status k").end().code(0).out_text();
    assert!(shown.contains("plan"), "{shown}");
    p.b.idem("approve k --yes --note fine").end().code(0);
    hold(&p.a).end().code(0).out("applied\n");
    hold(&p.b).end().code(0).out("applied\n");
    assert_eq!(p.a.lines("n"), 1);
    p.a.run("--key l --hold", script).end().code(122);
    p.b.idem("reject l --yes").end().code(0);
    p.a.run("--key l --hold", script).end().code(122);
    assert_eq!(p.a.lines("n"), 1);
}

#[test]
fn tasks_budgets_and_breakers_belong_to_all_hosts() {
    let Some(p) = pair() else { return };
    let fails = "echo x >> n; exit 9";
    p.a.idem("task open t --retries 2 --deadline 1h")
        .end()
        .code(0);
    let step = |name: &str| {
        format!("--task t --step {name} --retries 5 --retry-on any --backoff const:10ms")
    };
    p.a.run(&step("one"), fails).end().code(9);
    p.on_b(&step("two"), fails).end().code(9);
    assert_eq!(p.a.lines("n"), 4, "the task pays for two retries");
    let tree = p.b.idem("task show t").end().code(0).out_text();
    assert!(tree.contains("one") && tree.contains("two"), "{tree}");
    p.b.idem("task end t").end().code(0);
    p.a.run("--task t --step three", "true").end().code(123);

    let budget = |key: &str| {
        format!("--key {key} --retries 9 --retry-on any --backoff const:10ms --budget b=3/1h")
    };
    p.a.run(&budget("b1"), "echo x >> m; exit 9").end();
    p.on_b(&budget("b2"), "echo x >> m; exit 9").end();
    assert_eq!(p.a.lines("m"), 5, "two first attempts and three retries");

    let breaker =
        |key: &str| format!("--key {key} --breaker api:failures=2,cooldown=50s --retry-on any");
    p.a.run(&breaker("c1"), "exit 9").end().code(9);
    p.on_b(&breaker("c2"), "exit 9").end().code(9);
    p.a.run(&breaker("c3"), "exit 0").end().code(123);
    let shown = p.b.idem("breaker api").end().code(0).out_text();
    assert!(shown.contains("open"), "{shown}");
    p.b.idem("breaker api --reset").end().code(0);
    p.a.run(&breaker("c4"), "exit 0").end().code(0);
}

#[test]
fn a_bulkhead_is_of_all_hosts() {
    let Some(p) = pair() else { return };
    let script = format!("echo x >> n; {}; echo out", gate("go"));
    let first = p.a.run("--key k --bulkhead db=1", &script).start();
    p.a.upto_lines("n", 1);
    p.on_b("--key l --bulkhead db=1 --wait 0s", &script)
        .end()
        .code(123)
        .says("bulkhead");
    let next = p.on_b("--key l --bulkhead db=1", &script).start();
    next.upto_waiting();
    assert_eq!(p.a.lines("n"), 1);
    p.a.touch("go");
    first.end().code(0);
    next.end().code(0).out("out\n");
    assert_eq!(p.a.lines("n"), 2);
}

#[test]
fn batches_and_detached_work_are_known_everywhere() {
    let Some(p) = pair() else { return };
    let name = p.a.idem("batch nightly").end().code(0).out_text();
    assert_eq!(p.b.idem("batch nightly").end().code(0).out_text(), name);
    let rotated = p.b.idem("batch nightly --rotate").end().code(0).out_text();
    assert_ne!(rotated, name);
    assert_eq!(p.a.idem("batch nightly").end().code(0).out_text(), rotated);

    let script = format!("{}; echo x >> n; echo out; exit 4", gate("go"));
    p.a.run("--key k --detach", &script)
        .end()
        .code(0)
        .out("k\n");
    assert_eq!(p.b.state("k"), "running");
    let waiter = p.b.idem("wait k").start();
    p.b.idem("wait k --wait 0s").end().code(120);
    p.a.touch("go");
    waiter.end().code(4).out("out\n");
    assert_eq!(p.a.lines("n"), 1);
}

#[test]
fn housekeeping_and_counts_are_of_the_whole_fleet() {
    let Some(p) = pair() else { return };
    p.a.run("--key short --ttl 1s", "echo out").end().code(0);
    p.b.run("--key long", "echo out").end().code(0);
    for host in [&p.a, &p.b] {
        host.run("--key long", "echo out").end().code(0);
    }
    upto("the short one has expired", || {
        p.b.idem("gc").end().code(0);
        p.a.state("short") == "none"
    });
    assert_eq!(p.a.state("long"), "succeeded");
    for host in [&p.a, &p.b] {
        host.idem("gc --json").end().code(0).json();
    }
    let stats = p.a.idem("stats --json").end().code(0).json();
    let scopes = stats.to_string();
    assert!(scopes.contains("fleet"), "{scopes}");
    let stats = p.b.idem("stats").end().code(0).out_text();
    assert!(stats.contains("execution"), "{stats}");
}

#[test]
fn a_scope_is_needed() {
    let Some(p) = pair() else { return };
    let call = || p.a.run("--key k", "echo x >> n").unset("IDEM_SCOPE");
    call().end().code(125).one_line().says("--scope");
    p.a.idem("status k")
        .unset("IDEM_SCOPE")
        .end()
        .code(125)
        .one_line();
    assert_eq!(p.a.lines("n"), 0);
    call().env("IDEM_SCOPE", "s").end().code(0);
    // A look at everything needs none.
    let listed = p.b.idem("status --json").unset("IDEM_SCOPE").end();
    assert!(listed.code(0).out_text().contains("\"k\""), "{listed}");
}

#[test]
fn a_dry_run_and_the_key_write_nothing() {
    let Some(p) = pair() else { return };
    let told = p.a.run("--key k-{user} --dry-run", "echo x >> n").end();
    told.code(0);
    assert_eq!(p.a.lines("n"), 0);
    assert_eq!(text(&p.a.idem("status --json").end().json()), "[]");
    p.a.idem("explain curl").end().code(0);
}
