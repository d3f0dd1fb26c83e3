//! Agents that give up, ask again, and are told what to do.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::env::{gate, text, tool_or_leave, upto};
use crate::readme::{recipe, table};
use crate::world::{GATE, World};

/// A harness whose limit is far below what the tool takes gets its result all the same.
fn asks_again(file: &str) {
    let (module, _) = file.split_once('.').expect("a module's file");
    if !tool_or_leave("python3") {
        return;
    }
    let w = World::new();
    w.tool(
        "slow",
        &format!("echo \"$1\" >>n; {GATE}; echo \"found $1\""),
    );
    w.t.write(file, recipe(file));
    let program =
        format!("import json, {module}; print(json.dumps({module}.tool('k', 'slow', 'it')))");
    let agent = w.command("python3").args(["-c", &program]);
    let agent = agent.env("TOOL_LIMIT_S", "2").start();
    w.t.upto_lines("n", 1);
    upto("it gives up, twice", || {
        agent.err_so_far().lines().count() >= 2
    });
    w.t.touch("go");
    let done = agent.end();
    let answer = done.code(0).json();
    assert_eq!(text(&answer["stdout"]), "found it\n", "{done}");
    assert_eq!(text(&answer["next"]), "done", "{done}");
    assert_ne!(text(&answer["decision"]), "executed", "{done}");
    assert_eq!(w.t.read("n"), "it\n");
}

#[test]
fn a_tool_that_is_killed_and_called_again_runs_once() {
    asks_again("agent.py");
}

#[test]
fn a_group_that_is_killed_and_started_again_runs_once() {
    asks_again("agent_group.py");
}

/// `next` of what `idem run --json` prints.
#[track_caller]
fn next_of(w: &World, options: &str, script: &str, code: i32) -> String {
    let run = w.t.run(&format!("--json {options}"), script).end();
    text(&run.code(code).json()["next"])
}

#[test]
fn the_table_for_agents_has_every_next_that_there_is() {
    let w = World::new();
    let mut seen = BTreeSet::new();
    seen.insert(next_of(&w, "--key ok", "true", 0));
    seen.insert(next_of(&w, "--key ok", "false", 121));
    w.t.make_unknown("lost", "kill -9 $$");
    seen.insert(next_of(&w, "--key lost", "kill -9 $$", 122));
    w.t.idem("run --key b --breaker api -- true").end().code(0);
    w.t.idem("breaker api --trip").end().code(0);
    seen.insert(next_of(&w, "--key c --breaker api", "true", 123));
    let script = format!("echo x >>n; {}", gate("go"));
    let running = w.t.run("--key busy", &script).start();
    w.t.upto_lines("n", 1);
    seen.insert(next_of(&w, "--key busy --if-running refuse", &script, 120));
    w.t.touch("go");
    running.end().code(0);
    let told: BTreeSet<String> = table("| `next` | an agent should |").into_iter().collect();
    assert_eq!(seen, told);
    assert_eq!(told.len(), 5);
}

#[test]
fn a_long_job_is_started_by_one_call_and_asked_for_by_others() {
    let w = World::new();
    w.tool("train", &format!("echo \"$1\" >>n; {GATE}; echo 0.93"));
    let start = || w.recipe("detach-start").env("RUN", "7").end();
    let wait = |limit: &str| {
        let wait = w.recipe("detach-wait").env("RUN", "7");
        wait.env("LIMIT", limit).end()
    };
    start().code(0).out("train-7\n").err("");
    start().code(0).out("train-7\n").err("");
    assert_eq!(text(&wait("1s").code(120).json()["next"]), "wait");
    w.t.touch("go");
    let answer = wait("50s").code(0).json();
    assert_eq!(text(&answer["stdout"]), "0.93\n");
    assert_eq!(text(&answer["next"]), "done");
    assert_eq!(w.t.read("n"), "7\n");
}

/// The objects that a script has printed, one a line, before anything else.
fn objects(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines.flat_map(serde_json::from_str::<Value>).collect()
}

#[test]
fn a_run_of_many_tools_has_one_budget_and_one_deadline() {
    let w = World::new();
    w.tool(
        "search",
        "echo \"$1\" >>searched; echo \"$IDEM_DEADLINE\" >>deadlines; exit 7",
    );
    w.tool("order", "echo \"$1\" >>ordered; echo ordered");
    let run = || w.recipe("task").env("TASK", "shopping").end();
    let first = run();
    let answers = objects(&first.code(0).out_text());
    let keys: Vec<String> = answers.iter().map(|a| text(&a["key"])).collect();
    let wanted = [
        "shopping/search/shoes",
        "shopping/search/boots",
        "shopping/order",
    ];
    assert_eq!(keys, wanted, "{first}");
    assert_eq!(w.t.lines("searched"), 5, "three retries for both: {first}");
    let deadlines: BTreeSet<String> = w.t.words("deadlines").split(' ').map(Into::into).collect();
    let known = deadlines.iter().all(|at| at.parse::<u64>().is_ok());
    assert!(known, "{deadlines:?}");
    let again = run();
    assert!(again.code(0).out_text().contains("order"), "{again}");
    assert_eq!((w.t.lines("searched"), w.t.lines("ordered")), (7, 1));
}

#[test]
fn what_is_held_runs_once_it_is_approved() {
    let w = World::new();
    w.tool(
        "terraform",
        "echo \"$1\" >>n; case $1 in plan) echo '1 to add' ;; apply) echo applied ;; esac",
    );
    let done = w.recipe("hold").end();
    done.code(0).says("approve");
    assert!(done.out_text().ends_with("applied\n"), "{done}");
    assert_eq!(w.t.words("n"), "plan apply");
}
