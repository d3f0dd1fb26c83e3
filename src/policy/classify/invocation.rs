//! A command line as a classifier sees it: what runs behind `env`, `sudo` and the like.

use std::borrow::Cow;

/// Looks up a variable in the environment that the child gets.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<Vec<u8>>;

/// A tool's own arguments and environment.
pub struct Invocation<'a> {
    /// The arguments after the tool's name; empty when the tool was named for another command.
    pub args: &'a [Vec<u8>],
    /// Whether the command line itself runs the tool, so that `args` are known to be its arguments.
    pub known: bool,
    /// Whether the user named the classifier.
    pub named: bool,
    /// What `env` and `sudo` set.
    pub assignments: &'a [(Vec<u8>, Vec<u8>)],
    /// Whether they may have removed variables.
    pub environment_changed: bool,
    /// The environment beneath that.
    pub environment: Lookup<'a>,
}

impl Invocation<'_> {
    /// The arguments as text; bytes that are no UTF-8 become replacement characters.
    pub fn texts(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.args.iter().map(|a| String::from_utf8_lossy(a))
    }

    /// Whether one of the arguments is exactly this.
    pub fn has(&self, wanted: &str) -> bool {
        self.args.iter().any(|a| a == wanted.as_bytes())
    }

    /// Whether an option has this value, as `--name=value` or as two arguments.
    pub fn sets(&self, option: &str, value: &str) -> bool {
        let joined = format!("{option}={value}");
        let pairs = self.args.iter().zip(self.args.iter().skip(1));
        self.has(&joined)
            || pairs
                .into_iter()
                .any(|(a, b)| a == option.as_bytes() && b == value.as_bytes())
    }

    /// Whether a variable of the tool's environment has this value.
    pub fn env_is(&self, name: &str, value: &str) -> bool {
        let set = self
            .assignments
            .iter()
            .rev()
            .find(|(n, _)| n == name.as_bytes());
        match set {
            Some((_, assigned)) => assigned == value.as_bytes(),
            None if self.environment_changed => false,
            None => (self.environment)(name).is_some_and(|v| v == value.as_bytes()),
        }
    }
}

/// What a command line runs in the end.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Peeled {
    /// The inner command with its arguments.
    pub argv: Vec<Vec<u8>>,
    /// What `env` and `sudo` set on the way, the last one last.
    pub assignments: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether `env` or `sudo` may have removed variables on the way.
    pub environment_changed: bool,
    /// Whether `timeout` was among them.
    pub timeout: bool,
}

/// A command that runs another one.
struct Wrapper {
    name: &'static str,
    /// Short options with a value, which may follow in the same argument.
    short_valued: &'static str,
    /// Long options with a value, which may be an argument of its own.
    long_valued: &'static [&'static str],
    /// Short options after which nothing is known of what runs.
    short_opaque: &'static str,
    /// The same for long options.
    long_opaque: &'static [&'static str],
    /// Whether `NAME=VALUE` may stand before the command.
    assigns: bool,
    /// Arguments of its own before the command.
    operands: usize,
}

const PLAIN: Wrapper = Wrapper {
    name: "nohup",
    short_valued: "",
    long_valued: &[],
    short_opaque: "",
    long_opaque: &[],
    assigns: false,
    operands: 0,
};

const WRAPPERS: [Wrapper; 7] = [
    PLAIN,
    Wrapper {
        name: "env",
        short_valued: "uC",
        long_valued: &["unset", "chdir"],
        short_opaque: "S",
        long_opaque: &["split-string"],
        assigns: true,
        ..PLAIN
    },
    Wrapper {
        name: "nice",
        short_valued: "n",
        long_valued: &["adjustment"],
        ..PLAIN
    },
    Wrapper {
        name: "stdbuf",
        short_valued: "ioe",
        long_valued: &["input", "output", "error"],
        ..PLAIN
    },
    Wrapper {
        name: "time",
        short_valued: "fo",
        long_valued: &["format", "output"],
        ..PLAIN
    },
    Wrapper {
        name: "sudo",
        short_valued: "ugpChDRTrtU",
        long_valued: &[
            "user",
            "group",
            "prompt",
            "close-from",
            "host",
            "chdir",
            "chroot",
            "command-timeout",
            "role",
            "type",
            "other-user",
        ],
        // A shell, a login shell, an editor, the background.
        short_opaque: "isebl",
        long_opaque: &["login", "shell", "edit", "background", "list"],
        assigns: true,
        ..PLAIN
    },
    Wrapper {
        name: "timeout",
        short_valued: "ks",
        long_valued: &["kill-after", "signal"],
        operands: 1,
        ..PLAIN
    },
];

/// Modules that `python -m` runs as the tool of the same name.
const PYTHON_MODULES: [&[u8]; 3] = [b"pip", b"twine", b"httpie"];

/// The base name of an executable.
pub fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|b| *b == b'/').next().unwrap_or(path)
}

/// A base name without the version behind it: `python3.12` is `python`.
pub fn unversioned(name: &[u8]) -> &[u8] {
    let end = name
        .iter()
        .rposition(|b| !(b.is_ascii_digit() || *b == b'.'));
    end.and_then(|last| name.get(..=last)).unwrap_or(name)
}

/// Looks through everything that only runs another command. Nothing when that cannot be told.
pub fn peel(argv: &[Vec<u8>]) -> Option<Peeled> {
    let mut peeled = Peeled::default();
    let mut rest = argv;
    loop {
        let (command, args) = rest.split_first()?;
        let base = base_name(command);
        if let Some(wrapper) = WRAPPERS.iter().find(|w| w.name.as_bytes() == base) {
            peeled.timeout |= wrapper.name == "timeout";
            let options = args.first().is_some_and(|a| a.starts_with(b"-"));
            peeled.environment_changed |=
                wrapper.name == "sudo" || (wrapper.name == "env" && options);
            rest = wrapper.inner(args, &mut peeled.assignments)?;
        } else if let Some(module) = python_module(base, args) {
            rest = module;
        } else {
            peeled.argv = rest.to_vec();
            return Some(peeled);
        }
    }
}

fn python_module<'a>(base: &[u8], args: &'a [Vec<u8>]) -> Option<&'a [Vec<u8>]> {
    match args {
        [dash_m, module, ..]
            if unversioned(base) == b"python"
                && dash_m == b"-m"
                && PYTHON_MODULES.contains(&module.as_slice()) =>
        {
            args.get(1..)
        }
        _ => None,
    }
}

/// What one argument of a wrapper is.
enum Argument {
    /// An option, with its value in it.
    Alone,
    /// An option whose value is the next argument.
    WithNext,
    /// An option after which nothing is known.
    Opaque,
    /// The end of the options.
    End,
    /// No option.
    Operand,
}

impl Wrapper {
    /// The command line that begins behind the wrapper's own arguments.
    fn inner<'a>(
        &self,
        args: &'a [Vec<u8>],
        assignments: &mut Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Option<&'a [Vec<u8>]> {
        let mut rest = self.skip_options(args)?;
        while let Some((name, value)) = rest.first().and_then(|a| assignment(a)) {
            if !self.assigns {
                break;
            }
            assignments.push((name.to_vec(), value.to_vec()));
            rest = rest.get(1..)?;
        }
        let rest = rest.get(self.operands..)?;
        (!rest.is_empty()).then_some(rest)
    }

    fn skip_options<'a>(&self, args: &'a [Vec<u8>]) -> Option<&'a [Vec<u8>]> {
        let mut rest = args;
        while let Some((arg, more)) = rest.split_first() {
            rest = match self.read(arg) {
                Argument::Alone => more,
                Argument::WithNext => more.get(1..)?,
                Argument::Opaque => return None,
                Argument::End => return Some(more),
                Argument::Operand => return Some(rest),
            };
        }
        Some(rest)
    }

    fn read(&self, arg: &[u8]) -> Argument {
        match arg {
            b"--" => Argument::End,
            [b'-', b'-', long @ ..] => self.read_long(long),
            [b'-', short @ ..] => self.read_short(short),
            _ => Argument::Operand,
        }
    }

    fn read_long(&self, long: &[u8]) -> Argument {
        let name = long.split(|b| *b == b'=').next().unwrap_or(long);
        let among = |list: &[&str]| list.iter().any(|known| known.as_bytes() == name);
        if among(self.long_opaque) {
            Argument::Opaque
        } else if among(self.long_valued) && name.len() == long.len() {
            Argument::WithNext
        } else {
            Argument::Alone
        }
    }

    fn read_short(&self, short: &[u8]) -> Argument {
        for (at, letter) in short.iter().enumerate() {
            if self.short_opaque.as_bytes().contains(letter) {
                return Argument::Opaque;
            }
            if self.short_valued.as_bytes().contains(letter) {
                let last = at + 1 == short.len();
                return if last {
                    Argument::WithNext
                } else {
                    Argument::Alone
                };
            }
        }
        Argument::Alone
    }
}

/// `NAME=VALUE` with a name that a variable can have.
fn assignment(arg: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = arg.iter().position(|b| *b == b'=')?;
    let (name, value) = (arg.get(..equals)?, arg.get(equals + 1..)?);
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let named = name.iter().all(is_name) && name.first().is_some_and(|b| !b.is_ascii_digit());
    named.then_some((name, value))
}

/// The first argument that is no option, where the options in `valued` take the next argument.
pub fn subcommand<'a>(args: &'a [Vec<u8>], valued: &[&str]) -> Option<&'a [u8]> {
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        if valued.iter().any(|v| v.as_bytes() == arg.as_slice()) {
            rest.next();
        } else if !arg.starts_with(b"-") {
            return Some(arg);
        }
    }
    None
}
