//! redis-cli.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::server::Server;
use crate::world::{Call, World};

crate::proofs! { "redis-cli", needs ["redis-cli", "redis-server"];
    refused: ["not connected"];
    no_such_host: ["not connected"];
    replies: ["an error reply"];
    lost_reply: ["the session was lost"];
    reset: ["the session was lost"];
    gone_after_the_first_command: ["the session was lost"];
}

/// A private server; it listens at a path alone.
struct Redis(Child);

impl Redis {
    fn start(world: &World) -> Redis {
        let mut server = world.command("redis-server");
        server
            .args(["--port", "0", "--save", "", "--unixsocket", "redis"])
            .stdout(Stdio::piped());
        let mut child = server.stdin(Stdio::null()).spawn().unwrap();
        let mut log = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = log
            .by_ref()
            .map(Result::unwrap)
            .any(|line| line.contains("eady to accept"));
        assert!(ready, "redis-server did not start");
        Redis(child)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn cli<'a>(world: &'a mut World, server: &Server, command: &str) -> Call<'a> {
    world.line(&format!(
        "redis-cli -h 127.0.0.1 -p {} {command}",
        server.port()
    ))
}

fn refused(world: &mut World) {
    cli(world, &Server::refuses(), "incr a").run().is_safe();
    let ran = cli(world, &Server::refuses(), "incr a")
        .with("-r 2 --backoff const:1ms")
        .run();
    ran.is("safe", 3);
}

fn no_such_host(world: &mut World) {
    let host = "x".repeat(64);
    world
        .line(&format!("redis-cli -h {host}.test incr a"))
        .run()
        .is_safe();
}

fn replies(world: &mut World) {
    let _redis = Redis::start(world);
    let server = Server::relay(world.path("redis"));
    cli(world, &server, "incr a").run().is("success", 1);
    for wrong in ["incr", "lpush a b", "auth x"] {
        let ran = cli(world, &server, wrong).run();
        assert_eq!(ran.is("success", 1).code, 0, "an exit 0 stays what it is");
        let ran = cli(world, &server, wrong)
            .with("--classifier redis-cli")
            .run();
        assert_ne!(ran.is_permanent().code, 0, "{ran:#?}");
        cli(world, &server, &format!("-e {wrong}"))
            .run()
            .is_permanent();
    }
    let ran = cli(world, &server, "get a").run();
    assert_eq!(ran.stdout, "1\n");
    assert_eq!(server.connections(), 11);
}

fn lost_reply(world: &mut World) {
    let _redis = Redis::start(world);
    let server = Server::loses_replies(world.path("redis"));
    let ran = cli(world, &server, "incr a")
        .with("-r 2 --backoff const:1ms")
        .run();
    ran.is_uncertain();
    assert_eq!(server.connections(), 1);
    let server = Server::relay(world.path("redis"));
    assert_eq!(cli(world, &server, "get a").run().stdout, "1\n");
}

fn reset(world: &mut World) {
    let server = Server::resets_unread();
    cli(world, &server, "incr a").run().is_uncertain();
    assert_eq!(server.connections(), 1);
}

/// A script of two commands, between which the server goes away.
fn gone_after_the_first_command(world: &mut World) {
    let server = Server::inetd(|| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "head -n 1 >/dev/null; printf ':1\\r\\n'"]);
        shell
    });
    cli(world, &server, "-r 2 incr a").run().is_uncertain();
    assert_eq!(server.connections(), 1);
}
