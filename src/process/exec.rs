//! Finding and executing a program as a shell does: everything is prepared before the fork, the child
//! itself allocates nothing.
//!
//! The exit codes are those of the shell and of env(1): 127 where nothing was found (the interpreter of
//! a script included), 126 where something was found that cannot be invoked.

use std::ffi::{CStr, CString, NulError, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use libc::{c_char, c_int};

use super::sys::{self, errno_text, uninterrupted};

/// What shells search when there is no `PATH`.
const DEFAULT_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const SHELL: &CStr = c"/bin/sh";

/// Why nothing could be executed, in numbers, so that a child can send it through a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExecFailure {
    pub errno: c_int,
    /// Which of the candidates it was about; out of range when none was found.
    pub candidate: usize,
}

/// A program, its arguments and its environment, ready for `execve`.
#[derive(Debug)]
pub(super) struct Image {
    /// The paths to try, in order.
    candidates: Vec<CString>,
    /// Whether they come from a search through `PATH`.
    searched: bool,
    args: Vec<CString>,
    /// Null-terminated pointers into `args`.
    argv: Vec<*const c_char>,
    /// The same for a script without `#!`: the shell, the script (filled in last), its arguments.
    shell_argv: Vec<*const c_char>,
    /// Null-terminated pointers into `_env`.
    envp: Vec<*const c_char>,
    /// Kept for its pointers alone.
    _env: Vec<CString>,
}

impl Image {
    /// Prepares a command: its first word is what is looked up. A word or variable with a NUL in it is
    /// an error, which no caller that was itself executed can cause.
    pub fn new(command: &[OsString], env: &[(OsString, OsString)]) -> Result<Image, NulError> {
        let name = command.first().map_or(&b""[..], |word| word.as_bytes());
        let path = env.iter().find(|(variable, _)| variable == "PATH");
        let path = path.map_or(DEFAULT_PATH, |(_, value)| value.as_bytes());
        let args = command.iter().map(|word| CString::new(word.as_bytes()));
        let args = args.collect::<Result<Vec<_>, _>>()?;
        let env = env.iter().map(|(name, value)| variable(name, value));
        let env = env.collect::<Result<Vec<_>, _>>()?;
        let shell_argv = [SHELL.as_ptr(), std::ptr::null()].into_iter();
        let rest = args.iter().skip(1).map(|arg| arg.as_ptr());
        Ok(Image {
            candidates: candidates(name, path)?,
            searched: !name.contains(&b'/'),
            argv: null_terminated(args.iter().map(|arg| arg.as_ptr())),
            shell_argv: null_terminated(shell_argv.chain(rest)),
            envp: null_terminated(env.iter().map(|variable| variable.as_ptr())),
            args,
            _env: env,
        })
    }

    /// Executes the first candidate that can be, and returns only if none can. Async-signal-safe.
    pub fn exec(&mut self) -> ExecFailure {
        let mut failure = ExecFailure {
            errno: libc::ENOENT,
            candidate: usize::MAX,
        };
        for candidate in 0..self.candidates.len() {
            let errno = self.try_candidate(candidate);
            match self.verdict(candidate, errno) {
                Verdict::Final(errno) => return ExecFailure { errno, candidate },
                Verdict::Refused if failure.errno == libc::ENOENT => {
                    failure = ExecFailure { errno, candidate };
                }
                Verdict::Refused | Verdict::Absent => {}
            }
        }
        failure
    }

    /// Returns the error of executing one candidate, by itself or under the shell.
    fn try_candidate(&mut self, candidate: usize) -> c_int {
        let Some(path) = self.candidates.get(candidate) else {
            return libc::ENOENT;
        };
        let errno = execve(path, &self.argv, &self.envp);
        if errno != libc::ENOEXEC || is_binary(path) {
            return errno;
        }
        if let Some(script) = self.shell_argv.get_mut(1) {
            *script = path.as_ptr();
        }
        execve(SHELL, &self.shell_argv, &self.envp)
    }

    fn verdict(&self, candidate: usize, errno: c_int) -> Verdict {
        let kind = self
            .candidates
            .get(candidate)
            .map_or(Kind::Absent, |path| kind(path));
        match (errno, kind) {
            (libc::EACCES, Kind::Directory) if !self.searched => Verdict::Final(libc::EISDIR),
            (libc::EACCES, Kind::Other) if self.searched => Verdict::Refused,
            (libc::EACCES | libc::ENOENT, Kind::Executable) => Verdict::Final(errno),
            (libc::EACCES | libc::ENOENT | libc::ENOTDIR, _) if self.searched => Verdict::Absent,
            (libc::ELOOP | libc::ENAMETOOLONG, _) if self.searched => Verdict::Absent,
            _ => Verdict::Final(errno),
        }
    }

    /// What a person is told about a failure.
    pub fn explain(&self, failure: ExecFailure) -> String {
        let text = errno_text(failure.errno);
        let Some(path) = self.candidates.get(failure.candidate) else {
            return format!("{}: command not found", self.name());
        };
        let file = OsStr::from_bytes(path.as_bytes());
        let shown = file.to_string_lossy();
        match failure.errno {
            libc::ENOENT | libc::EACCES if kind(path) == Kind::Executable => {
                match interpreter(file) {
                    Some(interpreter) => format!("{shown}: bad interpreter {interpreter}: {text}"),
                    None if failure.errno == libc::ENOENT => {
                        format!("{shown}: its loader is missing: {text}")
                    }
                    None => format!("{shown}: {text}"),
                }
            }
            libc::ENOEXEC => format!("{shown}: cannot execute binary file: {text}"),
            _ => format!("{shown}: {text}"),
        }
    }

    /// The command's first word as shown to people.
    pub fn name(&self) -> std::borrow::Cow<'_, str> {
        self.args
            .first()
            .map_or("".into(), |name| name.to_string_lossy())
    }
}

/// The file that a command's first word stands for, along this process's own `PATH`.
pub(super) fn first_executable(name: &OsStr) -> Option<PathBuf> {
    let path = std::env::var_os("PATH");
    let path = path.as_deref().map_or(DEFAULT_PATH, OsStr::as_bytes);
    let found = candidates(name.as_bytes(), path).ok()?;
    let found = found
        .into_iter()
        .find(|candidate| kind(candidate) == Kind::Executable)?;
    Some(PathBuf::from(OsStr::from_bytes(found.as_bytes())))
}

impl ExecFailure {
    /// The exit code that a shell gives to this failure.
    pub fn code(self) -> i32 {
        if self.errno == libc::ENOENT { 127 } else { 126 }
    }
}

enum Verdict {
    /// This candidate is the one, and it failed.
    Final(c_int),
    /// A file that may not be executed; a later candidate can still be found.
    Refused,
    /// Not here.
    Absent,
}

#[derive(PartialEq, Eq)]
enum Kind {
    Absent,
    Directory,
    /// A file with the permission to execute it.
    Executable,
    Other,
}

fn variable(name: &OsStr, value: &OsStr) -> Result<CString, NulError> {
    CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())
}

fn null_terminated(pointers: impl Iterator<Item = *const c_char>) -> Vec<*const c_char> {
    pointers.chain([std::ptr::null()]).collect()
}

fn candidates(name: &[u8], path: &[u8]) -> Result<Vec<CString>, NulError> {
    if name.is_empty() {
        return Ok(Vec::new());
    }
    if name.contains(&b'/') {
        return Ok(vec![CString::new(not_an_option(name.to_vec()))?]);
    }
    let directories = path.split(|&byte| byte == b':');
    let join = |directory: &[u8]| match directory {
        b"" => CString::new([b"./", name].concat()),
        _ => CString::new(not_an_option([directory, b"/", name].concat())),
    };
    directories.map(join).collect()
}

/// A script's path is an argument of the shell that runs it, so it must not begin like an option.
fn not_an_option(path: Vec<u8>) -> Vec<u8> {
    if path.starts_with(b"-") {
        [b"./", &path[..]].concat()
    } else {
        path
    }
}

fn execve(path: &CStr, argv: &[*const c_char], envp: &[*const c_char]) -> c_int {
    // SAFETY: both arrays end with a null, and their pointers are to NUL-terminated strings that the
    // image owns.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn kind(path: &CStr) -> Kind {
    // SAFETY: all-zero is a valid stat, and the path is NUL-terminated.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        if libc::stat(path.as_ptr(), &mut stat) != 0 {
            return Kind::Absent;
        }
        match stat.st_mode & libc::S_IFMT {
            libc::S_IFDIR => Kind::Directory,
            libc::S_IFREG if libc::access(path.as_ptr(), libc::X_OK) == 0 => Kind::Executable,
            _ => Kind::Other,
        }
    }
}

/// Whether a file that the kernel does not recognise is no script either: a NUL in its first line.
/// Running such a file under a shell would execute garbage.
fn is_binary(path: &CStr) -> bool {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the path is NUL-terminated.
    let Ok(fd) = uninterrupted(|| unsafe { libc::open(path.as_ptr(), flags) }) else {
        return false;
    };
    let mut start = [0_u8; 128];
    // SAFETY: the kernel writes at most the given length into the buffer; the descriptor is ours.
    let length = unsafe {
        let length = libc::read(fd, start.as_mut_ptr().cast(), start.len());
        libc::close(fd);
        length
    };
    let start = start.iter().take(usize::try_from(length).unwrap_or(0));
    start
        .take_while(|&&byte| byte != b'\n')
        .any(|&byte| byte == 0)
}

/// What stands after `#!` in a script, without its arguments.
fn interpreter(file: &OsStr) -> Option<String> {
    let mut start = [0_u8; 256];
    let length = sys::read_once(std::fs::File::open(file).ok()?, &mut start).ok()?;
    let line = start.get(..length)?.strip_prefix(b"#!")?;
    let line = line.split(|&byte| byte == b'\n').next()?.trim_ascii();
    let word = line.split(|byte| byte.is_ascii_whitespace()).next()?;
    Some(String::from_utf8_lossy(word).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(words: &[&str], path: Option<&str>) -> Image {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let env: Vec<_> = path
            .iter()
            .map(|path| ("PATH".into(), path.into()))
            .collect();
        Image::new(&words, &env).expect("no NUL")
    }

    fn paths(image: &Image) -> Vec<&str> {
        let texts = image.candidates.iter().map(|path| path.to_str());
        texts.collect::<Result<_, _>>().expect("ASCII")
    }

    #[test]
    fn a_name_with_a_slash_is_not_searched() {
        assert_eq!(paths(&image(&["./a"], Some("/x:/y"))), ["./a"]);
        assert_eq!(paths(&image(&["-d/a"], None)), ["./-d/a"]);
    }

    #[test]
    fn an_empty_element_of_the_path_is_the_working_directory() {
        assert_eq!(paths(&image(&["a"], Some("/x::y"))), ["/x/a", "./a", "y/a"]);
        assert_eq!(paths(&image(&["a"], Some(""))), ["./a"]);
        assert_eq!(paths(&image(&["a"], None)).len(), 6);
    }

    #[test]
    fn nothing_is_found_under_an_empty_name() {
        let mut empty = image(&[""], Some("/bin"));
        let failure = empty.exec();
        assert_eq!(failure.code(), 127);
        assert_eq!(empty.explain(failure), ": command not found");
    }

    #[test]
    fn a_nul_in_a_word_or_a_variable_is_an_error() {
        assert!(Image::new(&["a\0b".into()], &[]).is_err());
        assert!(Image::new(&["a".into()], &[("A".into(), "b\0".into())]).is_err());
    }
}
