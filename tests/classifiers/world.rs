//! One test's private home and store, and what `idem run` made of a real tool in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use idem::policy::classify::{Row, Says, Tool};
use regex::bytes::RegexBuilder;
use serde_json::Value;
use tempfile::TempDir;

const IDEM: &str = env!("CARGO_BIN_EXE_idem");

/// The longest that one attempt may take, and the longest that a whole call may.
const ATTEMPT_LIMIT: &str = "60s";
const CALL_LIMIT: &str = "120s";

/// A private home. It keeps note of the rows that its runs have shown.
pub struct World {
    root: TempDir,
    tool: &'static Tool,
    shown: BTreeSet<&'static str>,
    calls: usize,
}

/// A call of `idem run` in the making.
pub struct Call<'a> {
    world: &'a mut World,
    argv: Vec<String>,
    options: Vec<String>,
    env: Vec<(String, String)>,
}

/// How a call ended.
#[derive(Debug)]
pub struct Ran {
    /// The exit code of `idem run`.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub attempts: Vec<Attempt>,
}

/// What the ledger says about an attempt.
#[derive(Debug)]
pub struct Attempt {
    pub exit: Option<u8>,
    pub class: String,
    pub reason: String,
    pub http_status: Option<u64>,
    pub retry_after_ms: Option<u64>,
}

/// Runs a test and fails it if its calls did not show the rows that it declares.
pub fn prove(tool: &str, needs: &[&str], rows: &[&str], test: fn(&mut World)) {
    let name = std::thread::current().name().unwrap_or(tool).to_owned();
    if !crate::needs::met(&name, needs) {
        return;
    }
    let mut world = World::new(Tool::named(tool).unwrap());
    test(&mut world);
    for row in rows {
        assert!(
            world.shown.contains(row),
            "no run showed `{row}`, only {:?}",
            world.shown
        );
    }
}

impl World {
    fn new(tool: &'static Tool) -> World {
        let root = TempDir::with_prefix("idem-tools.").unwrap();
        for sub in ["home", "work", "state"] {
            fs::create_dir(root.path().join(sub)).unwrap();
        }
        World {
            root,
            tool,
            shown: BTreeSet::new(),
            calls: 0,
        }
    }

    /// A place in the directory that the commands run in.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("work").join(name)
    }

    /// The same, as an argument.
    pub fn arg(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes a file into that directory.
    pub fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.arg(name)
    }

    /// The command and its arguments.
    pub fn call<S: AsRef<str>>(&mut self, argv: impl IntoIterator<Item = S>) -> Call<'_> {
        Call {
            argv: argv.into_iter().map(|a| a.as_ref().to_owned()).collect(),
            world: self,
            options: Vec::new(),
            env: Vec::new(),
        }
    }

    /// The words of a line are the command and its arguments.
    pub fn line(&mut self, line: &str) -> Call<'_> {
        self.call(line.split(' '))
    }

    /// A command of the test's own, in the same place and environment.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        self.place(&mut command);
        command
    }

    /// How many lines a file of that directory has; none where there is no file.
    pub fn lines(&self, name: &str) -> usize {
        fs::read_to_string(self.path(name)).map_or(0, |text| text.lines().count())
    }

    /// Runs a command of the test's own, which has to succeed.
    pub fn prepare(&self, command: &mut Command) -> Output {
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}");
        output
    }

    fn place(&self, command: &mut Command) {
        let at = |sub: &str| self.root.path().join(sub);
        command
            .env_clear()
            .current_dir(at("work"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", at("home"))
            .env("XDG_STATE_HOME", at("state"))
            .env("TMPDIR", at("work"))
            .env("LC_ALL", "C")
            // Whatever would leave the loopback meets a closed port.
            .env("https_proxy", "http://127.0.0.1:1")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0");
    }

    fn note(&mut self, ran: &Ran) {
        let tool = self.tool;
        for attempt in &ran.attempts {
            let shown = tool
                .rows
                .iter()
                .filter(|row| shows(tool, row, attempt, ran));
            self.shown.extend(shown.map(|row| row.condition));
        }
    }
}

impl Call<'_> {
    /// Options of `idem run`.
    pub fn with(mut self, options: &str) -> Self {
        self.options.extend(options.split(' ').map(str::to_owned));
        self
    }

    /// A variable of the tool's environment.
    pub fn env(mut self, name: &str, value: impl AsRef<str>) -> Self {
        self.env.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Runs it and reads what was recorded.
    pub fn run(self) -> Ran {
        let world = self.world;
        world.calls += 1;
        let key = format!("call-{}", world.calls);
        let mut command = world.command("timeout");
        command
            .args(["-s", "KILL", CALL_LIMIT, IDEM])
            .args(["run", "--timeout", ATTEMPT_LIMIT, "-k", &key])
            .args(&self.options)
            .arg("--")
            .args(&self.argv)
            .envs(self.env)
            .stdin(Stdio::null());
        let output = command.output().unwrap();
        let mut ledger = world.command(IDEM);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let ran = Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
            attempts: attempts(&world.prepare(ledger.args(["log", "--json", &key])).stdout),
        };
        assert!(!ran.attempts.is_empty(), "nothing ran: {ran:?}");
        world.note(&ran);
        ran
    }
}

impl Ran {
    /// Fails the test unless the last of so many attempts has this class.
    pub fn is(&self, class: &str, attempts: usize) -> &Ran {
        assert_eq!(self.last().class, class, "{self:#?}");
        assert_eq!(self.attempts.len(), attempts, "{self:#?}");
        self
    }

    /// Nothing happened, as the tool's words prove.
    pub fn is_safe(&self) -> &Ran {
        self.is("safe", 1)
    }

    /// Nothing happened, and the other side asks to wait.
    pub fn is_throttled(&self) -> &Ran {
        self.is("throttled", 1)
    }

    /// It may have happened.
    pub fn is_uncertain(&self) -> &Ran {
        self.is("uncertain", 1)
    }

    /// It said no.
    pub fn is_permanent(&self) -> &Ran {
        self.is("permanent", 1)
    }

    /// The last attempt.
    pub fn last(&self) -> &Attempt {
        self.attempts.last().unwrap()
    }
}

/// The attempts that the ledger tells of, a JSON object a line.
fn attempts(ledger: &[u8]) -> Vec<Attempt> {
    let lines = ledger
        .split(|b| *b == b'\n')
        .filter(|line| !line.is_empty());
    let events = lines.map(|line| serde_json::from_slice::<Value>(line).unwrap());
    let ended = events.filter(|event| event["event"] == "attempt_ended");
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    ended
        .map(|event| Attempt {
            exit: event["exit_code"]
                .as_u64()
                .and_then(|c| u8::try_from(c).ok()),
            class: word(&event["class"]),
            reason: word(&event["reason"]),
            http_status: event["http_status"].as_u64(),
            retry_after_ms: event["retry_after_ms"].as_u64(),
        })
        .collect()
}

/// Whether an attempt ended as a row says, and idem took it so.
fn shows(tool: &Tool, row: &Row, attempt: &Attempt, ran: &Ran) -> bool {
    let covered = attempt.exit.is_some_and(|code| row.covers(code));
    if !(covered && row.pattern.is_none_or(|pattern| printed(row, pattern, ran))) {
        return false;
    }
    let named = format!("{}: {}", tool.name, row.condition);
    let class = attempt.class.as_str();
    match row.says {
        Says::Class(said, _) | Says::About(said, _) => {
            attempt.reason == named && class == said.word()
        }
        Says::Tunnel(_) => attempt.reason == named && matches!(class, "safe" | "permanent"),
        Says::Fine(_) => attempt.reason == named && class == "success",
        Says::Http(_) => {
            let status = attempt.http_status.unwrap_or_default();
            attempt
                .reason
                .starts_with(&format!("{}: HTTP {status}", tool.name))
        }
        Says::Repeats | Says::OtherCode => class == "uncertain",
    }
}

fn printed(row: &Row, pattern: &str, ran: &Ran) -> bool {
    use idem::policy::conditions::Stream;
    let regex = RegexBuilder::new(pattern).unicode(false).build().unwrap();
    let streams = [(Stream::Stdout, &ran.stdout), (Stream::Stderr, &ran.stderr)];
    let mut looked_at = streams
        .into_iter()
        .filter(|(stream, _)| row.on.covers(*stream));
    looked_at.any(|(_, text)| text.lines().any(|line| regex.is_match(line.as_bytes())))
}
