use super::*;
use crate::domain::outcome::Exit;
use crate::domain::time::UnixMs;
use crate::policy::outcome::{Rules, Verdict};
use crate::policy::patterns::Scanner;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

mod choice;
mod proofs;
mod seen;

fn argv(line: &str) -> Vec<Vec<u8>> {
    line.split(' ')
        .map(|w| w.replace('~', " ").into_bytes())
        .collect()
}

/// How one attempt of a command line ended.
struct Run<'a> {
    line: &'a str,
    code: i32,
    stdout: &'a str,
    stderr: &'a str,
    named: Option<&'a str>,
    env: &'a [(&'a str, &'a str)],
}

const RUN: Run = Run {
    line: "true",
    code: 0,
    stdout: "",
    stderr: "",
    named: None,
    env: &[],
};

impl Run<'_> {
    fn verdict(&self) -> Option<Verdict> {
        let selection = match self.named {
            Some(name) => name.parse().unwrap(),
            None => Selection::Auto,
        };
        let classifier = Classifier::choose(selection, &argv(self.line))?;
        let mut scanner = Scanner::new(&Rules::default(), Some(classifier.collector()));
        scanner.feed(Stream::Stdout, self.stdout.as_bytes());
        scanner.feed(Stream::Stderr, self.stderr.as_bytes());
        let env = |name: &str| {
            let set = self.env.iter().find(|(n, _)| *n == name);
            set.map(|(_, value)| value.as_bytes().to_vec())
        };
        let exit = Exit::Code(self.code);
        scanner
            .finish()
            .judge(Some(&classifier), exit, &env, UnixMs(0))
            .verdict
    }

    fn class(&self) -> Option<Class> {
        self.verdict().map(|v| v.class)
    }
}

fn run<'a>(line: &'a str, code: i32, stderr: &'a str) -> Run<'a> {
    Run {
        line,
        code,
        stderr,
        ..RUN
    }
}

fn class(line: &str, code: i32, stderr: &str) -> Option<Class> {
    run(line, code, stderr).class()
}

const SAFE: Option<Class> = Some(Class::Safe);
const THROTTLED: Option<Class> = Some(Class::Throttled);
const PERMANENT: Option<Class> = Some(Class::Permanent);
const UNCERTAIN: Option<Class> = Some(Class::Uncertain);

#[test]
fn the_table_is_well_formed() {
    let mut names = BTreeSet::new();
    for tool in TOOLS {
        assert!(names.insert(tool.name), "{} twice", tool.name);
        assert!(!tool.rows.is_empty());
        let mut conditions = BTreeSet::new();
        for row in tool.rows {
            let place = format!("{}: {}", tool.name, row.condition);
            assert!(conditions.insert(row.condition), "{place} twice");
            assert!(row.exits.iter().all(|(low, high)| low <= high), "{place}");
            let pattern = row.pattern.map(|p| {
                regex::bytes::RegexBuilder::new(p)
                    .unicode(false)
                    .build()
                    .expect("a pattern of the table")
            });
            let groups = pattern.map_or(0, |p| p.captures_len() - 1);
            if row.says.captures() {
                assert!(groups > 0, "{place} captures nothing");
            }
        }
    }
}

#[test]
fn errors_on_stdout_are_seen_where_a_tool_writes_them_there() {
    let twine = Run {
        line: "twine upload x",
        code: 1,
        stdout: "HTTPError: 403 Forbidden",
        ..RUN
    };
    assert_eq!(twine.class(), PERMANENT);
    let recap = |stdout| {
        Run {
            line: "ansible-playbook x.yml",
            code: 4,
            stdout,
            ..RUN
        }
        .class()
    };
    assert_eq!(recap("h1 : ok=0 changed=0 unreachable=1 failed=0"), SAFE);
    assert_eq!(
        recap("h1 : ok=0 changed=0 unreachable=1\nh2 : ok=3 changed=1 unreachable=0"),
        UNCERTAIN
    );
    let refused = "The connection to the server localhost:8080 was refused - did you specify the right host or port?";
    let kubectl = |stdout| {
        Run {
            stdout,
            ..run("kubectl apply -f x", 1, refused)
        }
        .class()
    };
    assert_eq!(kubectl(""), SAFE);
    assert_eq!(kubectl("deployment.apps/x created\n"), UNCERTAIN);
    // A page that curl fetched proves nothing.
    let page = Run {
        line: "curl -s http://x/",
        code: 28,
        stdout: "curl: (28) Connection timed out",
        ..RUN
    };
    assert_eq!(page.class(), UNCERTAIN);
}

#[test]
fn the_worst_line_counts() {
    let refused = "curl: (7) Failed to connect to x";
    assert_eq!(class("curl -sS http://x", 7, refused), SAFE);
    let both = format!("curl: (56) Recv failure: Connection reset by peer\n{refused}");
    assert_eq!(class("curl -sS http://x", 7, &both), UNCERTAIN);
    let retried =
        format!("Warning: Transient problem: timeout Will retry in 1 seconds.\n{refused}");
    assert_eq!(class("curl -sS http://x", 7, &retried), UNCERTAIN);
    let wget =
        "Read error (Connection reset by peer) in headers.\nRetrying.\nfailed: Connection refused.";
    assert_eq!(class("wget -t1 http://x", 4, wget), UNCERTAIN);
    let redirected = "HTTP request sent, awaiting response... 302 Found\nLocation: http://y [following]\nfailed: Connection refused.";
    assert_eq!(class("wget -t1 http://x", 4, redirected), UNCERTAIN);
    let second = "To http://x/r.git\n * [new branch] a -> a\nfatal: unable to access 'http://y/': Failed to connect";
    assert_eq!(class("git push", 128, second), UNCERTAIN);
    assert_eq!(
        class("git push -q", 128, "fatal: unable to access 'http://y/'"),
        UNCERTAIN
    );
}

#[test]
fn auto_leaves_an_exit_0_alone_and_a_named_classifier_does_not() {
    let reply = Run {
        line: "redis-cli incr",
        stdout: "ERR wrong number of arguments for 'incr' command\n",
        ..RUN
    };
    assert_eq!(reply.verdict(), None);
    let named = Run {
        named: Some("redis-cli"),
        ..reply
    };
    assert_eq!(named.class(), PERMANENT);
    let wrapped = Run {
        line: "./queue.sh",
        ..named
    };
    assert_eq!(wrapped.class(), PERMANENT);
}

#[test]
fn a_name_vouches_for_a_program_but_not_for_arguments_that_nobody_sees() {
    let refused = "urllib3.exceptions.NewConnectionError: [Errno 111] Connection refused";
    let python = run("python3 x.py", 1, refused);
    assert_eq!(python.class(), UNCERTAIN);
    let named = Run {
        named: Some("python"),
        ..python
    };
    assert_eq!(named.class(), SAFE);
    let retried = format!("Retrying (Retry(total=2)) after connection broken\n{refused}");
    assert_eq!(
        Run {
            stderr: &retried,
            ..named
        }
        .class(),
        UNCERTAIN
    );
    let script = Run {
        named: Some("curl"),
        ..run("./upload.sh", 7, "curl: (7) Failed to connect")
    };
    assert_eq!(script.class(), UNCERTAIN);
    let sysexits = |code| {
        Run {
            named: Some("sysexits"),
            code,
            ..RUN
        }
        .class()
    };
    assert_eq!(
        [64, 69, 75, 77, 1].map(sysexits),
        [PERMANENT, UNCERTAIN, UNCERTAIN, PERMANENT, None]
    );
}

#[test]
fn timeout_around_any_command_says_that_it_ended_it() {
    for line in [
        "timeout 5 ./job",
        "timeout 5 curl http://x",
        "timeout 5 sh -c x",
        "nice timeout 5 ./job",
    ] {
        assert_eq!(class(line, 124, ""), UNCERTAIN, "{line}");
        assert_eq!(class(line, 137, ""), UNCERTAIN, "{line}");
        assert_eq!(class(line, 125, ""), PERMANENT, "{line}");
    }
    assert_eq!(class("timeout 5 ./job", 1, ""), None);
    assert_eq!(class("./job", 124, ""), None);
}

#[test]
fn a_success_that_may_be_none_comes_with_a_warning() {
    let warned = |line| {
        let verdict = run(line, 0, "").verdict();
        verdict.is_some_and(|v| v.class == Class::Success && v.warning.is_some())
    };
    for line in [
        "curl http://x",
        "curl -sS -d f http://x",
        "http post x",
        "psql -f x.sql",
        "psql",
    ] {
        assert!(warned(line), "{line}");
    }
    for line in [
        "curl -f http://x",
        "curl -sSf http://x",
        "curl --fail http://x",
        "curl --fail-with-body http://x",
        "curl -w %{http_code} http://x",
        "curl -sw%{http_code} http://x",
        "http --check-status post x",
        "psql -c x",
        "psql -v ON_ERROR_STOP=1 -f x",
        "wget http://x",
        "ssh h true",
    ] {
        assert!(!warned(line), "{line}");
    }
}

#[test]
fn statuses_and_hints_are_handed_on() {
    let throttled =
        "< HTTP/1.1 429 x\nretry-after:  120 \ncurl: (22) The requested URL returned error: 429";
    let verdict = run("curl -f http://x", 22, throttled).verdict().unwrap();
    assert_eq!(
        (verdict.http_status, verdict.retry_after),
        (Some(429), Some(Duration::from_secs(120)))
    );
    let dated = "  Retry-After: Thu, 01 Jan 1970 00:01:00 GMT\n ERROR 503: x";
    let verdict = run("wget -S http://x", 8, dated).verdict().unwrap();
    assert_eq!(
        (verdict.class, verdict.retry_after),
        (Class::Uncertain, Some(Duration::from_secs(60)))
    );
    let on_stdout = Run {
        stdout: "HTTP/1.1 429\r\nRetry-After: 9\r\n\r\n",
        ..run(
            "curl -if http://x",
            22,
            "curl: (22) The requested URL returned error: 429",
        )
    };
    assert_eq!(
        on_stdout.verdict().unwrap().retry_after,
        Some(Duration::from_secs(9))
    );
    let conflict = run(
        "curl -f http://x",
        22,
        "curl: (22) The requested URL returned error: 409",
    )
    .verdict()
    .unwrap();
    assert_eq!(
        conflict.reason,
        "curl: HTTP 409, perhaps because it is already there"
    );
}

#[test]
fn endless_kinds_of_messages_are_not_trusted() {
    let many: String = (100..999)
        .map(|n| format!("curl: ({n}) returned error: {n}\n"))
        .collect();
    assert_eq!(class("curl -f http://x", 22, &many), UNCERTAIN);
}

proptest! {
    #[test]
    fn no_bytes_make_a_classifier_panic(
        words in prop::collection::vec("(env|sudo|nice|timeout|curl|wget|git|push|-[a-zA-Z]{1,3}|--[a-z]{1,6}(=1)?|A=1|5|http://[a-z\\[\\]{},]{1,5})", 0..8),
        raw in prop::collection::vec(any::<u8>(), 0..12), code in -5i32..400,
        output in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut argv: Vec<Vec<u8>> = words.into_iter().map(String::into_bytes).collect();
        argv.push(raw);
        for selection in [Selection::Auto, Selection::Named(TOOLS[code.unsigned_abs() as usize % TOOLS.len()])] {
            let Some(classifier) = Classifier::choose(selection, &argv) else { continue };
            let mut scanner = Scanner::new(&Rules::default(), Some(classifier.collector()));
            scanner.feed(Stream::Stderr, &output);
            scanner.finish().judge(Some(&classifier), Exit::Code(code), &|_| None, UnixMs(0));
        }
    }

    #[test]
    fn more_lines_never_make_curl_safer(
        lines in prop::collection::vec(prop::sample::select(vec![
            "curl: (7) Failed to connect", "curl: (56) Recv failure", "curl: (22) The requested URL returned error: 429",
            "curl: (28) Operation timed out", "Will retry in 1 seconds", "* noise",
        ]), 0..6),
        code in prop::sample::select(vec![7, 22, 28, 56]),
    ) {
        let text = lines.join("\n");
        if class("curl -f http://x", code, &text) == SAFE {
            let others = lines.iter().filter(|l| l.starts_with("curl: (") && !l.starts_with("curl: (7)"));
            prop_assert_eq!(others.count(), 0);
            prop_assert!(!lines.iter().any(|l| l.starts_with("Will")));
            prop_assert!(code == 7);
        }
    }
}
