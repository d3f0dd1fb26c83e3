//! rsync, to a daemon and through ssh.

use std::process::{Command, Stdio};

use crate::server::Server;
use crate::sshd::{configure, serve};
use crate::world::{Ran, World};

crate::proofs! { "rsync", needs ["rsync", "ssh", "sshd", "ssh-keygen"];
    refused: ["not connected"];
    no_such_host: ["not connected"];
    no_answer_to_the_connect: ["not connected in time"];
    transferred: [];
    daemon_killed: ["the transfer was cut"];
    daemon_hangs: ["the transfer was cut"];
    wrong_usage: ["wrong usage, source or destination"];
    missing_source: ["wrong usage, source or destination"];
    ssh_refused: ["not logged in"];
    ssh_login_refused: ["the login was refused"];
    ssh_lost_after_the_transfer: ["the transfer was cut"];
}

/// A daemon with one module, whose directory is `there`.
fn daemon(world: &World, hook: &str) -> Server {
    std::fs::create_dir(world.path("there")).unwrap();
    world.write("here", "content\n");
    let there = world.arg("there");
    let owner = match crate::needs::is_root() {
        true => "uid = 0\ngid = 0\n",
        false => "",
    };
    let config = format!(
        "use chroot = no\n{owner}log file = /dev/null\n[m]\npath = {there}\nread only = no\n{hook}\n"
    );
    let config = world.write("rsyncd.conf", &config);
    Server::inetd(move || {
        let mut rsync = Command::new("rsync");
        rsync
            .args(["--daemon", "--no-detach", "--config", &config])
            .stderr(Stdio::null());
        rsync
    })
}

fn push(world: &mut World, server: &Server, options: &str) -> Ran {
    let port = server.port();
    world
        .line(&format!("rsync {options} here rsync://127.0.0.1:{port}/m/"))
        .run()
}

fn refused(world: &mut World) {
    world.write("here", "content\n");
    push(world, &Server::refuses(), "-a").is_safe();
}

fn no_such_host(world: &mut World) {
    world.write("here", "content\n");
    let host = "x".repeat(64);
    world
        .line(&format!("rsync here rsync://{host}.test/m/"))
        .run()
        .is_safe();
}

fn no_answer_to_the_connect(world: &mut World) {
    world.write("here", "content\n");
    push(world, &Server::silent(), "--contimeout=1").is_safe();
}

fn transferred(world: &mut World) {
    let server = daemon(world, "");
    push(world, &server, "-a").is("success", 1);
    assert_eq!((server.connections(), world.lines("there/here")), (1, 1));
}

fn daemon_killed(world: &mut World) {
    let server = daemon(world, "pre-xfer exec = kill -9 $RSYNC_PID");
    let line = format!("rsync here rsync://127.0.0.1:{}/m/", server.port());
    world
        .line(&line)
        .with("-r 2 --backoff const:1ms")
        .run()
        .is_uncertain();
    assert_eq!(server.connections(), 1);
}

fn daemon_hangs(world: &mut World) {
    world.write("here", "content\n");
    let server = Server::inetd(|| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo '@RSYNCD: 31.0'; cat >/dev/null"]);
        shell
    });
    push(world, &server, "--timeout=1").is_uncertain();
    assert_eq!(server.connections(), 1);
}

fn wrong_usage(world: &mut World) {
    assert_eq!(
        world
            .line("rsync --no-such-option a b")
            .run()
            .is_permanent()
            .code,
        1
    );
}

fn missing_source(world: &mut World) {
    let server = daemon(world, "");
    let port = server.port();
    let line = format!("rsync nothing rsync://127.0.0.1:{port}/m/");
    assert_eq!(world.line(&line).run().is_permanent().code, 23);
}

fn through_ssh(world: &mut World, config: &str, server: &Server, options: &[&str]) -> Ran {
    std::fs::create_dir_all(world.path("there")).unwrap();
    world.write("here", "content\n");
    let transport = format!("ssh -F {} -p {}", world.arg(config), server.port());
    let target = format!("127.0.0.1:{}/", world.arg("there"));
    let mut argv = vec!["rsync", "-a", "-e", &transport, "here", &target];
    argv.extend(options);
    world.call(argv).run()
}

fn ssh_refused(world: &mut World) {
    configure(world);
    through_ssh(world, "known", &Server::refuses(), &[]).is_safe();
}

fn ssh_login_refused(world: &mut World) {
    configure(world);
    let server = serve(world);
    through_ssh(world, "stranger", &server, &[]).is_permanent();
    through_ssh(world, "known", &server, &[]).is("success", 1);
    assert_eq!((server.connections(), world.lines("there/here")), (2, 1));
}

fn ssh_lost_after_the_transfer(world: &mut World) {
    configure(world);
    let server = serve(world);
    let wrapper = world.write("wrapper", "rsync \"$@\"\nkill -9 $PPID\n");
    let path = format!("--rsync-path=sh {wrapper}");
    through_ssh(world, "known", &server, &[&path]).is_uncertain();
    assert_eq!((server.connections(), world.lines("there/here")), (1, 1));
}
