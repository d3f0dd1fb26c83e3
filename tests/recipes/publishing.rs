//! What is published or applied elsewhere: stand-ins with the tools' exit codes and texts.

use crate::command::Cmd;
use crate::env::text;
use crate::procs;
use crate::world::{GATE, World};

/// Answers as the registry is said to be in the file `mode`.
const NPM: &str = r#"
mode=$(cat mode)
case $1 in
publish)
    echo "$*" >>n
    if test "$mode" = nobody; then echo 'npm error code ENEEDAUTH' >&2; exit 1; fi
    test "$mode" = before || touch there
    echo 'npm error code E503' >&2
    echo 'npm error 503 Service Unavailable - PUT https://registry.example/tool' >&2
    exit 1 ;;
view)
    if test "$mode" = down; then echo 'npm error code ECONNREFUSED' >&2; exit 1; fi
    if test -e there; then echo 1.2.3; exit; fi
    echo 'npm error code E404' >&2
    echo 'npm error 404 No match found for version 1.2.3' >&2
    exit 1 ;;
esac"#;

fn npm(mode: &str) -> World {
    let w = World::new();
    w.tool("npm", NPM);
    w.t.write("mode", mode);
    w
}

fn publish(w: &World) -> Cmd {
    let recipe = w.recipe("npm-publish");
    recipe.env("PACKAGE", "tool").env("VERSION", "1.2.3")
}

#[test]
fn npm_answers_503_and_has_published() {
    let w = npm("after");
    publish(&w).end().code(0).out("1.2.3\n");
    publish(&w).end().code(0).out("1.2.3\n");
    assert_eq!(w.t.read("n"), "publish --fetch-retries=0\n");
}

#[test]
fn npm_answers_503_and_has_not_published() {
    let w = npm("before");
    publish(&w).end().code(1).says("E503");
    w.t.write("mode", "after");
    publish(&w).end().code(0).out("1.2.3\n");
    assert_eq!(w.t.lines("n"), 2);
}

#[test]
fn npm_cannot_ask_and_does_not_guess() {
    let w = npm("down");
    publish(&w).end().code(1).says("unknown");
    publish(&w).end().code(122);
    w.t.write("mode", "after");
    publish(&w).end().code(0).out("1.2.3\n");
    assert_eq!(w.t.lines("n"), 1);
}

#[test]
fn npm_refuses_who_is_not_logged_in_and_not_for_ever() {
    let w = npm("nobody");
    publish(&w).end().code(1).says("ENEEDAUTH");
    let status = w.t.status("npm-tool-1.2.3");
    assert_eq!(text(&status["state"]), "failed", "{status}");
    let moment = |name: &str| -> jiff::Timestamp {
        let moment = text(&status[name]);
        moment.parse().unwrap_or_else(|e| panic!("{moment}: {e}"))
    };
    let kept = moment("settled_at").until(moment("expires_at")).unwrap();
    assert_eq!(kept.get_seconds(), 600, "{status}");
    // Logged in, and not willing to wait for that.
    w.t.write("mode", "after");
    publish(&w).end().code(1).says("--if-failed rerun");
    w.t.idem("forget npm-tool-1.2.3").end().code(0);
    publish(&w).end().code(0).out("1.2.3\n");
    assert_eq!(w.t.lines("n"), 2);
}

/// A release whose state is in the files `status` and `description`.
const HELM: &str = r#"
case $1 in
history)
    printf '[{"revision":3,"updated":"2026-01-02T03:04:05Z","status":"%s","chart":"app-1.0.0","app_version":"1","description":"%s"}]\n' \
        "$(cat status)" "$(cat description)" ;;
rollback)
    echo "$*" >>rolled
    echo deployed >status; echo 'Rollback to 2' >description
    echo 'Rollback was a success! Happy Helming!' ;;
upgrade)
    case $(cat status) in pending-*)
        echo 'Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress' >&2
        exit 1 ;;
    esac
    echo pending-upgrade >status; echo 'Preparing upgrade' >description
    echo "$*" >>n
    GATE
    for last; do :; done
    echo "$last" >description; echo deployed >status
    echo 'Release "app" has been upgraded. Happy Helming!' ;;
esac"#;

/// An upgrade that is interrupted while it is pending.
fn helm_interrupted(meanwhile: impl FnOnce(&World)) -> World {
    let w = World::new();
    w.tool("helm", &HELM.replace("GATE", GATE));
    w.t.write("status", "deployed");
    w.t.write("description", "commit beef");
    let first = upgrade(&w).own_group().start();
    w.t.upto_lines("n", 1);
    meanwhile(&w);
    procs::signal_group(first.pid(), libc::SIGTERM);
    first.end().died_of(libc::SIGTERM);
    w
}

fn upgrade(w: &World) -> Cmd {
    let recipe = w.recipe("helm-upgrade");
    recipe.env("RELEASE", "app").env("COMMIT", "c0ffee")
}

#[test]
fn a_pending_helm_upgrade_is_rolled_back_and_done_again() {
    let w = helm_interrupted(|_| ());
    w.t.touch("go");
    upgrade(&w).end().code(0).out(UPGRADED);
    upgrade(&w).end().code(0).out(UPGRADED);
    assert_eq!((w.t.lines("n"), w.t.lines("rolled")), (2, 1));
}

#[test]
fn a_helm_upgrade_of_another_commit_is_not_rolled_back() {
    let w = World::new();
    w.tool("helm", &HELM.replace("GATE", GATE));
    w.t.write("status", "deployed");
    w.t.write("description", "commit beef");
    let first = upgrade(&w).start();
    w.t.upto_lines("n", 1);
    // It may be alive, and here it is.
    let other = || upgrade(&w).env("COMMIT", "beef02").end();
    other().code(1).says("is in progress");
    w.t.touch("go");
    first.end().code(0).out(UPGRADED);
    other().code(0).out(UPGRADED);
    assert_eq!((w.t.lines("n"), w.t.lines("rolled")), (2, 0));
}

const UPGRADED: &str = "Release \"app\" has been upgraded. Happy Helming!\n";

#[test]
fn a_helm_upgrade_that_was_done_is_left_alone() {
    let w = helm_interrupted(|w| {
        w.t.write("description", "commit c0ffee");
        w.t.write("status", "deployed");
    });
    let done = upgrade(&w).end();
    assert!(done.code(0).out_text().contains("commit c0ffee"), "{done}");
    assert_eq!((w.t.lines("n"), w.t.lines("rolled")), (1, 0));
}

/// A state with a lock, whose holder is in the file `who`.
const TERRAFORM: &str = r#"
locked() {
    printf 'Error: Error acquiring the state lock\n\nLock Info:\n  ID:        %s\n  Path:      terraform.tfstate\n' "$(cat lock)" >&2
    printf '  Operation: OperationTypeApply\n  Who:       %s\n  Version:   1.9.0\n' "$(cat who)" >&2
    exit 1
}
case "$*" in
plan*-lock=false*) if test -e applied; then exit 0; else echo '1 to add'; exit 2; fi ;;
plan*) test ! -e lock || locked ;;
apply*)
    test ! -e lock || locked
    echo 5b2c-77 >lock
    test -e who || echo "$(id -un)@$(hostname)" >who
    echo x >>n
    GATE
    touch applied; rm lock
    echo 'Apply complete!' ;;
force-unlock*) echo "$*" >>unlocked; rm lock ;;
esac"#;

/// An apply that was killed while it held the lock.
fn terraform_killed(who: Option<&str>) -> World {
    let w = World::new();
    w.tool("terraform", &TERRAFORM.replace("GATE", GATE));
    if let Some(who) = who {
        w.t.write("who", format!("{who}\n"));
    }
    let first = terraform(&w).start();
    w.t.upto_lines("n", 1);
    procs::signal(w.t.child("terraform-c0ffee"), libc::SIGKILL);
    first.end().code(137);
    w
}

fn terraform(w: &World) -> Cmd {
    w.recipe("terraform-apply").env("COMMIT", "c0ffee")
}

#[test]
fn a_lock_that_a_killed_apply_has_left_is_taken_away() {
    let w = terraform_killed(None);
    w.t.touch("go");
    terraform(&w).end().code(0).out("Apply complete!\n");
    terraform(&w).end().code(0).out("Apply complete!\n");
    assert_eq!(w.t.lines("n"), 2);
    assert_eq!(w.t.read("unlocked"), "force-unlock -force 5b2c-77\n");
}

#[test]
fn a_lock_of_somebody_else_stays() {
    let w = terraform_killed(Some("somebody@elsewhere"));
    w.t.touch("go");
    let done = terraform(&w).end();
    assert_ne!(done.code, 0, "{done}");
    assert_eq!((w.t.lines("n"), w.t.lines("unlocked")), (1, 0));
    assert!(w.t.path("lock").exists());
}

/// A server whose answer to an apply gets lost, and that has applied it if the file `mode` says so.
const KUBECTL: &str = r#"
case $1 in
apply)
    echo x >>n
    test "$(cat mode)" = before || cp app.yaml applied
    echo 'Error from server (Timeout): error when applying patch: Timeout: request did not complete within requested timeout' >&2
    exit 1 ;;
diff)
    if test "$(cat mode)" = down; then
        echo 'The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?' >&2
        exit 1
    fi
    if cmp -s app.yaml applied; then exit 0; fi
    echo '+kind: Deployment'; exit 1 ;;
esac"#;

fn kubectl(mode: &str) -> World {
    let w = World::new();
    w.tool("kubectl", KUBECTL);
    w.t.write("app.yaml", "kind: Deployment\n");
    w.t.write("mode", mode);
    w
}

fn apply(w: &World) -> Cmd {
    w.recipe("kubectl-apply")
}

#[test]
fn kubectl_times_out_and_has_applied() {
    let w = kubectl("after");
    apply(&w).end().code(0);
    apply(&w).end().code(0);
    assert_eq!(w.t.lines("n"), 1);
    w.t.write("app.yaml", "kind: Job\n");
    apply(&w).end().code(0);
    assert_eq!(w.t.lines("n"), 2);
}

#[test]
fn kubectl_times_out_and_has_not_applied() {
    let w = kubectl("before");
    apply(&w).end().code(1).says("(Timeout)");
    w.t.write("mode", "after");
    apply(&w).end().code(0);
    assert_eq!(w.t.lines("n"), 2);
}

#[test]
fn kubectl_cannot_ask_and_does_not_guess() {
    let w = kubectl("down");
    apply(&w).end().code(1).says("unknown");
    apply(&w).end().code(122);
    assert_eq!(w.t.lines("n"), 1);
}
