//! Jobs of cron and of systemd's timers.

use crate::readme::recipe;
use crate::world::{GATE, World, today_and_tomorrow};

/// The commands of a crontab, as cron hands them to the shell.
#[track_caller]
fn jobs(name: &str) -> Vec<String> {
    let crontab = recipe(name);
    let lines = crontab.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            assert!(!line.contains('%'), "crontab eats the %: {line}");
            let mut rest = line;
            for _ in 0..5 {
                let (field, behind) = rest.split_once(' ').expect("five fields");
                let of_time = |c: char| c.is_ascii_digit() || "*/,-".contains(c);
                assert!(!field.is_empty() && field.chars().all(of_time), "{line}");
                rest = behind.trim_start();
            }
            rest.to_owned()
        })
        .collect()
}

#[test]
fn a_daily_job_runs_once_a_day_and_repeats_in_silence() {
    let w = World::new();
    w.tool(
        "backup",
        "echo \"$*\" >>n; echo saved; echo 'one skipped' >&2",
    );
    let (today, tomorrow) = today_and_tomorrow();
    let job = &jobs("cron-daily")[0];
    let at = |day: &str| w.sh(job).env("TZ", day).end();
    at(&today).code(0).out("saved\n").err("one skipped\n");
    at(&today).code(0).out("").err("");
    at(&today).code(0).out("").err("");
    assert_eq!(w.t.read("n"), "--all\n");
    at(&tomorrow).code(0).out("saved\n");
    assert_eq!(w.t.lines("n"), 2);
}

#[test]
fn a_job_that_is_still_running_is_skipped() {
    let w = World::new();
    w.tool("sync-orders", &format!("echo x >>n; {GATE}; echo synced"));
    let job = &jobs("cron-overlap")[0];
    let first = w.sh(job).start();
    w.t.upto_lines("n", 1);
    w.sh(job).end().code(0).out("").err("");
    w.t.touch("go");
    first.end().code(0).out("synced\n");
    assert_eq!(w.t.lines("n"), 1);
}

/// Fails until there is a file called `data`.
const NEEDS_DATA: &str =
    "echo x >>n; test -e data || { echo 'no data' >&2; exit 3; }; echo written";

#[test]
fn a_failed_daily_job_is_tried_again_tomorrow() {
    let w = World::new();
    w.tool("make-report", NEEDS_DATA);
    let (today, tomorrow) = today_and_tomorrow();
    let job = &jobs("cron-failed")[0];
    let at = |day: &str| w.sh(job).env("TZ", day).end();
    at(&today).code(3).err("no data\n");
    w.t.touch("data");
    at(&today)
        .code(3)
        .says("no data\n")
        .says("--if-failed rerun");
    assert_eq!(w.t.lines("n"), 1);
    at(&tomorrow).code(0).out("written\n").err("");
    assert_eq!(w.t.lines("n"), 2);
}

#[test]
fn a_failed_job_can_be_tried_again_on_the_same_day() {
    let w = World::new();
    w.tool("make-invoices", NEEDS_DATA);
    let (today, _) = today_and_tomorrow();
    let job = &jobs("cron-failed")[1];
    let now = || w.sh(job).env("TZ", &today).end();
    now().code(3).says("no data\n");
    now().code(3).says("no data\n");
    assert_eq!(w.t.lines("n"), 2);
    w.t.touch("data");
    now().code(0).out("written\n");
    now().code(0).out("").err("");
    assert_eq!(w.t.lines("n"), 3);
}

/// A unit file: its path, and each value with its section and key.
struct Unit {
    path: String,
    settings: Vec<(String, String)>,
}

impl Unit {
    #[track_caller]
    fn read(name: &str) -> Unit {
        let text = recipe(name);
        let mut lines = text.lines();
        let path = lines.next().and_then(|line| line.strip_prefix("# "));
        let mut section = String::new();
        let mut settings = Vec::new();
        for line in lines.filter(|line| !line.is_empty()) {
            if let Some(name) = line.strip_prefix('[') {
                section = name.strip_suffix(']').expect("a section").to_owned();
            } else {
                let (key, value) = line.split_once('=').expect("a setting");
                // systemd would replace it.
                assert!(!value.contains('%'), "{line}");
                settings.push((format!("{section}.{key}"), value.to_owned()));
            }
        }
        let path = path.expect("the unit's path in its first line").to_owned();
        Unit { path, settings }
    }

    #[track_caller]
    fn get(&self, key: &str) -> &str {
        let found = self.settings.iter().find(|(name, _)| name == key);
        &found.unwrap_or_else(|| panic!("no {key}")).1
    }
}

#[test]
fn a_timer_runs_its_service_once_a_day() {
    let (service, timer) = (Unit::read("systemd-service"), Unit::read("systemd-timer"));
    let stem = service.path.strip_suffix(".service").expect("a service");
    assert_eq!(timer.path, format!("{stem}.timer"));
    assert_eq!(timer.get("Timer.OnCalendar"), "*-*-* 02:30");
    assert_eq!(timer.get("Timer.Persistent"), "true");
    assert_eq!(timer.get("Install.WantedBy"), "timers.target");
    assert_eq!(service.get("Service.Type"), "oneshot");

    let w = World::new();
    w.tool("backup", "echo \"$*\" >>n; echo saved");
    let environment = service.get("Service.Environment");
    let store = environment.strip_prefix("IDEM_STORE=/var/lib/");
    let (directory, file) = store.and_then(|s| s.split_once('/')).expect("a store");
    assert_eq!(directory, service.get("Service.StateDirectory"));
    let store = w.private_dir(directory).join(file);
    let command = service.get("Service.ExecStart");
    let ours = format!("{}/", w.bin().display());
    let command = command.replace("/usr/local/bin/", &ours);
    for _ in 0..2 {
        let words: Vec<&str> = command.split(' ').collect();
        let run = w.command(words[0]).args(&words[1..]);
        run.env("IDEM_STORE", &store).end().code(0).out("saved\n");
    }
    assert!(store.exists());
    assert_eq!(w.t.read("n"), "--all\n");
}
