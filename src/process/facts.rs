//! The facts that keys are made of, as this process finds them.

use super::entry;
use super::stdin_spool::{digest_stdin, digest_stream};
use crate::domain::facts::{FactError, Facts};
use crate::domain::record::Source;
use jiff::tz::TimeZone;
use std::ffi::{CStr, OsStr};
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Tells a batch's present name, given the name that people use; or why it cannot.
pub type BatchNames<'a> = dyn FnMut(&str) -> Result<String, String> + 'a;

/// The facts of this process, each found out when it is first asked for.
pub struct SystemFacts<'a> {
    argv: Vec<Vec<u8>>,
    stdin: BorrowedFd<'a>,
    spool_dir: PathBuf,
    batches: &'a mut BatchNames<'a>,
    stdin_digest: Option<[u8; 32]>,
    spooled_stdin: Option<File>,
}

impl<'a> SystemFacts<'a> {
    /// Facts for the command `argv`, which will read `stdin`. If a digest of a pipe is asked for, what
    /// comes through it is kept in `spool_dir`, which must be private to the user.
    pub fn new(
        argv: Vec<Vec<u8>>,
        stdin: BorrowedFd<'a>,
        spool_dir: &Path,
        batches: &'a mut BatchNames<'a>,
    ) -> SystemFacts<'a> {
        SystemFacts {
            argv,
            stdin,
            spool_dir: spool_dir.to_owned(),
            batches,
            stdin_digest: None,
            spooled_stdin: None,
        }
    }

    /// What the command must be given as its stdin, because the original has been read; none if it
    /// has not.
    pub fn into_spooled_stdin(self) -> Option<File> {
        self.spooled_stdin
    }
}

impl Facts for SystemFacts<'_> {
    fn zone(&mut self) -> Result<TimeZone, FactError> {
        let tz = std::env::var_os("TZ");
        local_zone(TimeZone::try_system().ok(), tz.as_deref())
    }

    fn host(&mut self) -> Result<Vec<u8>, FactError> {
        host_name().map_err(|e| unavailable("the host name", e))
    }

    fn user(&mut self) -> Result<Vec<u8>, FactError> {
        // SAFETY: geteuid takes nothing and cannot fail.
        let uid = unsafe { libc::geteuid() };
        let passwd = std::fs::read("/etc/passwd").unwrap_or_default();
        Ok(user_name(&passwd, uid))
    }

    fn cwd(&mut self) -> Result<Vec<u8>, FactError> {
        match std::env::current_dir() {
            Ok(path) => Ok(path.into_os_string().into_vec()),
            Err(e) => Err(unavailable(
                "the working directory",
                format!("{e}: go to one that exists, or give a key without it"),
            )),
        }
    }

    fn env(&mut self, name: &str) -> Result<Option<Vec<u8>>, FactError> {
        Ok(std::env::var_os(name).map(OsStringExt::into_vec))
    }

    fn argv(&self) -> &[Vec<u8>] {
        &self.argv
    }

    fn git_head(&mut self) -> Result<Vec<u8>, FactError> {
        git_head(Command::new("git"))
            .map_err(|why| unavailable("the commit that git has checked out", why))
    }

    fn file_digest(&mut self, path: &[u8]) -> Result<[u8; 32], FactError> {
        let path = Path::new(OsStr::from_bytes(path));
        open_regular(path)
            .and_then(digest_stream)
            .map_err(|e| unavailable(&format!("the digest of {}", path.display()), e))
    }

    fn stdin_digest(&mut self) -> Result<[u8; 32], FactError> {
        if let Some(digest) = self.stdin_digest {
            return Ok(digest);
        }
        let found = digest_stdin(self.stdin, &self.spool_dir)
            .map_err(|e| unavailable("the digest of stdin", e))?;
        self.spooled_stdin = found.replacement;
        Ok(*self.stdin_digest.insert(found.digest))
    }

    fn batch(&mut self, name: &str) -> Result<Vec<u8>, FactError> {
        match (self.batches)(name) {
            Ok(present) => Ok(present.into_bytes()),
            Err(why) => Err(unavailable(&format!("the name of batch {name}"), why)),
        }
    }
}

fn unavailable(fact: &str, why: impl Display) -> FactError {
    FactError::Unavailable {
        fact: fact.to_owned(),
        why: why.to_string(),
    }
}

/// The time zone of `TZ`, else of `/etc/localtime`, else UTC as POSIX has it.
///
/// A `TZ` that names no zone is an error here, though the C library takes it for UTC: a day that ends
/// at an unexpected hour is a run too many or too few.
fn local_zone(found: Option<TimeZone>, tz: Option<&OsStr>) -> Result<TimeZone, FactError> {
    match (found, tz) {
        (Some(zone), _) => Ok(zone),
        (None, None) => Ok(TimeZone::UTC),
        (None, Some(tz)) => Err(unavailable(
            "the local time",
            format!(
                "TZ={} names no time zone: correct or unset it",
                tz.display()
            ),
        )),
    }
}

fn host_name() -> io::Result<Vec<u8>> {
    let mut names = MaybeUninit::<libc::utsname>::zeroed();
    // SAFETY: uname fills the struct that it is given.
    if unsafe { libc::uname(names.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all bytes were zero, which is valid for arrays of characters, or were filled by uname.
    let names = unsafe { names.assume_init() };
    // SAFETY: uname ends each name with a NUL within its array, which lives until the copy is made.
    let host = unsafe { CStr::from_ptr(names.nodename.as_ptr()) };
    Ok(host.to_bytes().to_owned())
}

/// The name of a user in passwd(5), read by hand because a static program has no name service; the
/// number if it is not there. Never `$USER`, which anyone can set.
fn user_name(passwd: &[u8], uid: u32) -> Vec<u8> {
    let wanted = uid.to_string().into_bytes();
    passwd
        .split(|byte| *byte == b'\n')
        .find_map(|line| {
            let mut fields = line.split(|byte| *byte == b':');
            let name = fields.next().filter(|name| !name.is_empty())?;
            (fields.nth(1) == Some(&wanted)).then(|| name.to_owned())
        })
        .unwrap_or(wanted)
}

/// Opens a regular file, and nothing that blocks when opened or that is used up when read.
fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::other(
        "it is no regular file, whose content stays when it is read",
    ))
}

/// Asks git itself, since only git knows all ways to store a reference: linked worktrees, packed
/// references, reftables, `GIT_DIR`, SHA-256 repositories, and whose repositories it trusts.
///
/// What it prints decides and not its exit status, which is lost where SIGCHLD is ignored.
fn git_head(mut git: Command) -> Result<Vec<u8>, String> {
    git.args(["rev-parse", "--verify", "HEAD^{commit}"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = git.spawn().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            "git is not in PATH: install it, or give a key without it".to_owned()
        }
        _ => format!("git cannot be started: {e}"),
    })?;
    let (printed, said) =
        both_streams(child).map_err(|e| format!("reading from git failed: {e}"))?;
    let head = printed.trim_ascii();
    if matches!(head.len(), 40 | 64) && head.iter().all(u8::is_ascii_hexdigit) {
        return Ok(head.to_owned());
    }
    let said = String::from_utf8_lossy(&said);
    Err(match said.lines().next() {
        Some(line) => format!("git says: {line}"),
        None => "git prints no commit".to_owned(),
    })
}

/// Reads both streams one after the other, which is enough for an answer and a message that fit
/// into a pipe's buffer, and reaps.
fn both_streams(mut child: Child) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let (mut printed, mut said) = (Vec::new(), Vec::new());
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_end(&mut printed)?;
    }
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_end(&mut said)?;
    }
    let _reaped_by_the_kernel_where_sigchld_is_ignored = child.wait();
    Ok((printed, said))
}

/// Whether stdin is a pipe, a socket or a file, so that a command may read something from it.
pub fn stdin_brings_data() -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    let copy = entry::stdin().try_clone_to_owned();
    let kind = copy
        .and_then(|copy| File::from(copy).metadata())
        .map(|metadata| metadata.file_type());
    kind.is_ok_and(|kind| kind.is_file() || kind.is_fifo() || kind.is_socket())
}

/// Who calls, for people who read the record later: the process that the caller started, and that one's
/// parent.
pub fn source(front_pid: i32, parent_pid: i32) -> Source {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    // SAFETY: geteuid takes nothing and cannot fail.
    let uid = unsafe { libc::geteuid() };
    let passwd = std::fs::read("/etc/passwd").unwrap_or_default();
    let comm = std::fs::read(format!("/proc/{parent_pid}/comm")).unwrap_or_default();
    Source {
        host: host_name().map(text).unwrap_or_default(),
        user: text(user_name(&passwd, uid)),
        pid: front_pid,
        parent: text(comm).trim_end_matches('\n').to_owned(),
        label: std::env::var_os("IDEM_SOURCE").map(|label| label.to_string_lossy().into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};
    use std::os::fd::AsFd;

    fn no_batches(name: &str) -> Result<String, String> {
        Err(format!("no store for {name}"))
    }

    fn with_facts<T>(check: impl FnOnce(&mut SystemFacts) -> T) -> T {
        let dir = tempfile::tempdir().unwrap();
        let stdin = File::open("/dev/null").unwrap();
        let mut batches = no_batches;
        let argv = vec![b"true".to_vec()];
        check(&mut SystemFacts::new(
            argv,
            stdin.as_fd(),
            dir.path(),
            &mut batches,
        ))
    }

    /// git as on a machine without settings of its own, in `dir`.
    fn git_in(dir: &Path) -> Command {
        let mut git = Command::new("git");
        git.current_dir(dir)
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .env_remove("GIT_INDEX_FILE")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap_or(dir));
        for role in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{role}_NAME"), "t")
                .env(format!("GIT_{role}_EMAIL"), "t@t");
        }
        git
    }

    fn git(dir: &Path, args: &[&str]) -> Vec<u8> {
        let output = git_in(dir).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        output.stdout.trim_ascii().to_owned()
    }

    #[test]
    fn the_machine_tells_its_name() {
        let host = with_facts(|facts| facts.host()).unwrap();
        let kernel = std::fs::read("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(host, kernel.trim_ascii());
    }

    #[test]
    fn the_user_is_the_one_of_the_number() {
        let passwd = b"root:x:0:0:root:/root:/bin/sh\n#x\n\n+::::::\ndeploy:x:1001:1001::/srv:/bin/sh\nbad\n:x:7:\nr\xffx:x:8:8";
        assert_eq!(user_name(passwd, 0), b"root");
        assert_eq!(user_name(passwd, 1001), b"deploy");
        assert_eq!(user_name(passwd, 8), b"r\xffx");
        assert_eq!(user_name(passwd, 7), b"7");
        assert_eq!(user_name(b"", 1000), b"1000");
        assert!(!with_facts(|facts| facts.user()).unwrap().is_empty());
    }

    #[test]
    fn directory_and_environment_are_those_of_the_process() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(
            with_facts(|facts| facts.cwd()).unwrap(),
            here.as_os_str().as_bytes()
        );
        let path = std::env::var_os("PATH").map(OsStringExt::into_vec);
        assert_eq!(with_facts(|facts| facts.env("PATH")).unwrap(), path);
        assert_eq!(
            with_facts(|facts| facts.env("IDEM_NOT_SET_AT_ALL")).unwrap(),
            None
        );
    }

    #[test]
    fn a_tz_that_names_no_zone_is_an_error_and_none_is_utc() {
        let fixed = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(local_zone(Some(fixed.clone()), None), Ok(fixed));
        assert_eq!(local_zone(None, None), Ok(TimeZone::UTC));
        let error = local_zone(None, Some(OsStr::new("Mars/Base"))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot tell the local time: TZ=Mars/Base names no time zone: correct or unset it"
        );
    }

    #[test]
    fn a_batch_that_cannot_be_told_is_an_error() {
        let error = with_facts(|facts| facts.batch("nightly")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot tell the name of batch nightly: no store for nightly"
        );
    }

    #[test]
    fn only_regular_files_have_a_digest() {
        let dir = tempfile::tempdir().unwrap();
        let of = |path: &Path| with_facts(|facts| facts.file_digest(path.as_os_str().as_bytes()));
        let file = dir.path().join(OsStr::from_bytes(b"f\xff"));
        std::fs::write(&file, "abc").unwrap();
        let digest = crate::domain::name::hex(&of(&file).unwrap());
        // the first example of FIPS 180
        assert_eq!(
            digest,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        let fifo = dir.path().join("fifo");
        assert!(
            Command::new("mkfifo")
                .arg(&fifo)
                .status()
                .unwrap()
                .success()
        );
        for path in [
            dir.path(),
            &fifo,
            Path::new("/dev/null"),
            &dir.path().join("gone"),
        ] {
            assert!(of(path).is_err(), "{}", path.display());
        }
        let error = of(&fifo).unwrap_err().to_string();
        assert!(error.contains("no regular file"), "{error}");
    }

    #[test]
    fn stdin_is_read_once_and_then_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"abc").unwrap();
        drop(writer);
        let mut batches = no_batches;
        let mut facts = SystemFacts::new(Vec::new(), reader.as_fd(), dir.path(), &mut batches);
        let first = facts.stdin_digest().unwrap();
        assert_eq!(facts.stdin_digest().unwrap(), first);
        let mut spooled = facts.into_spooled_stdin().unwrap();
        assert_eq!(spooled.stream_position().unwrap(), 0);
        assert_eq!(io::read_to_string(spooled).unwrap(), "abc");
    }

    #[test]
    fn git_tells_its_head_from_a_linked_worktree_with_packed_references() {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &["init", "-q"]);
        git(dir.path(), &["commit", "-q", "--allow-empty", "-m", "one"]);
        git(
            dir.path(),
            &["worktree", "add", "-q", "-b", "other", "linked"],
        );
        let linked = dir.path().join("linked");
        git(&linked, &["commit", "-q", "--allow-empty", "-m", "two"]);
        git(dir.path(), &["pack-refs", "--all"]);
        let (main, other) = (git_head(git_in(dir.path())), git_head(git_in(&linked)));
        assert_eq!(main, Ok(git(dir.path(), &["rev-parse", "HEAD"])));
        assert_eq!(other, Ok(git(dir.path(), &["rev-parse", "other"])));
        assert_ne!(main, other);
    }

    #[test]
    fn no_commit_is_an_error_in_the_words_of_git() {
        let dir = tempfile::tempdir().unwrap();
        let error = git_head(git_in(dir.path())).unwrap_err();
        assert!(error.starts_with("git says: fatal: "), "{error}");
        git(dir.path(), &["init", "-q"]);
        assert!(git_head(git_in(dir.path())).is_err());
        let error = git_head(Command::new("/nonexistent/git")).unwrap_err();
        assert!(error.contains("give a key without it"), "{error}");
        assert_eq!(
            git_head(Command::new("true")),
            Err("git prints no commit".to_owned())
        );
    }
}
