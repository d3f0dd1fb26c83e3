//! System calls: which of them are steps that matter, what they are called, and how they can fail.

use libc::{
    EACCES, EAGAIN, EINTR, EIO, EMFILE, ENOLCK, ENOMEM, ENOSPC, EPERM, EPIPE, F_GETLK, F_OFD_GETLK,
    F_OFD_SETLK, F_OFD_SETLKW, F_SETLK, F_SETLKW,
};

use crate::trace::Process;

/// `F_DUPFD_CLOEXEC`.
const DUPLICATE: i32 = libc::F_DUPFD_CLOEXEC;

/// Stands for the commands that release a lock, which a kernel never refuses.
const RELEASE: i32 = -1;

/// A kind of system call. The commands of fcntl(2) are calls of their own, and so are reads and writes of
/// pipes and the like, which no disk can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    nr: i64,
    command: i32,
    off_disk: bool,
}

/// Calls on a descriptor that may be a file or not.
const EITHER: &[i64] = &[libc::SYS_read, libc::SYS_write, libc::SYS_close];

/// Calls by their number, with the errors that they are tried with. What is missing here and not among
/// [`HARMLESS`] is a point to be killed at, and never fails.
const CALLS: &[(i64, &str, &[i32])] = &[
    (libc::SYS_read, "read", &[EIO, EINTR]),
    (libc::SYS_write, "write", &[ENOSPC, EIO, EINTR]),
    (libc::SYS_pread64, "pread64", &[EIO]),
    (libc::SYS_pwrite64, "pwrite64", &[ENOSPC, EIO]),
    (libc::SYS_fsync, "fsync", &[EIO, ENOSPC]),
    (libc::SYS_fdatasync, "fdatasync", &[EIO, ENOSPC]),
    (libc::SYS_ftruncate, "ftruncate", &[ENOSPC, EIO]),
    (libc::SYS_fallocate, "fallocate", &[ENOSPC]),
    (libc::SYS_openat, "openat", &[EMFILE, EACCES, ENOSPC, EINTR]),
    (libc::SYS_close, "close", &[EIO]),
    (libc::SYS_fcntl, "fcntl", &[]),
    (libc::SYS_flock, "flock", &[EINTR, ENOLCK]),
    (libc::SYS_poll, "poll", &[EINTR, ENOMEM]),
    (libc::SYS_ppoll, "ppoll", &[EINTR, ENOMEM]),
    (libc::SYS_clone, "clone", &[EAGAIN, ENOMEM]),
    (libc::SYS_clone3, "clone3", &[EAGAIN, ENOMEM]),
    (libc::SYS_fork, "fork", &[EAGAIN, ENOMEM]),
    (libc::SYS_vfork, "vfork", &[EAGAIN, ENOMEM]),
    (libc::SYS_execve, "execve", &[ENOMEM, EACCES]),
    (libc::SYS_pipe2, "pipe2", &[EMFILE]),
    (libc::SYS_socketpair, "socketpair", &[EMFILE]),
    (libc::SYS_signalfd4, "signalfd4", &[EMFILE]),
    (libc::SYS_eventfd2, "eventfd2", &[EMFILE]),
    (libc::SYS_pidfd_open, "pidfd_open", &[EMFILE]),
    (libc::SYS_sendto, "sendto", &[EPIPE]),
    (libc::SYS_recvfrom, "recvfrom", &[EINTR]),
    (libc::SYS_mkdir, "mkdir", &[ENOSPC, EACCES]),
    (libc::SYS_unlink, "unlink", &[EACCES, EIO]),
    (libc::SYS_rename, "rename", &[ENOSPC, EIO]),
    (libc::SYS_link, "link", &[ENOSPC, EIO]),
    (libc::SYS_chmod, "chmod", &[EPERM]),
    (libc::SYS_fchmod, "fchmod", &[EPERM]),
    (libc::SYS_fchown, "fchown", &[EPERM]),
    (libc::SYS_mmap, "mmap", &[ENOMEM]),
    (libc::SYS_waitid, "waitid", &[EINTR]),
    (libc::SYS_wait4, "wait4", &[EINTR]),
    (libc::SYS_setpgid, "setpgid", &[EPERM]),
    (libc::SYS_prctl, "prctl", &[EPERM]),
    (libc::SYS_kill, "kill", &[EPERM]),
    (libc::SYS_getdents64, "getdents64", &[EIO]),
    (libc::SYS_sendfile, "sendfile", &[EIO]),
    (libc::SYS_clock_nanosleep, "clock_nanosleep", &[EINTR]),
    (libc::SYS_newfstatat, "newfstatat", &[EIO]),
    (libc::SYS_statx, "statx", &[EIO]),
    (libc::SYS_dup2, "dup2", &[EMFILE]),
    (libc::SYS_dup3, "dup3", &[EMFILE]),
    (libc::SYS_exit_group, "exit_group", &[]),
    (libc::SYS_futex, "futex", &[]),
];

/// Calls that change nothing outside of their process and learn nothing that can change: a kill before
/// one of them is the same as one before the next.
const HARMLESS: &[i64] = &[
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_brk,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_madvise,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getpgrp,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getcwd,
    libc::SYS_uname,
    libc::SYS_readlink,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_prlimit64,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_getrandom,
    libc::SYS_sched_getaffinity,
    libc::SYS_sigaltstack,
];

/// Calls that only look: they can fail, and killing at them is as good as killing at the next.
const LOOKS: &[i64] = &[libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_mmap];

/// The commands of fcntl(2) that matter, by name, with their errors.
const COMMANDS: &[(i32, &str, &[i32])] = &[
    (F_SETLK, "fcntl:setlk", &[EAGAIN, ENOLCK]),
    (F_SETLKW, "fcntl:setlkw", &[EINTR, ENOLCK]),
    (F_GETLK, "fcntl:getlk", &[ENOLCK]),
    (F_OFD_SETLK, "fcntl:ofd_setlk", &[EAGAIN, ENOLCK]),
    (F_OFD_SETLKW, "fcntl:ofd_setlkw", &[EINTR, ENOLCK]),
    (F_OFD_GETLK, "fcntl:ofd_getlk", &[ENOLCK]),
    (RELEASE, "fcntl:unlock", &[]),
    (DUPLICATE, "fcntl:dupfd", &[EMFILE]),
];

/// Errors that mean "try again": the call must go as if nothing had been.
const AGAIN: &[&str] = &[
    "read",
    "read:pipe",
    "write:pipe",
    "poll",
    "ppoll",
    "recvfrom",
    "waitid",
    "wait4",
    "flock",
    "clock_nanosleep",
    "openat",
    "fcntl:ofd_setlkw",
];

impl Step {
    /// A call with this number and these arguments.
    pub fn new(nr: i64, args: &[u64; 6], process: &Process) -> Step {
        let command = match args[1] as i32 {
            _ if nr == libc::SYS_openat => args[2] as i32 & libc::O_DIRECTORY,
            _ if nr != libc::SYS_fcntl => 0,
            F_SETLK | F_OFD_SETLK if process.unlocks(args[2]) => RELEASE,
            command => command,
        };
        Step {
            nr,
            command,
            off_disk: EITHER.contains(&nr) && !process.is_on_disk(args[0]),
        }
    }

    /// Whether it is a step at all.
    pub fn matters(self, args: &[u64; 6]) -> bool {
        if self.nr == libc::SYS_fcntl {
            return self.command().is_some();
        }
        // Memory that no file stands behind is the allocator's business.
        let anonymous = self.nr == libc::SYS_mmap && args[4] as i32 == -1;
        !anonymous && !HARMLESS.contains(&self.nr)
    }

    /// Whether being killed before it differs from being killed before the next one.
    pub fn acts(self) -> bool {
        !LOOKS.contains(&self.nr)
    }

    /// Whether it moves bytes or names to the disk, so that what fails once may go on failing.
    pub fn fills_disk(self) -> bool {
        let calls = [
            libc::SYS_pwrite64,
            libc::SYS_write,
            libc::SYS_fdatasync,
            libc::SYS_ftruncate,
        ];
        calls.contains(&self.nr) && !self.off_disk
    }

    /// Whether it can read a page of the database.
    pub fn reads_pages(self) -> bool {
        self.nr == libc::SYS_pread64
    }

    /// The errors that it is tried with.
    pub fn errors(self) -> impl Iterator<Item = i32> {
        let errors = match self.command() {
            Some((_, errors)) => errors,
            None => CALLS
                .iter()
                .find(|(nr, ..)| *nr == self.nr)
                .map_or(&[][..], |(_, _, errors)| errors),
        };
        // A signal interrupts what waits, and a device fails what goes to the disk.
        let fits = move |errno: &i32| match *errno {
            EINTR => !self.is_of_directory(),
            _ => !self.off_disk,
        };
        errors.iter().copied().filter(fits)
    }

    fn is_of_directory(self) -> bool {
        self.nr == libc::SYS_openat && self.command != 0
    }

    fn command(self) -> Option<(&'static str, &'static [i32])> {
        let mut commands = COMMANDS.iter().filter(|_| self.nr == libc::SYS_fcntl);
        let found = commands.find(|(command, ..)| *command == self.command);
        found.map(|(_, name, errors)| (*name, *errors))
    }

    /// Whether this error must not be noticed by anyone.
    pub fn hides(self, errno: i32) -> bool {
        errno == EINTR && AGAIN.contains(&self.name().as_str())
    }

    /// Its name in the list of points.
    pub fn name(self) -> String {
        match self.command() {
            Some((name, _)) => name.to_owned(),
            None if self.is_of_directory() => format!("{}:dir", name(self.nr)),
            None if self.off_disk => format!("{}:pipe", name(self.nr)),
            None => name(self.nr),
        }
    }
}

/// The name of a call.
pub fn name(nr: i64) -> String {
    let call = CALLS.iter().find(|(number, ..)| *number == nr);
    call.map_or_else(|| format!("syscall{nr}"), |(_, name, _)| (*name).to_owned())
}

/// The name of an error.
pub fn errno_name(errno: i32) -> &'static str {
    match errno {
        EACCES => "EACCES",
        EAGAIN => "EAGAIN",
        EINTR => "EINTR",
        EIO => "EIO",
        EMFILE => "EMFILE",
        ENOLCK => "ENOLCK",
        ENOMEM => "ENOMEM",
        ENOSPC => "ENOSPC",
        EPERM => "EPERM",
        EPIPE => "EPIPE",
        _ => "?",
    }
}
