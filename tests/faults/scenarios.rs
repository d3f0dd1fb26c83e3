//! What is disturbed: one call (or several at once) on a store in some state, and what it does if nothing
//! disturbs it. Effects are lines in a file.

/// A call to disturb.
#[derive(Debug)]
pub struct Scenario {
    /// Its name in the list of points.
    pub name: &'static str,
    /// A bash script that makes the store what it is found as.
    pub before: &'static str,
    /// The operation's key; a template where only idem knows it.
    pub key: &'static str,
    /// The file that has a line for each time that the effect happened.
    pub effects: &'static str,
    /// The arguments of the disturbed call, one a line.
    pub call: &'static str,
    /// The file that it reads, if not nothing.
    pub input: &'static str,
    /// Another operation, called and disturbed with it, once this one has ended with its code.
    pub then: Option<&'static Scenario>,
    /// A bash script that looks at what the disturbed call left, and makes it again if it is not one of
    /// `idem run`. It must end with 0. The call's output is in `out`, its exit code in `code`.
    pub after: &'static str,
    /// A bash script that looks at what there is in the end, and must end with 0.
    pub finally: &'static str,
    /// How many callers make it at once.
    pub callers: usize,
    /// The arguments of the calls after it; the same if empty.
    pub again: &'static str,
    /// Its code.
    pub code: i32,
    /// What a call prints that hands out the result.
    pub out: &'static str,
    /// What the disturbed call prints, where that is something else.
    pub prints: Option<&'static str>,
    /// How often the effect may happen in one call: its attempts, as far as it declares them repeatable.
    pub most: usize,
    /// The result is there before the call.
    pub settled_before: bool,
    /// The call is to take the result away.
    pub forgets: bool,
    /// The next call finds out what happened by itself, so it never has to give up.
    pub certain: bool,
    /// The caller declares that the effect may be repeated in later calls.
    pub repeatable: bool,
    /// Spool files that stay at most.
    pub spools: usize,
}

const PLAIN: Scenario = Scenario {
    name: "",
    before: "",
    key: "k",
    effects: "n",
    call: "",
    input: "",
    then: None,
    after: "",
    finally: "",
    callers: 1,
    again: "",
    code: 0,
    out: "out\n",
    prints: None,
    most: 1,
    settled_before: false,
    forgets: false,
    certain: false,
    repeatable: false,
    spools: 0,
};

/// All of them.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "first",
        call: "run\n-kk\n--\nsh\n-c\necho x >>n; echo out",
        ..PLAIN
    },
    Scenario {
        name: "second",
        before: "idem run -k other -- true",
        call: "run\n-kk\n--\nsh\n-c\necho x >>n; echo out",
        ..PLAIN
    },
    Scenario {
        name: "retried",
        before: "idem run -k other -- true",
        call: "run\n-kk\n--retries=1\n--backoff=const:1ms\n--retry-on=exit:9\n--\nsh\n-c\n\
            echo x >>n; [ $(wc -l <n) -ge 2 ] || exit 9; echo out",
        most: 2,
        ..PLAIN
    },
    Scenario {
        name: "permanent",
        before: "idem run -k other -- true",
        call: "run\n-kk\n--\nsh\n-c\necho x >>n; echo out; exit 3",
        code: 3,
        ..PLAIN
    },
    Scenario {
        name: "spooled",
        before: "idem run -k other -- true",
        call: "run\n-kk\n--\nsh\n-c\necho x >>n; printf '%20000s\\n' out",
        out: SPACES,
        spools: 1,
        ..PLAIN
    },
    Scenario {
        name: "expired",
        before: "idem run -k k --ttl 1ms -- sh -c 'echo x >>n; printf \"%20000s\\n\" out' >/dev/null; \
            idem run -k k2 --ttl 1ms -- true; sleep 0.01; rm n",
        call: "run\n-kk\n--\nsh\n-c\necho x >>n; printf '%20000s\\n' out",
        out: SPACES,
        spools: 1,
        ..PLAIN
    },
    Scenario {
        name: "probed",
        before: "idem run -k k -- sh -c 'test -e ok || kill -9 $$; echo x >>n; echo out' 2>/dev/null; \
            touch ok",
        call: "run\n-kk\n--probe\ntest -s n && echo out\n--\nsh\n-c\n\
            test -e ok || kill -9 $$; echo x >>n; echo out",
        certain: true,
        ..PLAIN
    },
    Scenario {
        name: "cleaned",
        before: "idem run -k k -- sh -c 'echo x >>n; test -e ok || kill -9 $$; echo out' 2>/dev/null; \
            touch ok",
        call: "run\n-kk\n--idempotent\n--cleanup\ntest ! -s n || rm n\n--\nsh\n-c\n\
            echo x >>n; test -e ok || kill -9 $$; echo out",
        certain: true,
        repeatable: true,
        ..PLAIN
    },
    Scenario {
        name: "timed",
        before: "idem run -k other -- true",
        call: "run\n-kk\n--timeout=60ms\n--\nsh\n-c\necho x >>n; echo out; test -e ok || sleep 4; :",
        again: "run\n-kk\n--\nsh\n-c\necho x >>n; echo out; test -e ok || sleep 4; :",
        code: 124,
        ..PLAIN
    },
    Scenario {
        name: "held",
        before: "idem run -k k --hold -- sh -c 'echo x >>n; echo out' 2>/dev/null; idem approve k --yes >/dev/null",
        call: "run\n-kk\n--\nsh\n-c\necho x >>n; echo out",
        ..PLAIN
    },
    Scenario {
        name: "detached",
        before: "idem run -k other -- true",
        call: "run\n-kk\n--detach\n--\nsh\n-c\necho x >>n; echo out",
        again: "run\n-kk\n--\nsh\n-c\necho x >>n; echo out",
        prints: Some("k\n"),
        ..PLAIN
    },
    Scenario {
        name: "guarded",
        before: "idem run -k other -- true",
        call: "run\n-kk\n--breaker=b:failures=9\n--bulkhead=p=1\n--budget=r=5/1m\n--retries=1\n\
            --backoff=const:1ms\n--retry-on=exit:9\n--\nsh\n-c\n\
            echo x >>n; [ $(wc -l <n) -ge 2 ] || exit 9; echo out",
        most: 2,
        ..PLAIN
    },
    Scenario {
        name: "lost",
        before: "idem run -k k -- sh -c 'echo x >>n; until test -e ok; do sleep 0.01; done; echo out' 2>/dev/null & \
            upto test -s n; kill -9 $(idem status k --json | jq .owner.pid); touch ok; wait; sleep 0.05; rm n",
        call: "run\n-kk\n--\nsh\n-c\necho x >>n; until test -e ok; do sleep 0.01; done; echo out",
        code: 122,
        out: "out\n",
        ..PLAIN
    },
    Scenario {
        name: "crowd",
        before: "idem run -k other -- true",
        call: "run\n-kk\n--\nsh\n-c\necho x >>n; echo out",
        callers: 4,
        ..PLAIN
    },
    Scenario {
        name: "crowd-first",
        call: "run\n-kk\n--\nsh\n-c\necho x >>n; echo out",
        callers: 3,
        ..PLAIN
    },
    Scenario {
        name: "crowd-retried",
        before: "idem run -k other -- true",
        call: "run\n-kk\n--bulkhead=p=2\n--retries=1\n--backoff=const:1ms\n--retry-on=exit:9\n--\nsh\n-c\n\
            echo x >>n; [ $(wc -l <n) -ge 2 ] || exit 9; echo out",
        callers: 3,
        most: 2,
        ..PLAIN
    },
    Scenario {
        name: "replay",
        before: "idem run -k k -- sh -c 'echo x >>n; printf \"%20000s\\n\" out' >/dev/null; rm n",
        call: "run\n-kk\n--\nsh\n-c\necho x >>n; printf \"%20000s\\n\" out",
        out: SPACES,
        settled_before: true,
        spools: 1,
        ..PLAIN
    },
    Scenario {
        name: "waiter",
        before: "idem run -k k -- sh -c 'echo x >>n; sleep 0.2; echo out' >/dev/null 2>&1 & \
            upto test -s n; disown",
        call: "run\n-kk\n--\nsh\n-c\necho x >>n; sleep 0.2; echo out",
        settled_before: true,
        ..PLAIN
    },
    Scenario {
        name: "left",
        before: "idem run -k k -- sh -c 'echo x >>n; until test -e ok; do sleep 0.01; done; echo out' \
            >/dev/null 2>&1 & upto test -s n; kill -9 $(idem status k --json | jq .owner.pid); \
            (sleep 0.2; touch ok) >/dev/null 2>&1 & disown -a",
        call: "run\n-kk\n--\nsh\n-c\necho x >>n; until test -e ok; do sleep 0.01; done; echo out",
        code: 122,
        ..PLAIN
    },
    Scenario {
        name: "resolve",
        before: "idem run -k k -- sh -c 'test -e ok || kill -9 $$; echo x >>n; echo out' 2>/dev/null; touch ok",
        call: "resolve\nk\n--not-done",
        again: "run\n-kk\n--\nsh\n-c\ntest -e ok || kill -9 $$; echo x >>n; echo out",
        prints: Some("k is resolved: not done; the next call runs it\n"),
        ..PLAIN
    },
    Scenario {
        name: "resolve-out",
        before: "idem run -k k -- sh -c 'test -e ok || kill -9 $$; echo x >>n; echo out' 2>/dev/null; \
            printf '%20000s\\n' out >text",
        call: "resolve\nk\n--succeeded\n--stdout=text",
        after: "state() { idem status k --json | jq -r .state; }
            if [ $(state) = unknown ]; then [ $(cat code) != 0 ] && idem resolve k --succeeded --stdout text || exit 1; fi; \
            [ $(state) = succeeded ] && idem output k | cmp - text",
        again: "run\n-kk\n--\nsh\n-c\ntest -e ok || kill -9 $$; echo x >>n; echo out",
        out: SPACES,
        prints: Some(ANYTHING),
        settled_before: true,
        spools: 1,
        ..PLAIN
    },
    Scenario {
        name: "approve",
        before: "idem run -k k --hold -- sh -c 'echo x >>n; echo out' 2>/dev/null",
        call: "approve\nk\n--yes",
        again: "run\n-kk\n--\nsh\n-c\necho x >>n; echo out",
        prints: Some(ANYTHING),
        ..PLAIN
    },
    Scenario {
        name: "forget",
        before: "idem run -k k -- sh -c 'echo x >>n; printf \"%20000s\\n\" out' >/dev/null; rm n",
        call: "forget\nk",
        again: "run\n-kk\n--\nsh\n-c\necho x >>n; printf \"%20000s\\n\" out",
        out: SPACES,
        prints: Some(ANYTHING),
        settled_before: true,
        forgets: true,
        spools: 1,
        ..PLAIN
    },
    Scenario {
        name: "gc",
        before: "idem run -k k -- sh -c 'echo x >>n; printf \"%20000s\\n\" out' >/dev/null; rm n; \
            for i in 1 2 3; do idem run -k e$i --ttl 1ms -- printf %20000s x >/dev/null; done; \
            idem run -k k -- sh -c 'echo x >>n; printf \"%20000s\\n\" out' >/dev/null; sleep 0.01",
        call: "gc",
        again: "run\n-kk\n--\nsh\n-c\necho x >>n; printf \"%20000s\\n\" out",
        out: SPACES,
        prints: Some(ANYTHING),
        settled_before: true,
        spools: 1,
        ..PLAIN
    },
    Scenario {
        name: "task",
        before: "idem task open t --retries 1 >/dev/null",
        key: "t/one",
        call: "run\n--task=t\n--step=one\n--\nsh\n-c\necho x >>n; echo out",
        then: Some(&Scenario {
            name: "task",
            key: "t/two",
            effects: "m",
            call: "run\n--task=t\n--step=two\n--retries=1\n--backoff=const:1ms\n--retry-on=exit:9\n--\nsh\n-c\n\
                echo x >>m; [ $(wc -l <m) -ge 2 ] || exit 9; echo out",
            most: 2,
            ..PLAIN
        }),
        finally: "idem task show t --json | jq -e '.retries_used <= 1 and \
                ([.steps[] | .step, .operations[].state] == [\"one\", \"succeeded\", \"two\", \"succeeded\"])' && \
            whole t/one $(lines n) && whole t/two $(lines m)",
        ..PLAIN
    },
    Scenario {
        name: "task-open",
        before: "idem run -k other -- true",
        key: "t/one",
        call: "task\nopen\nt\n--retries=1",
        after: "[ $(cat code) != 0 ] || idem task show t && idem task open t --retries=1 && \
            idem task show t --json | jq -e '.state == \"open\" and .retries == 1 and .retries_used == 0'",
        again: "run\n--task=t\n--step=one\n--\nsh\n-c\necho x >>n; echo out",
        prints: Some(ANYTHING),
        ..PLAIN
    },
    Scenario {
        name: "task-end",
        before: "idem task open t >/dev/null; idem run --task t --step one -- sh -c 'echo x >>n; echo out'",
        key: "t/one",
        call: "task\nend\nt",
        after: "ended() { idem task show t --json | jq -e '.state == \"ended\"'; }
            [ $(cat code) != 0 ] || ended && idem task end t && ended && \
            { idem run --task t --step two -- touch two; [ $? = 123 ] && ! [ -e two ]; }",
        again: "run\n--task=t\n--step=one\n--\nsh\n-c\necho x >>n; echo out",
        prints: Some(ANYTHING),
        settled_before: true,
        ..PLAIN
    },
    Scenario {
        name: "batch",
        call: "batch\norders",
        after: "now=$(idem batch orders) && [[ $now =~ ^[0-9a-f]{16}$ ]] && [ \"$(idem batch orders)\" = $now ] && \
            { [ $(cat code) != 0 ] || [ \"$(cat out)\" = $now ]; }",
        again: "run\n-kk\n--\nsh\n-c\necho x >>n; echo out",
        prints: Some(ANYTHING),
        ..PLAIN
    },
    Scenario {
        name: "batch-rotate",
        before: "idem batch orders >old",
        call: "batch\norders\n--rotate",
        after: "now=$(idem batch orders) && [ \"$(idem batch orders)\" = $now ] && \
            if [ $(cat code) = 0 ]; then [ \"$(cat out)\" = $now ] && [ \"$(cat old)\" != $now ]; fi",
        again: "run\n-kk\n--\nsh\n-c\necho x >>n; echo out",
        prints: Some(ANYTHING),
        ..PLAIN
    },
    Scenario {
        name: "batched",
        before: "idem run -k other -- true",
        key: "k-{batch:orders}",
        call: "run\n-kk-{batch:orders}\n--\nsh\n-c\necho x >>n; echo out",
        finally: "[ \"$(idem status 'k-*' --json | jq length)\" = 1 ]",
        ..PLAIN
    },
    Scenario {
        name: "import",
        before: "export IDEM_STORE=$PWD/from/idem.db; idem run -k k -- sh -c 'echo x >>n; echo out' >/dev/null; \
            idem run -k k2 -- sh -c 'echo x >>n; printf %20000s out' >/dev/null; idem export k k2 >lines; \
            idem export k >new.k; idem export k2 >new.k2; rm -r n from; unset IDEM_STORE; idem run -k other -- true",
        call: "import",
        input: "lines",
        after: "whole=0; for k in k k2; do idem export $k >is; \
                if [ -s is ]; then whole=$((whole + 1)); cmp is new.$k || exit 1; fi; done; \
            [ $(cat code) != 0 ] || [ $whole = 2 ] || exit 2; \
            idem import --json <lines | jq -e \".kept == $whole and .added == 2 - $whole\" && \
            idem export k k2 | cmp - lines",
        again: "run\n-kk\n--\nsh\n-c\necho x >>n; echo out",
        finally: "[ \"$(idem run -k k2 -- sh -c 'echo x >>n; printf %20000s out' | wc -c)\" = 20000 ] && \
            ! [ -e n ] && idem export k k2 | cmp - lines && \
            for k in k k2; do [ $(idem log $k --json | grep -c '\"event\":\"imported\"') = 1 ] || exit 1; done",
        prints: Some(ANYTHING),
        settled_before: true,
        spools: 1,
        ..PLAIN
    },
    Scenario {
        name: "import-over",
        before: "export IDEM_STORE=$PWD/from/idem.db; echo out >text; \
            idem run -k k -- sh -c 'echo x >>n; cat text' >/dev/null; \
            idem run -k k2 -- sh -c 'echo x >>n; printf %20000s out' >/dev/null; idem export k k2 >lines; \
            idem export k >new; rm -r from; unset IDEM_STORE; printf %30000s old >text; \
            idem run -k k -- sh -c 'echo x >>n; cat text' >/dev/null; idem export k >old; rm n",
        call: "import\n--overwrite",
        input: "lines",
        after: "idem export k >is; cmp is old || cmp is new || exit 1; \
            [ $(cat code) != 0 ] || { idem export k k2 | cmp - lines; } || exit 2; \
            idem import --overwrite --json <lines | jq -e '.added + .replaced == 2' && \
            idem export k k2 | cmp - lines",
        again: "run\n-kk\n--\nsh\n-c\necho x >>n; cat text",
        finally: "idem export k k2 | cmp - lines",
        prints: Some(ANYTHING),
        settled_before: true,
        spools: 1,
        ..PLAIN
    },
    Scenario {
        name: "wait",
        before: "idem run -k k -- sh -c 'echo x >>n; sleep 0.2; echo out' >/dev/null 2>&1 & \
            upto test -s n; disown",
        call: "wait\nk",
        again: "run\n-kk\n--\nsh\n-c\necho x >>n; sleep 0.2; echo out",
        after: "[ $(cat code) != 0 ] || [ \"$(cat out)\" = out ]",
        prints: Some(ANYTHING),
        settled_before: true,
        ..PLAIN
    },
];

/// What a call prints is not looked at.
pub const ANYTHING: &str = "*";

/// `out` behind enough blanks that it is too long for the database.
pub const SPACES: &str = "%20000s";

impl Scenario {
    /// The operations that are called one after the other.
    pub fn parts(&'static self) -> impl Iterator<Item = &'static Scenario> {
        std::iter::successors(Some(self), |part| part.then)
    }

    /// The disturbed call's arguments.
    pub fn arguments(&self) -> Vec<&'static str> {
        self.call.split('\n').collect()
    }

    /// Those of the calls after it.
    pub fn arguments_again(&self) -> Vec<&'static str> {
        match self.again {
            "" => self.arguments(),
            again => again.split('\n').collect(),
        }
    }

    /// What a call prints that hands out the result.
    pub fn result(&self) -> Vec<u8> {
        match self.out {
            SPACES => format!("{:>20000}\n", "out").into_bytes(),
            out => out.as_bytes().to_vec(),
        }
    }

    /// Whether the disturbed call is one of `idem run`.
    pub fn runs(&self) -> bool {
        self.call.starts_with("run\n")
    }
}
