//! psql.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::needs;
use crate::server::Server;
use crate::world::{Call, Ran, World};

crate::proofs! { "psql", needs ["psql", "initdb", "postgres", "setpriv"];
    no_session: ["no session"];
    sessions: [
        "no such database or role",
        "the session was lost",
        "an error in its one command",
        "an error in the middle of a script"
    ];
}

/// Nobody's numbers: the server does not run as root.
const NOBODY: u32 = 65534;

/// A private cluster; it listens at a path alone.
struct Cluster {
    server: Child,
    place: TempDir,
}

impl Cluster {
    fn start() -> Cluster {
        let place = TempDir::with_prefix("idem-pg.").unwrap();
        if needs::is_root() {
            chown(place.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let data = place.path().join("data");
        let init = unprivileged(&needs::path("initdb"), place.path())
            .args([
                "-A",
                "trust",
                "-U",
                "idem",
                "--no-sync",
                "--no-locale",
                "-E",
                "UTF8",
                "-D",
            ])
            .arg(&data)
            .output()
            .unwrap();
        assert!(
            init.status.success(),
            "{}",
            String::from_utf8_lossy(&init.stderr)
        );
        let mut server = unprivileged(&needs::path("postgres"), place.path());
        server
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-k"])
            .arg(place.path());
        let mut server = server
            .arg("-D")
            .arg(&data)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(server.stderr.take().unwrap());
        let mut lines = log.lines().map(Result::unwrap);
        assert!(
            lines.any(|line| line.contains("ready to accept connections")),
            "postgres did not start"
        );
        // Somebody has to read the rest.
        std::thread::spawn(move || lines.count());
        Cluster { server, place }
    }

    fn relay(&self) -> Server {
        Server::relay(self.place.path().join(".s.PGSQL.5432"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SIGQUIT ends the server and all its sessions at once.
        let pid = self.server.id().to_string();
        let _ = Command::new("kill").args(["-QUIT", &pid]).status();
        let _ = self.server.wait();
    }
}

fn unprivileged(program: &Path, place: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if needs::is_root() {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    command
        .arg(program)
        .current_dir(place)
        .env_clear()
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    command.stdout(Stdio::null());
    command
}

fn psql<'a>(world: &'a mut World, server: &Server, args: &[&str]) -> Call<'a> {
    let psql = needs::path("psql");
    let port = server.port().to_string();
    let mut argv = vec![
        psql.to_str().unwrap(),
        "-X",
        "-h",
        "127.0.0.1",
        "-p",
        &port,
        "-U",
        "idem",
    ];
    argv.extend(args);
    world.call(argv).env("PGCONNECT_TIMEOUT", "20")
}

fn no_session(world: &mut World) {
    let insert = ["-d", "postgres", "-c", "insert into t values (1)"];
    psql(world, &Server::refuses(), &insert).run().is_safe();
    let server = Server::refuses();
    let call = psql(world, &server, &insert);
    call.with("-r 1 --backoff const:1ms").run().is("safe", 2);
    let silent = Server::silent();
    psql(world, &silent, &insert)
        .env("PGCONNECT_TIMEOUT", "2")
        .run()
        .is_safe();
    let host = format!("host={}.test", "x".repeat(64));
    let psql_path = needs::path("psql");
    world
        .call([psql_path.to_str().unwrap(), "-X", &host, "-c", "select 1"])
        .run()
        .is_safe();
    let closed = Server::resets_unread();
    let ran = psql(world, &closed, &insert).run();
    assert_ne!(ran.last().class, "success", "{ran:#?}");
    assert_eq!(closed.connections(), 1);
}

const INSERT: &str = "insert into t values (1)";

/// Starting a cluster takes seconds: the tests of sessions share one.
fn sessions(world: &mut World) {
    let cluster = Cluster::start();
    let server = cluster.relay();
    run(world, &server, &["-c", "create table t(a int)"]).is("success", 1);
    refused_by_the_server(world, &server);
    one_command_or_more(world, &server);
    scripts(world, &server);
    lost_after_the_effect(world, &server);
    connecting_elsewhere_after_the_effect(world, &server);
}

fn run(world: &mut World, server: &Server, args: &[&str]) -> Ran {
    let all = [&["-d", "postgres"], args].concat();
    psql(world, server, &all).run()
}

/// How many rows are there now that were not there before.
fn inserted(world: &mut World, server: &Server, during: impl FnOnce(&mut World)) -> u32 {
    let count = |world: &mut World| {
        let counted = run(world, server, &["-Atc", "select count(*) from t"]);
        counted.stdout.trim().parse::<u32>().unwrap()
    };
    let before = count(world);
    during(world);
    count(world) - before
}

fn refused_by_the_server(world: &mut World, server: &Server) {
    let database = ["-d", "nothing", "-c", "select 1"];
    psql(world, server, &database).run().is_permanent();
    let role = ["-U", "nobody", "-d", "postgres", "-c", "select 1"];
    psql(world, server, &role).run().is_permanent();
}

/// What one command does is one transaction.
fn one_command_or_more(world: &mut World, server: &Server) {
    let both = format!("{INSERT}; select nothing");
    let rows = inserted(world, server, |world| {
        run(world, server, &["-c", &both]).is_permanent();
    });
    assert_eq!(rows, 0);
    let rows = inserted(world, server, |world| {
        run(world, server, &["-c", INSERT, "-c", "select nothing"]).is_uncertain();
    });
    assert_eq!(rows, 1);
}

fn scripts(world: &mut World, server: &Server) {
    let text = format!("{INSERT};\nselect nothing;\n{INSERT};\n");
    let script = world.write("script.sql", &text);
    let rows = inserted(world, server, |world| {
        run(world, server, &["-v", "ON_ERROR_STOP=1", "-f", &script]).is_uncertain();
    });
    assert_eq!(rows, 1);
    let rows = inserted(world, server, |world| {
        let call = psql(world, server, &["-d", "postgres", "-f", &script]);
        let ran = call.with("-v").run();
        let warning = "psql without ON_ERROR_STOP ends with 0";
        assert!(ran.is("success", 1).stderr.contains(warning), "{ran:#?}");
    });
    assert_eq!(rows, 2);
}

fn lost_after_the_effect(world: &mut World, server: &Server) {
    let killed = "select pg_terminate_backend(pg_backend_pid())";
    let rows = inserted(world, server, |world| {
        run(world, server, &["-c", INSERT, "-c", killed]).is_uncertain();
    });
    assert_eq!(rows, 1);
}

/// Nobody listens there, which says nothing about what was done here.
fn connecting_elsewhere_after_the_effect(world: &mut World, server: &Server) {
    let gone = Server::refuses();
    let elsewhere = format!("\\connect postgres idem 127.0.0.1 {}", gone.port());
    let text = format!("{INSERT};\n{elsewhere}\n{INSERT};\n");
    let script = world.write("elsewhere.sql", &text);
    for options in [
        &["-f", &script][..],
        &["-v", "ON_ERROR_STOP=1", "-f", &script],
        &["-c", INSERT, "-c", &elsewhere],
    ] {
        let rows = inserted(world, server, |world| {
            let ran = run(world, server, options);
            assert!(ran.is_uncertain().stderr.contains("refused"), "{ran:#?}");
        });
        assert_eq!(rows, 1);
    }
}
