use std::os::fd::{AsRawFd, OwnedFd};

use super::*;
use crate::domain::outcome::Exit;
use crate::process::testing::{LIMIT, own_process, script, until};

/// An empty list of PIDs.
const NOBODY: [i32; 0] = [];
const SOON: Duration = Duration::from_millis(50);

/// A tree below this process, started by a script that writes a line to `$1/ready` when it stands.
struct Tree {
    home: tempfile::TempDir,
    child: ProcessRef,
    foreign: Vec<ProcessRef>,
}

impl Tree {
    fn start(text: &str) -> Tree {
        sys::become_subreaper().expect("subreaper");
        let foreign = proc::below_this().expect("/proc");
        let home = tempfile::tempdir().expect("directory");
        let child = script(text, &[home.path().to_str().expect("UTF-8")]);
        let child = child
            .fork()
            .expect("fork")
            .open_gate()
            .expect("exec")
            .process;
        Tree {
            home,
            child,
            foreign,
        }
    }

    fn ready(&self, lines: usize) {
        until(|| self.lines("ready") == lines);
    }

    fn lines(&self, file: &str) -> usize {
        let text = std::fs::read_to_string(self.home.path().join(file));
        text.map_or(0, |text| text.lines().count())
    }

    fn target(&self) -> Target {
        Target {
            child: self.child,
            foreign: self.foreign.clone(),
        }
    }

    fn end(&self, kill_after: Duration) -> Vec<i32> {
        finish(Termination::begin(self.target(), monotonic(), kill_after))
    }

    fn exit(&self) -> Option<Exit> {
        wait::reap(self.child.pid).expect("our child")
    }

    fn is_empty(&self) -> bool {
        let listing = Listing::take().expect("processes");
        let tree = listing.descendants(std::process::id().cast_signed(), &self.foreign);
        tree.iter()
            .all(|process| process.id == self.child && process.ended)
    }
}

/// What a keeper's loop does: it looks whenever a child has ended, and when it is asked to.
fn finish<S: Signals>(mut termination: Termination<S>) -> Vec<i32> {
    let limit = monotonic() + LIMIT;
    loop {
        let wake_at = match termination.poll(monotonic()) {
            Progress::Pending { wake_at } => wake_at,
            Progress::Done { survivors } => return survivors,
        };
        assert!(monotonic() < limit, "the tree did not end in time");
        let child = termination.target.child;
        wait_for_an_end(child, wake_at.min(limit).saturating_sub(monotonic()));
    }
}

/// The harness has another thread, which would take the SIGCHLD that a keeper waits for. Instead of it
/// come the children themselves, those included that ended since the last look.
fn wait_for_an_end(child: ProcessRef, pause: Duration) {
    let children = proc::children().expect("/proc").into_iter();
    let is_new =
        |pid: &i32| proc::process(*pid).is_ok_and(|process| process.id != child || !process.ended);
    let alive = children.filter(is_new);
    let pidfds: Vec<OwnedFd> = alive.flat_map(sys::pidfd_open).collect();
    let watched = |pidfd: &OwnedFd| libc::pollfd {
        fd: pidfd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut watched: Vec<libc::pollfd> = pidfds.iter().map(watched).collect();
    let count = watched.len() as libc::nfds_t;
    let milliseconds = c_int::try_from(pause.as_millis()).expect("a short pause") + 1;
    // SAFETY: that many complete pollfds, which outlive the call.
    sys::uninterrupted(|| unsafe { libc::poll(watched.as_mut_ptr(), count, milliseconds) })
        .expect("poll");
}

#[test]
fn a_tree_that_listens_ends_at_sigterm() {
    own_process!("a_tree_that_listens_ends_at_sigterm", || {
        let tree = Tree::start("sleep 1000 & echo >> $1/ready; wait");
        tree.ready(1);
        assert_eq!(tree.end(LIMIT), NOBODY);
        assert_eq!(tree.exit(), Some(Exit::Signal(libc::SIGTERM)));
        assert!(tree.is_empty());
    });
}

#[test]
fn a_stopped_tree_is_continued_to_end() {
    own_process!("a_stopped_tree_is_continued_to_end", || {
        let tree = Tree::start("trap 'exit 7' TERM; echo >> $1/ready; kill -STOP $$; exit 9");
        tree.ready(1);
        until(|| {
            wait::next_change(tree.child.pid).expect("child")
                == Some(wait::Change::Stopped(libc::SIGSTOP))
        });
        assert_eq!(tree.end(LIMIT), NOBODY);
        assert_eq!(tree.exit(), Some(Exit::Code(7)));
    });
}

#[test]
fn a_handler_of_sigterm_finishes_its_work() {
    own_process!("a_handler_of_sigterm_finishes_its_work", || {
        let clean_up = "(trap : TERM; sleep 0.2; echo >> $1/cleaned); exit 7";
        let text =
            format!("trap '{clean_up}' TERM; echo >> $1/ready; while :; do sleep 0.01; done");
        let tree = Tree::start(&text);
        tree.ready(1);
        assert_eq!(tree.end(LIMIT), NOBODY);
        assert_eq!(tree.exit(), Some(Exit::Code(7)));
        assert_eq!(tree.lines("cleaned"), 1);
    });
}

#[test]
fn a_tree_that_does_not_listen_is_killed() {
    own_process!("a_tree_that_does_not_listen_is_killed", || {
        let deaf = "trap \"\" TERM; echo >> $1/ready; while :; do sleep 1000; done";
        let text = format!("sh -c '{deaf}' sh $1 & setsid sh -c '{deaf}' sh $1 & {deaf}");
        let tree = Tree::start(&text);
        tree.ready(3);
        let mut termination = Termination::begin(tree.target(), monotonic(), LIMIT);
        let progress = termination.poll(monotonic());
        assert!(matches!(progress, Progress::Pending { .. }), "{progress:?}");
        assert_eq!(tree.exit(), None);
        assert_eq!(tree.end(SOON), NOBODY);
        assert_eq!(tree.exit(), Some(Exit::Signal(libc::SIGKILL)));
        assert!(tree.is_empty());
    });
}

#[test]
fn other_sessions_and_double_forks_are_asked_and_found() {
    own_process!(
        "other_sessions_and_double_forks_are_asked_and_found",
        || {
            let polite = "trap \"echo >> $1/asked; exit\" TERM; echo >> $1/ready; while :; do sleep 0.01; done";
            let twice = format!("setsid sh -c '(sh -c \"$1\" sh $2 &) & exit' sh '{polite}' $1");
            let tree = Tree::start(&format!("{twice} & setsid sh -c '{polite}' sh $1 & wait"));
            tree.ready(2);
            assert_eq!(tree.end(LIMIT), NOBODY);
            assert_eq!(tree.lines("asked"), 2);
            assert_eq!(tree.exit(), Some(Exit::Signal(libc::SIGTERM)));
            assert!(tree.is_empty());
        }
    );
}

#[test]
fn what_a_dead_child_left_is_ended_too() {
    own_process!("what_a_dead_child_left_is_ended_too", || {
        let deaf = "trap \"\" TERM; echo >> $1/ready; while :; do sleep 1000; done";
        let tree = Tree::start(&format!(
            "setsid sh -c '{deaf}' sh $1 & sh -c '{deaf}' sh $1 &"
        ));
        tree.ready(2);
        until(|| wait::peek(tree.child.pid).expect("our child").is_some());
        assert_eq!(tree.exit(), Some(Exit::Code(0)));
        assert_eq!(tree.end(SOON), NOBODY);
        assert!(tree.is_empty());
    });
}

#[test]
fn a_tree_that_keeps_forking_is_caught() {
    own_process!("a_tree_that_keeps_forking_is_caught", || {
        // Each generation is a session of its own, ignores SIGTERM, starts the next one and ends.
        let runner = "trap \"\" TERM; echo >> $1/ready; setsid sh \"$1/next\" $1 &";
        let tree = Tree::start("while ! test -e $1/next; do :; done; setsid sh $1/next $1 & wait");
        let next = tree.home.path().join("next.tmp");
        std::fs::write(&next, runner).expect("write");
        std::fs::rename(&next, tree.home.path().join("next")).expect("rename");
        until(|| tree.lines("ready") > 5);
        assert_eq!(tree.end(SOON), NOBODY);
        assert!(tree.is_empty());
    });
}

#[test]
fn what_was_there_before_is_left_alone() {
    own_process!("what_was_there_before_is_left_alone", || {
        let before = Tree::start("sleep 1000 & echo >> $1/ready; wait");
        before.ready(1);
        let tree = Tree::start("echo >> $1/ready; exec sleep 1000");
        assert_eq!(tree.foreign.len(), 2);
        tree.ready(1);
        assert_eq!(tree.end(LIMIT), NOBODY);
        assert_eq!(tree.exit(), Some(Exit::Signal(libc::SIGTERM)));
        assert!(tree.is_empty());
        let still = before.foreign.is_empty() && !before.is_empty();
        assert!(still && before.exit().is_none());
        assert_eq!(before.end(LIMIT), NOBODY);
    });
}

/// Another user's processes: no signal reaches the one with this PID.
struct Protecting {
    pid: i32,
    refused: usize,
}

impl Signals for Protecting {
    fn to_group(&mut self, _: i32, _: c_int) -> io::Result<()> {
        Err(io::Error::from_raw_os_error(libc::EPERM))
    }

    fn to_process(&mut self, process: ProcessRef, signal: c_int) -> io::Result<()> {
        if process.pid != self.pid {
            return Kernel.to_process(process, signal);
        }
        self.refused += 1;
        Err(io::Error::from_raw_os_error(libc::EPERM))
    }
}

#[test]
fn what_cannot_be_killed_is_told_and_not_waited_for() {
    own_process!("what_cannot_be_killed_is_told_and_not_waited_for", || {
        let tree = Tree::start("sleep 1000 & echo >> $1/ready; exec sleep 1000");
        tree.ready(1);
        let pid = tree.child.pid;
        let signals = Protecting { pid, refused: 0 };
        let start = monotonic();
        let mut termination = Termination::begin_with(signals, tree.target(), start, SOON);
        let killing = start + SOON;
        let mut progress = termination.poll(killing);
        while let Progress::Pending { wake_at } = progress {
            assert!(wake_at > killing && wake_at <= killing + GIVE_UP_AFTER);
            let only_child = || {
                Listing::take()
                    .expect("/proc")
                    .children(pid)
                    .all(|child| child.ended)
            };
            until(only_child);
            progress = termination.poll(killing + GIVE_UP_AFTER);
        }
        assert_eq!(
            progress,
            Progress::Done {
                survivors: vec![pid]
            }
        );
        assert!(termination.signals.refused > 0);
        assert_eq!(tree.end(SOON), NOBODY);
    });
}

#[test]
fn a_reused_pid_is_not_signalled() {
    own_process!("a_reused_pid_is_not_signalled", || {
        let tree = Tree::start("echo >> $1/ready; exec sleep 1000");
        tree.ready(1);
        let another = ProcessRef {
            start_ticks: tree.child.start_ticks - 1,
            ..tree.child
        };
        Kernel.to_process(another, libc::SIGKILL).expect("nobody");
        assert!(proc::is_alive(tree.child).expect("known"));
        Kernel
            .to_process(tree.child, libc::SIGKILL)
            .expect("killed");
        until(|| !proc::is_alive(tree.child).expect("known"));
    });
}

#[test]
fn adopted_orphans_are_reaped_and_the_child_is_not() {
    own_process!("adopted_orphans_are_reaped_and_the_child_is_not", || {
        let tree = Tree::start("(setsid true &); exit 3");
        let this = std::process::id().cast_signed();
        until(|| {
            reap_adopted(&[tree.child]).expect("/proc");
            let listing = Listing::take().expect("/proc");
            listing
                .children(this)
                .all(|process| process.id == tree.child && process.ended)
        });
        assert_eq!(tree.exit(), Some(Exit::Code(3)));
    });
}
