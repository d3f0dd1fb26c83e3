//! Recording what the child says while passing it on.

use std::process::Stdio;

use crate::env::{IDEM, TestEnv, gate, upto};
use crate::procs;

/// The most resident memory that idem may use for any output, in KiB.
const PEAK_KIB: u64 = 16 * 1024;

#[test]
fn output_is_live_while_it_is_recorded() {
    let t = TestEnv::new();
    let script = format!("echo first; printf half; {}; echo last", gate("go"));
    let run = t.run("--key k", &script).start();
    upto("the first line and the half one", || {
        run.out_so_far() == "first\nhalf"
    });
    t.touch("go");
    run.end().code(0).out("first\nhalflast\n");
    t.run("--key k", &script)
        .end()
        .code(0)
        .out("first\nhalflast\n");
}

#[test]
fn the_order_of_the_streams_is_kept() {
    let t = TestEnv::new();
    let mut script = String::new();
    let mut wanted = String::new();
    for i in 1..=5 {
        script += &format!(
            "echo o{i}; {}; echo e{i} >&2; {}; ",
            gate(&format!("go-o{i}")),
            gate(&format!("go-e{i}"))
        );
        wanted += &format!("o{i}\ne{i}\n");
    }
    let run = t.run("--key k", &script).both_to(&t.path("live")).start();
    for i in 1..=5 {
        for stream in ["o", "e"] {
            upto("the next line", || {
                t.read("live").ends_with(&format!("{stream}{i}\n"))
            });
            t.touch(&format!("go-{stream}{i}"));
        }
    }
    run.end().code(0);
    assert_eq!(t.read("live"), wanted);
    t.run("--key k", &script)
        .both_to(&t.path("replayed"))
        .end()
        .code(0);
    assert_eq!(t.read("replayed"), wanted);
}

#[test]
fn order_is_kept_in_a_result_that_is_too_big_for_a_row() {
    let t = TestEnv::new();
    let block = "yes o | head -c 30000; ";
    let script = format!(
        "{block}{}; yes e | head -c 30000 >&2; {}; echo end",
        gate("one"),
        gate("two")
    );
    let size = || std::fs::metadata(t.path("live")).map_or(0, |m| m.len());
    let run = t.run("--key k", &script).both_to(&t.path("live")).start();
    upto("the first block", || size() == 30_000);
    t.touch("one");
    upto("the second block", || size() == 60_000);
    t.touch("two");
    run.end().code(0);
    t.run("--key k", &script)
        .both_to(&t.path("again"))
        .end()
        .code(0);
    assert!(t.read("again") == t.read("live"), "another order");
}

#[test]
fn an_output_over_the_limit_goes_on_live_and_is_cut_in_the_record() {
    let t = TestEnv::new();
    let script = "head -c 40000000 /dev/zero; echo err >&2";
    let options = "--key k --max-output 1MiB";
    let first = t.run(options, script).end();
    assert_eq!(first.code(0).stdout.len(), 40_000_000);
    first.says("err\n").says("idem: ");
    let again = t.run(options, script).end();
    assert!(
        again.code(0).stdout.len() <= 1 << 20,
        "{} bytes",
        again.stdout.len()
    );
    again.says("idem: ").says("--max-output");
    let status = t.status("k");
    assert_eq!(status["truncated"], true);
    let output = t.idem("output k").end();
    output.code(0).says("--max-output");
}

#[test]
fn an_output_of_exactly_the_limit_is_whole() {
    let t = TestEnv::new();
    for (size, cut) in [(9_999, false), (10_000, false), (10_001, true)] {
        let options = format!("--key k{size} --max-output 10000B");
        let script = format!("yes | head -c {size}");
        let first = t.run(&options, &script).end();
        assert_eq!(first.code(0).stdout.len(), size);
        assert_eq!(t.status(&format!("k{size}"))["truncated"], cut);
        let again = t.run(&options, &script).end();
        assert_eq!(again.code(0).stdout == first.stdout, !cut);
        assert_eq!(first.stderr.is_empty(), !cut, "{first}");
        assert_eq!(again.stderr.is_empty(), !cut, "{again}");
    }
}

#[test]
fn a_later_failure_is_seen_though_the_output_was_cut() {
    let t = TestEnv::new();
    let script = "yes | head -c 300000; exit 6";
    for _ in 0..2 {
        t.run("--key k --max-output 1KiB", script)
            .end()
            .code(6)
            .says("--max-output");
    }
}

#[test]
fn memory_stays_small_whatever_comes_out() {
    let t = TestEnv::new();
    let script = format!("head -c 300000000 /dev/zero; echo x >> n; {}", gate("go"));
    let run = t
        .run("--key k --max-output 400MB", &script)
        .stdout(Stdio::null())
        .start();
    t.upto_lines("n", 1);
    let peaks = [procs::peak_kib(t.keeper("k")), procs::peak_kib(run.pid())];
    assert!(
        peaks.iter().all(|p| (1..PEAK_KIB).contains(p)),
        "{peaks:?} KiB"
    );
    t.touch("go");
    run.end().code(0);
    // A reader that measures before it takes the last byte: the replay is still there then.
    let reader = r#"idem run --key k --max-output 400MB -- sh -c "$(cat script)" > >(
        head -c 299000000 >/dev/null; grep VmHWM /proc/$(cat front)/status > peak; wc -c > rest) &
        echo $! > front; wait $!; upto test -s rest"#;
    t.write("script", &script);
    t.bash(reader).end().code(0);
    assert_eq!(t.read("rest").trim(), "1000000");
    let peak: u64 = t
        .words("peak")
        .split(' ')
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    assert!((1..PEAK_KIB).contains(&peak), "{peak} KiB");
}

#[test]
fn many_small_writes_are_all_kept() {
    let t = TestEnv::new();
    let script = "i=0; while [ $i -lt 3000 ]; do echo $i; echo -$i >&2; i=$((i+1)); done";
    let first = t.run("--key k", script).end();
    assert_eq!(first.code(0).out_text().lines().count(), 3000);
    assert_eq!(first.err_text().lines().count(), 3000);
    t.run("--key k", script)
        .end()
        .code(0)
        .out(&first.stdout)
        .err(&first.stderr);
}

#[test]
fn a_grandchild_that_holds_the_pipe_does_not_hold_the_caller() {
    let t = TestEnv::new();
    let script = "sleep 300 & echo hi; exit 3";
    let done = t.run("--key k", script).end();
    done.code(3).out("hi\n");
    t.run("--key k", script).end().code(3).out("hi\n");
}

#[test]
fn output_is_read_by_the_output_verb_with_the_code() {
    let t = TestEnv::new();
    t.run("--key k", "printf 'o\\0ut'; printf err >&2; exit 8")
        .end()
        .code(8);
    t.idem("output k").end().code(8).out(b"o\0ut");
    t.idem("output k --stderr").end().code(8).out("err");
    let both = t.idem("output k --both").end();
    both.code(8);
    assert_eq!(both.stdout.len() + both.stderr.len(), 7, "{both}");
    t.idem("output nosuch").end().code(1).out("").one_line();
    let file = t.path("copy");
    let copy = std::fs::File::create(&file).expect("a file");
    t.command(IDEM)
        .args(["output", "k"])
        .stdout(copy)
        .end()
        .code(8);
    assert_eq!(std::fs::read(file).expect("the copy"), b"o\0ut");
}
