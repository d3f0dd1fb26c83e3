//! The configuration file: its layers, what it must not say, who may have written it, and the questions
//! that it requires an answer to.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::process::Command;

use serde_json::Value;

use crate::place::{Place, end};

fn scope_of(mut command: Command, options: &str) -> String {
    command.args(["key", "--key", "k", "--json"]);
    command.args(options.split_whitespace());
    let done = end(command).code(0);
    let object: Value = serde_json::from_str(&done.out).expect("one object");
    object["scope"].as_str().expect("a scope").to_owned()
}

#[test]
fn option_before_environment_before_profile_before_defaults() {
    let place = Place::new();
    let bare = || place.line("");
    let with_env = || {
        let mut command = bare();
        command.env("IDEM_SCOPE", "env");
        command
    };
    assert_eq!(scope_of(bare(), ""), "");
    place.configure("[defaults]\nscope = 'all'\n[profile.deploy]\nscope = 'prod'\n");
    assert_eq!(scope_of(bare(), ""), "all");
    assert_eq!(scope_of(bare(), "--profile deploy"), "prod");
    assert_eq!(scope_of(with_env(), "--profile deploy"), "env");
    assert_eq!(scope_of(with_env(), "--profile deploy --scope o"), "o");
    assert_eq!(scope_of(bare(), "--config /dev/null"), "");
}

#[test]
fn global_options_stand_before_the_verb_too() {
    let place = Place::new();
    let file = place.write("c.toml", "[profile.run]\nscope = 'run'\n");
    let mut command = place.line("--profile run");
    command.arg("--config").arg(file);
    assert_eq!(scope_of(command, ""), "run");
}

#[test]
fn all_verbs_share_the_store_and_the_scope() {
    let place = Place::new();
    let store = place.at("elsewhere.db");
    place.configure(&format!(
        "[defaults]\nstore = '{}'\nscope = 's'\n",
        store.display()
    ));
    end(place.run("--key k", "echo out")).code(0);
    assert!(store.exists() && !place.store().exists());
    let done = end(place.line("output k")).code(0);
    assert_eq!(done.out, "out\n");
    end(place.line("status k --scope other")).code(1);
    end(place.line("--config /dev/null status k")).code(1);
}

#[test]
fn values_act_as_if_they_were_typed() {
    let place = Place::new();
    place.configure(
        "[defaults]\nretries = 2\nbackoff = 'const:1ms'\nretry-on = ['exit:75', 'timeout']\n\
         success-codes = [0, 3]\n[profile.calm]\nretries = 0\n",
    );
    end(place.run("--key a", "echo x >> a; exit 75")).code(75);
    assert_eq!(place.lines("a"), 3);
    end(place.run("--key b --profile calm", "echo x >> b; exit 75")).code(75);
    assert_eq!(place.lines("b"), 1);
    end(place.run("--key c --retries 1", "echo x >> c; exit 75")).code(75);
    assert_eq!(place.lines("c"), 2);
    for _ in 0..2 {
        end(place.run("--key d", "echo x >> d; exit 3")).code(3);
    }
    assert_eq!(place.lines("d"), 1, "a success is replayed");
}

#[test]
fn what_is_typed_beats_what_would_contradict_it() {
    let place = Place::new();
    place.configure("[defaults]\nquiet = true\nsettle = '5s'\nprobe-first = true\npreview = 'x'\n");
    end(place.run("--key k", "exit 4")).code(4);
    let quiet = end(place.run("--key k", "exit 4")).code(4);
    assert_eq!(quiet.err, "", "a repeat of a failure is not mentioned");
    end(place.run("--key k -v", "exit 4"))
        .code(4)
        .says("--if-failed rerun");
}

#[test]
fn a_bad_value_is_named_with_its_file() {
    let place = Place::new();
    place.configure("[defaults]\ntimeout = 'NaN'\n[profile.p]\nretries = '-1'\ntimeout = '1m'\n");
    let file = place.config_file();
    let label = |rest: &str| format!("{}: {rest}", file.display());
    end(place.run("--key k", "echo x >> n"))
        .refused()
        .says(&label("[defaults] timeout"));
    end(place.run("--key k --profile p", "echo x >> n"))
        .refused()
        .says(&label("[profile.p] retries"));
    end(place.run("--key k --timeout 1m", "echo x >> n")).code(0);
    assert_eq!(place.lines("n"), 1);
}

#[test]
fn a_file_that_cannot_be_understood_stops_every_verb() {
    let place = Place::new();
    place.configure("[defaults]\ntiemout = '1m'\n");
    let line = format!("{}, line 2: ", place.config_file().display());
    for verb in [
        "run --key k -- true",
        "key -k k",
        "status",
        "log",
        "output k",
        "wait k",
    ] {
        end(place.line(verb))
            .refused()
            .says(&line)
            .says("'timeout'?");
    }
    end(place.line("--config /dev/null status")).code(0);
    assert!(!place.store().exists());
}

#[test]
fn profiles_must_be_there() {
    let place = Place::new();
    end(place.line("run --profile p -- true"))
        .refused()
        .says("--profile p");
    place.configure("[profile.deploy]\n");
    end(place.line("run --profile deplyo -- true"))
        .refused()
        .says("'deploy'?");
    end(place.line("status --profile zebra"))
        .refused()
        .says("it has deploy");
    end(place.line("run --profile= -- true")).refused();
}

#[test]
fn only_the_users_own_file_is_read() {
    let place = Place::new();
    let bad = "[defaults]\nzebra = 1\n";
    fs::create_dir_all(place.path("idem")).expect("a directory");
    fs::create_dir_all(place.path(".config/idem")).expect("a directory");
    for name in [
        "config.toml",
        "idem.toml",
        "idem/config.toml",
        ".config/idem/config.toml",
    ] {
        place.write(name, bad);
    }
    for relative in [".", "", "work", "../work"] {
        let mut command = place.line("status");
        end({
            command.env("XDG_CONFIG_HOME", relative);
            command
        })
        .code(0);
    }
    let own = place.at("home/.config/idem");
    fs::create_dir_all(&own).expect("a directory");
    fs::write(own.join("config.toml"), "[defaults]\nscope = 'home'\n").expect("a file");
    for relative in [".", ""] {
        let mut command = place.line("");
        command.env("XDG_CONFIG_HOME", relative);
        assert_eq!(scope_of(command, ""), "home");
    }
    let mut command = place.line("");
    command.env_remove("XDG_CONFIG_HOME");
    assert_eq!(scope_of(command, ""), "home");
}

#[test]
fn a_file_that_others_can_write_is_refused() {
    let place = Place::new();
    place.configure("[defaults]\nprobe = 'echo x >> n'\nprobe-first = true\n");
    for mode in [0o620, 0o602, 0o666, 0o777] {
        fs::set_permissions(place.config_file(), fs::Permissions::from_mode(mode)).expect("a mode");
        end(place.run("--key k", "echo x >> n"))
            .refused()
            .says("chmod go-w");
        end(place.line("status")).refused();
    }
    assert_eq!(place.lines("n"), 0);
    for mode in [0o644, 0o400] {
        fs::set_permissions(place.config_file(), fs::Permissions::from_mode(mode)).expect("a mode");
        end(place.line("status")).code(0);
    }
}

#[test]
fn a_file_of_another_user_is_refused() {
    let place = Place::new();
    place.configure("[defaults]\n");
    // Only root can give a file away.
    if chown(place.config_file(), Some(12345), None).is_err() {
        return;
    }
    end(place.line("status"))
        .refused()
        .says("belongs to another user");
}

#[test]
fn what_is_no_file_is_refused_and_held_up_by_nothing() {
    let place = Place::new();
    let fifo = place.path("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
    assert!(made.success());
    for name in ["fifo", "/", "/dev/zero", "/no/such/file", "config.toml/x"] {
        end(place.line(&format!("--config {name} status"))).refused();
    }
    let target = place.write("target", "[defaults]\nscope = 'linked'\n");
    symlink(target, place.config_file()).expect("a symbolic link");
    assert_eq!(scope_of(place.line(""), ""), "linked");
    fs::remove_file(place.path("target")).expect("it is there");
    end(place.line("status")).code(0);
}

#[test]
fn odd_bytes_are_refused() {
    let place = Place::new();
    for bytes in [
        &b"\xff\xfe"[..],
        b"[defaults]\nscope = '\xff'\n",
        b"\0",
        b"{}",
    ] {
        place.configure("");
        fs::write(place.config_file(), bytes).expect("a file");
        end(place.line("status")).refused();
    }
    fs::write(place.config_file(), vec![b'#'; 2 << 20]).expect("a file");
    end(place.line("status")).refused().says("too large");
}

#[test]
fn required_questions_must_be_answered() {
    let place = Place::new();
    place.configure(
        "[defaults]\nrequire = ['key', 'timeout', 'after-timeout']\n\
         [profile.free]\nrequire = []\n[profile.answered]\ntimeout = '1m'\nif-unknown = 'refuse'\n",
    );
    let open = |options: &str, parts: &[&str]| {
        let done = end(place.run(options, "echo x >> n")).refused();
        let asked = ["--key", "--timeout", "--probe"];
        for part in asked {
            assert_eq!(
                parts.contains(&part),
                done.err.contains(part),
                "{options}: {done}"
            );
        }
    };
    open("", &["--key", "--timeout", "--probe"]);
    open("--key k", &["--timeout", "--probe"]);
    open("--key k --timeout 1m", &["--probe"]);
    open("--timeout 1m --idempotent", &["--key"]);
    open("--key k --timeout 1m --retry-on exit:75", &["--probe"]);
    open("--key k --probe-first --probe true", &["--timeout"]);
    open("--profile answered", &["--key"]);
    assert_eq!(place.lines("n"), 0);
    let mut answered = 0;
    for options in [
        "--key a --timeout 1m --idempotent",
        "--key-from argv,cwd,env:HOME --deadline 1m --probe true",
        "--task t --step s --timeout 1m --if-unknown refuse",
        "--key b --timeout 1m --retry-on exit:75,timeout",
        "--profile answered --key c",
        "--profile free",
        "--config /dev/null --key d",
    ] {
        end(place.run(options, "echo x >> n")).code(0);
        answered += 1;
        assert_eq!(place.lines("n"), answered, "{options}");
    }
    let mut command = place.run("--timeout 1m --idempotent", "echo x >> n");
    command.env("IDEM_KEY", "from-env");
    end(command).code(0);
    // What is about every call may stand before all tables.
    let place = Place::new();
    place.configure("require = ['key']\n[defaults]\nttl = '1h'\n[profile.free]\nrequire = []\n");
    end(place.run("", "true")).refused();
    end(place.run("--key k", "true")).code(0);
    end(place.run("--profile free", "true")).code(0);
    // Only an execution is asked.
    end(place.line("key -- true")).code(0);
    end(place.line("status")).code(0);
}

#[test]
fn a_dry_run_shows_where_each_option_comes_from() {
    let place = Place::new();
    place.configure(
        "[defaults]\nttl = '48h'\nretries = 2\n[profile.deploy]\nretries = 5\nquiet = true\n",
    );
    let mut command = place.line("run --dry-run --profile deploy --timeout 9m");
    command.args(["--", "true"]).env("IDEM_KEY", "from-env");
    let done = end(command).code(0);
    let file = place.config_file();
    for line in [
        "key = from-env (IDEM_KEY)".to_owned(),
        "timeout = 9m (option)".to_owned(),
        format!("ttl = 48h ({}: [defaults])", file.display()),
        format!("retries = 5 ({}: [profile.deploy])", file.display()),
        format!("quiet = true ({}: [profile.deploy])", file.display()),
    ] {
        assert!(done.out.contains(&line), "{line}\n{done}");
    }
    assert!(!place.store().exists());
}
