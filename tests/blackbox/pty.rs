//! A small driver of a pseudo-terminal: a shell as its session leader, typed at and read from.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::command::{Cmd, Running};
use crate::env::{LIMIT, TestEnv};
use crate::screen::Screen;

/// What the shells print when they wait for a command; no command or output of a test has it.
pub const PROMPT: &str = "READY> ";

/// The size of a terminal that no test asks for another size of.
const ROWS: u16 = 24;
const COLUMNS: u16 = 80;

/// A terminal with a shell on it. Dropping it hangs the terminal up.
pub struct Pty {
    master: Option<File>,
    shell: Running,
    seen: Arc<Mutex<Vec<u8>>>,
    read_to: usize,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
    columns: u16,
}

impl Pty {
    /// An interactive shell, `bash` or `dash`, at its first prompt.
    #[track_caller]
    pub fn shell(t: &TestEnv, shell: &str) -> Pty {
        Pty::shell_of_width(t, shell, COLUMNS)
    }

    /// The same with so many columns.
    #[track_caller]
    pub fn shell_of_width(t: &TestEnv, shell: &str, columns: u16) -> Pty {
        let command = match shell {
            "bash" => t
                .command("bash")
                .args(["--noprofile", "--norc", "--noediting", "-i"]),
            other => t.command(other).arg("-i"),
        };
        let env = command
            .env("PS1", PROMPT)
            .env("TERM", "xterm")
            .env("HISTFILE", "");
        let mut pty = Pty::start_of_width(env, columns);
        pty.expect(PROMPT);
        pty
    }

    /// Any command as the leader of a new session on a new terminal of 24 rows and 80 columns.
    #[track_caller]
    pub fn start(command: Cmd) -> Pty {
        Pty::start_of_width(command, COLUMNS)
    }

    /// The same with so many columns.
    #[track_caller]
    pub fn start_of_width(command: Cmd, columns: u16) -> Pty {
        let (master, slave) = open();
        set_size(&master, ROWS, columns);
        let copy = || slave.try_clone().expect("a copy of the terminal");
        let lead = || {
            // SAFETY: plain system calls in the new process, on its own standard input.
            let led = unsafe { libc::setsid() != -1 && libc::ioctl(0, libc::TIOCSCTTY, 0) != -1 };
            if led {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        };
        let shell = command
            .stdin(copy())
            .stdout(copy())
            .stderr(copy())
            .before(lead)
            .start();
        drop(slave);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let source = master.try_clone().expect("a copy of the terminal");
        let (sink, stopped) = (Arc::clone(&seen), Arc::clone(&stop));
        let reader = std::thread::spawn(move || collect(source, &sink, &stopped));
        Pty {
            master: Some(master),
            shell,
            seen,
            read_to: 0,
            stop,
            reader: Some(reader),
            columns,
        }
    }

    /// What it shows so far.
    #[track_caller]
    pub fn screen(&self) -> Screen {
        Screen::new(&self.seen(), ROWS.into(), self.columns.into())
    }

    /// What it shows once nobody has it open any more: its leader and everything else have ended.
    #[track_caller]
    pub fn last_screen(mut self) -> Screen {
        let reader = self.reader.take().expect("a reader");
        crate::env::upto("nobody has the terminal open", || reader.is_finished());
        self.screen()
    }

    fn master(&self) -> &File {
        self.master.as_ref().expect("an open terminal")
    }

    /// The shell's PID.
    pub fn pid(&self) -> i32 {
        self.shell.pid()
    }

    /// Types.
    pub fn send(&mut self, text: &str) {
        self.master()
            .write_all(text.as_bytes())
            .expect("a terminal that takes input");
    }

    /// Types a line.
    pub fn line(&mut self, text: &str) {
        self.send(&format!("{text}\n"));
    }

    /// Types a control character.
    pub fn control(&mut self, letter: char) {
        let code = (letter.to_ascii_lowercase() as u8) & 0x1f;
        self.master()
            .write_all(&[code])
            .expect("a terminal that takes input");
    }

    /// Waits until this shows up after everything that was waited for before, and gives what came first.
    #[track_caller]
    pub fn expect(&mut self, wanted: &str) -> String {
        self.shows_within(wanted, LIMIT).unwrap_or_else(|| {
            let seen = self.seen();
            panic!(
                "the terminal never showed {wanted:?}\nall: {}\nnews: {:?}",
                String::from_utf8_lossy(&seen),
                String::from_utf8_lossy(&seen[self.read_to..])
            )
        })
    }

    fn shows_within(&mut self, wanted: &str, limit: Duration) -> Option<String> {
        let end = Instant::now() + limit;
        loop {
            let seen = self.seen();
            let news = &seen[self.read_to..];
            let at = news
                .windows(wanted.len())
                .position(|w| w == wanted.as_bytes());
            if let Some(at) = at {
                self.read_to += at + wanted.len();
                return Some(String::from_utf8_lossy(&news[..at]).into_owned());
            }
            if Instant::now() >= end {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Types a command and waits for the next prompt; gives what was shown between.
    #[track_caller]
    pub fn run(&mut self, command: &str) -> String {
        self.line(command);
        self.expect(PROMPT)
    }

    /// The shell takes a command and answers.
    #[track_caller]
    pub fn still_works(&mut self) {
        self.line("echo still-$((1+1))");
        self.expect("still-2");
        self.expect(PROMPT);
    }

    fn seen(&self) -> Vec<u8> {
        self.seen.lock().expect("what was seen").clone()
    }

    /// Changes the window's size.
    pub fn resize(&mut self, rows: u16, columns: u16) {
        set_size(self.master(), rows, columns);
    }

    /// The terminal's input, output and local modes.
    pub fn modes(&self) -> [u32; 3] {
        // SAFETY: tcgetattr fills one termios; the master shows the modes of its terminal.
        unsafe {
            let mut modes: libc::termios = std::mem::zeroed();
            assert_eq!(
                libc::tcgetattr(self.master().as_raw_fd(), &raw mut modes),
                0
            );
            [modes.c_iflag, modes.c_oflag, modes.c_lflag]
        }
    }

    /// The process group in the foreground.
    pub fn foreground(&self) -> i32 {
        // SAFETY: tcgetpgrp has no memory preconditions.
        unsafe { libc::tcgetpgrp(self.master().as_raw_fd()) }
    }

    /// Waits until the shell's own group is in the foreground again.
    #[track_caller]
    pub fn upto_shell_in_front(&self) {
        crate::env::upto("the shell has the terminal", || {
            self.foreground() == self.pid()
        });
    }

    /// Takes the terminal away.
    pub fn vanish(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader");
        }
        self.master = None;
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        self.vanish();
    }
}

fn set_size(master: &File, rows: u16, columns: u16) {
    let size = libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCSWINSZ reads one winsize.
    unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
}

/// A new pseudo-terminal that no other test's child inherits.
fn open() -> (File, File) {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: plain calls on a descriptor that gets one owner; the name's buffer is long enough.
    unsafe {
        let fd = libc::posix_openpt(flags);
        assert!(
            fd >= 0,
            "no pseudo-terminal: {}",
            std::io::Error::last_os_error()
        );
        let master = OwnedFd::from_raw_fd(fd);
        assert_eq!((libc::grantpt(fd), libc::unlockpt(fd)), (0, 0));
        let mut name = [0; 64];
        assert_eq!(libc::ptsname_r(fd, name.as_mut_ptr(), name.len()), 0);
        let slave = libc::open(name.as_ptr(), flags);
        assert!(
            slave >= 0,
            "no terminal: {}",
            std::io::Error::last_os_error()
        );
        (File::from(master), File::from(OwnedFd::from_raw_fd(slave)))
    }
}

/// Reads the terminal until it is gone or the test has had enough.
fn collect(mut source: File, sink: &Mutex<Vec<u8>>, stop: &AtomicBool) {
    let mut chunk = [0u8; 4096];
    while !stop.load(Ordering::Relaxed) {
        let mut ready = libc::pollfd {
            fd: source.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: poll reads and writes one pollfd.
        if unsafe { libc::poll(&raw mut ready, 1, 50) } <= 0 {
            continue;
        }
        match source.read(&mut chunk) {
            Ok(n) if n > 0 => sink
                .lock()
                .expect("what was seen")
                .extend_from_slice(&chunk[..n]),
            _ => return,
        }
    }
}
