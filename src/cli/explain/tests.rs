use super::super::layers::Layers;
use super::super::parse::{Typed, parse};
use super::super::render::fixtures::{now, running, succeeded, view};
use super::super::settings::{self, Surroundings};
use super::*;
use crate::domain::decision::Why;
use crate::domain::facts::fake::FakeFacts;
use crate::domain::name::{Generation, Nonce};
use crate::domain::owner::{Liveness, ProcessRef};
use crate::engine::environment::Ancestor;
use crate::policy::classify::Classifier;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

const S: Duration = Duration::from_secs(1);

/// The explanation of a command line, changed, as a page and as an object.
fn explained(line: &str, change: impl FnOnce(&mut Explanation<'_>)) -> (String, serde_json::Value) {
    explained_below(line, Vec::new(), change)
}

fn explained_below(
    line: &str,
    ancestry: Vec<Ancestor>,
    change: impl FnOnce(&mut Explanation<'_>),
) -> (String, serde_json::Value) {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let Ok(Typed::Verb { words, .. }) = parse(&words) else {
        panic!("not a verb: {line}");
    };
    let env = |_: &str| None;
    let layers = Layers::read(&words, &env).unwrap();
    let around = Surroundings {
        env: &env,
        now: now(),
        monotonic: 100 * S,
        ancestry,
        cwd: b"/srv/app".to_vec(),
    };
    let mut facts = FakeFacts::default();
    let named = settings::named(&layers, &around, &mut facts).unwrap();
    let fingerprint = settings::fingerprint(&layers, &around, &mut facts).unwrap();
    let plan = settings::plan(&layers, &around, &named, fingerprint).unwrap();
    let argv: Vec<Vec<u8>> = plan
        .running
        .argv
        .iter()
        .map(|a| a.as_bytes().to_vec())
        .collect();
    let classifier = Classifier::choose(plan.retry.classifier, &argv);
    let mut explanation = Explanation {
        plan: &plan,
        named: &named,
        key_from: "from --key".into(),
        given: layers.origins(),
        store: "/srv/idem.db".into(),
        store_exists: false,
        found: None,
        previous_runs: false,
        decision: Decision::Execute(Why::New),
        classifier: classifier.map(|c| c.tool()),
        guards: Vec::new(),
        task_retries_left: None,
        deadline_left: plan
            .limits
            .deadline
            .map(|at| at.saturating_sub(around.monotonic)),
        now: around.now.clone(),
    };
    change(&mut explanation);
    (page(&explanation), object(&explanation))
}

fn text(line: &str) -> String {
    explained(line, |_| {}).0
}

fn has(page: &str, wanted: &str) {
    assert!(page.contains(wanted), "{wanted} is not in\n{page}");
}

#[test]
fn what_was_given_is_shown_with_its_layer() {
    let (page, object) = explained("run --key k --ttl 1h -q -- true", |_| {});
    has(&page, "options     key = k (option)\n");
    has(
        &page,
        "            ttl = 1h (option)\n            quiet = true (option)\n",
    );
    let wanted = serde_json::json!({"option": "ttl", "value": "1h", "origin": "option"});
    assert_eq!(object["options"][1], wanted);
}

#[test]
fn a_first_call_is_explained() {
    let page = text("run --key k --ttl 1h -- true");
    has(&page, "key         k (from --key)\n");
    has(&page, "store       /srv/idem.db (not there yet)\n");
    has(&page, "record      none\n");
    has(
        &page,
        "would       execute the command\nbecause     there is no record\n",
    );
    has(&page, "executions  1 at most\n");
    has(&page, "kept        a success 1h, a final failure 1h\n");
    has(&page, "classifier  none");
    has(&page, "what is the key? k, from --key\n");
    has(
        &page,
        "where is the state? /srv/idem.db, which the first execution makes\n",
    );
    has(
        &page,
        "what happens after a timeout? there is no time limit",
    );
    assert!(!page.contains("warning"));
}

#[test]
fn every_decision_has_its_words() {
    let refusal = Decision::Refuse(Refusal::Unknown);
    for (decision, word, wanted) in [
        (Decision::Execute(Why::Expired), "execute", "has expired"),
        (
            Decision::Ask(Why::UnknownRerun),
            "ask_probe",
            "ask the probe",
        ),
        (Decision::Propose, "propose", "approve"),
        (Decision::Replay, "replay", "stored result (exit 0)"),
        (Decision::ReplayFailure, "replay", "--if-failed rerun"),
        (
            Decision::Wait(Generation(3)),
            "wait",
            "wait for the execution",
        ),
        (Decision::WaitForApproval, "wait_for_approval", "approval"),
        (Decision::Skip, "skip", "skip: end with 0"),
        (refusal, "refuse", "refuse (exit 122)"),
    ] {
        let (page, object) = explained("run --key k -- true", |e| {
            e.decision = decision;
            e.found = Some(view(succeeded(), Liveness::Gone));
        });
        assert_eq!(object["decision"]["would"], word);
        has(&page, wanted);
    }
}

#[test]
fn the_record_found_is_told_with_its_age_and_end() {
    let (page, object) = explained("run --key k -- true", |e| {
        e.store_exists = true;
        e.found = Some(view(succeeded(), Liveness::Gone));
        e.decision = Decision::Replay;
    });
    has(
        &page,
        "record      succeeded (exit 0) for 1h: it returned 0; it expires in 23h\n",
    );
    has(&page, "executions  0 at most\n");
    has(&page, "see it with `idem status k`");
    assert_eq!(object["record"]["state"], "succeeded");
    let (page, _) = explained("run --key k -- true", |e| {
        e.found = Some(view(running(), Liveness::Gone));
    });
    has(&page, "record      unknown for ");
    has(&page, "it never expires");
}

#[test]
fn the_schedule_has_its_bounds() {
    let line = "run --key k --retries 3 --backoff exp:1s..60s --jitter full -- true";
    let (page, object) = explained(line, |_| {});
    has(&page, "executions  4 at most\n");
    has(
        &page,
        "pauses      0ms to 1s, 0ms to 2s, 0ms to 4s; 0ms to 7s together\n",
    );
    assert_eq!(object["most_executions"], 4);
    assert_eq!(object["retry"]["longest_ms"], 7000);
    assert_eq!(object["retry"]["pauses"][1]["longest_ms"], 2000);
    let page = text("run --key k --retries 4000000000 --backoff const:1s --jitter none -- true");
    has(&page, "executions  4000000001 at most\n");
    has(&page, "1s, …; 46296d 7h together");
    let (page, _) = explained(line, |e| e.task_retries_left = Some(1));
    has(&page, "executions  2 at most\n");
}

#[test]
fn what_does_not_fit_together_is_warned_about() {
    let page = text("run --key k --ttl 3s --retries 2 --backoff const:2s --jitter none -- true");
    has(
        &page,
        "warning: a result is kept for 3s, and the retries of one call can last 4s",
    );
    let page = text("run --key k --ttl 4s --retries 2 --backoff const:2s --jitter none -- true");
    assert!(!page.contains("warning"));
    let page = text("run --key k --ttl 1m --retries 2 --timeout 30s --kill-after 0s -- true");
    has(&page, "can last 1m 33s");
    let page = text("run --key k --retries 2 --timeout 30s --deadline 89s -- true");
    has(
        &page,
        "warning: 3 attempts of 30s each take 1m 30s, and the deadline leaves 1m 29s",
    );
    let page = text("run --key k --retries 2 --timeout 30s --deadline 90s -- true");
    assert!(!page.contains("warning"));
}

#[test]
fn below_another_idem_the_outer_one_retries() {
    let ancestor = Ancestor {
        nonce: Nonce([1; 16]),
        keeper: ProcessRef {
            pid: 1,
            start_ticks: 1,
        },
    };
    let below = |line: &str| explained_below(line, vec![ancestor], |_| {}).0;
    let page = below("run --key k --retries 3 -- true");
    has(&page, "executions  1 at most\n");
    has(&page, "--retry-layer");
    let page = below("run --key k --retries 3 --retry-layer -- true");
    has(&page, "executions  4 at most\n");
}

#[test]
fn what_follows_a_timeout_depends_on_who_can_tell() {
    let after = |options: &str| {
        let line = format!("run --key k --timeout 10s {options} -- true");
        let page = text(&line);
        let (_, answer) = page.split_once("timeout? ").unwrap();
        answer.lines().next().unwrap().to_owned()
    };
    has(
        &after(""),
        "after 10s the command gets SIGTERM, 10s later SIGKILL",
    );
    has(&after(""), "122 until a person says");
    has(
        &after("--if-unknown rerun"),
        "a later call like this one runs it again",
    );
    has(
        &after("--idempotent"),
        "a later call runs it again, since that is declared",
    );
    has(&after("--idempotent --retries 2"), "it is run again, since");
    has(
        &after("--retry-on timeout --retries 2"),
        "it is run again, since",
    );
    has(
        &after("--retry-on any --retries 2"),
        "122 until a person says",
    );
    has(
        &after("--probe ask"),
        "after a no a later call runs it again, and if it cannot tell, it stays unknown",
    );
    has(
        &after("--probe ask --retries 1"),
        "after a no it is run again",
    );
    has(
        &text("run --key k --deadline 20s -- true"),
        "when the deadline passes, in 20s, the command gets",
    );
}

#[test]
fn guards_and_the_previous_period_stand_in_the_way() {
    let guard = GuardView {
        kind: "breaker",
        name: "api".into(),
        stands: "is open for another 20s".into(),
        refuses: true,
    };
    let (page, object) = explained("run --key k --per day --if-running refuse -- true", |e| {
        e.guards = vec![guard.clone()];
        e.previous_runs = true;
    });
    has(
        &page,
        "first       k@2026-11-29 of the previous period is still running, so the call is refused",
    );
    has(
        &page,
        "but         breaker api would refuse it (exit 123)\n",
    );
    has(&page, "breaker     api is open for another 20s\n");
    assert_eq!(object["decision"]["refused_by"][0], "breaker");
    let (page, _) = explained("run --key k -- true", |e| {
        e.guards = vec![guard];
        e.decision = Decision::Replay;
        e.found = Some(view(succeeded(), Liveness::Gone));
    });
    assert!(!page.contains("would refuse"), "a replay passes no guard");
}

#[test]
fn rows_that_no_test_has_run_are_marked() {
    let (page, object) = explained("run --key k -- terraform apply", |_| {});
    has(&page, "classifier  terraform (");
    has(&page, " [unverified]\n");
    assert_eq!(object["classifier"]["tool"], "terraform");
    assert_eq!(object["classifier"]["rows"][0]["verified"], false);
}
