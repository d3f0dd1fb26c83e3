//! Passwords are seen by nobody.

use crate::command::Done;
use crate::env::{IDEM, TestEnv, gate};
use crate::host::{Fleet, PASSWORD, STRANGER};
use crate::procs;
use crate::servers::tools;

fn url(fleet: &Fleet, password: &str) -> String {
    let user = format!("{STRANGER}:{password}");
    fleet.cluster.url_as(&user, &fleet.database)
}

#[track_caller]
fn keeps_quiet(done: &Done) {
    let said = format!("{}{}", done.out_text(), done.err_text());
    assert!(!said.contains(PASSWORD), "{done}");
}

/// The command lines of all processes on this machine that have the text.
fn shown(text: &str) -> Vec<String> {
    let lines = procs::all().into_iter().map(procs::command_line);
    lines.filter(|line| line.contains(text)).collect()
}

#[test]
fn a_password_that_was_typed_is_hidden_from_ps() {
    let Some(fleet) = Fleet::new() else { return };
    let host = fleet.host();
    let typed = url(&fleet, PASSWORD);
    let forms = [
        vec!["--store".to_owned(), typed.clone()],
        vec![format!("--store={typed}")],
    ];
    for (n, form) in forms.iter().enumerate() {
        let key = format!("hidden-{}-{n}", fleet.database);
        let script = format!("echo x >> n; {}; echo out", gate(&key));
        let call = host.command(IDEM).args(["run", "--key", &key]).args(form);
        let running = call.args(["--", "sh", "-c", &script]).start();
        host.upto_lines("n", n + 1);
        let mine: Vec<String> = shown(&key)
            .into_iter()
            .filter(|line| line.contains("idem run"))
            .collect();
        assert!(mine.len() >= 2, "the front and its keeper: {mine:?}");
        for line in mine {
            assert!(line.contains("postgres://stranger:******"), "{line}");
            assert!(!line.contains(PASSWORD), "{line}");
        }
        host.touch(&key);
        running.end().code(0).out("out\n");
    }
}

#[test]
fn no_verb_tells_a_password_and_the_store_has_none() {
    let Some(fleet) = Fleet::new() else { return };
    let host = fleet.host();
    let store = url(&fleet, PASSWORD);
    let idem = |args: &str| host.idem(args).env("IDEM_STORE", &store).end();
    let run = host.run("--key k -v", "echo x >> n; echo out");
    keeps_quiet(run.env("IDEM_STORE", &store).end().code(0));
    for args in [
        "status",
        "status --json",
        "status k",
        "status k --json",
        "log",
        "log --json",
        "log k",
        "output k",
        "wait k",
        "export",
        "stats",
        "stats --json",
        "doctor",
        "doctor --json",
        "gc",
        "sync",
        "init",
        "init --print-sql",
        "breaker",
        "run --key k -v --dry-run -- true",
        "run --key z --dry-run --json -- true",
        "run --key k -- other",
        "forget k",
    ] {
        keeps_quiet(&idem(args));
    }
    let wrong = "not-the-password-1";
    let refused = host
        .idem("status")
        .env("IDEM_STORE", url(&fleet, wrong))
        .end();
    refused.code(125).one_line();
    assert!(!refused.err_text().contains(wrong), "{refused}");
    // What cannot be understood is not quoted either.
    for broken in [
        "postgres://u:PW@h:x/d",
        "postgres://u:PW@@h/d",
        "postgres://u:PW@h/d?nosuch=1",
    ] {
        let broken = broken.replace("PW", PASSWORD);
        keeps_quiet(
            host.idem("status")
                .env("IDEM_STORE", &broken)
                .end()
                .code(125),
        );
        keeps_quiet(
            host.idem("doctor")
                .args(["--store", &broken])
                .end()
                .code(125),
        );
    }
    let dump = tools::path("initdb").with_file_name("pg_dump");
    let dumped = host
        .command(dump)
        .arg(format!("--dbname={}", fleet.url()))
        .end();
    dumped.code(0);
    keeps_quiet(&dumped);
    assert!(dumped.out_text().contains("succeeded"));
    no_file_has_it(&host);
}

/// Neither has any file of the host.
fn no_file_has_it(host: &TestEnv) {
    let found = host
        .command("grep")
        .args(["-rl", PASSWORD])
        .arg(host.root());
    found.end().code(1).out("");
}

#[test]
fn a_passfile_is_enough() {
    let Some(fleet) = Fleet::new() else { return };
    let host = fleet.host();
    let line = format!("127.0.0.1:*:*:{STRANGER}:{PASSWORD}\n");
    std::fs::write(host.home().join(".pgpass"), line).unwrap();
    let mode = host
        .command("chmod")
        .arg("600")
        .arg(host.home().join(".pgpass"));
    mode.end().code(0);
    let store = fleet.cluster.url_as(STRANGER, &fleet.database);
    let run = host.run("--key k", "echo out").env("IDEM_STORE", &store);
    run.end().code(0).out("out\n");
}
