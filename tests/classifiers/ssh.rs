//! ssh.

use crate::server::Server;
use crate::sshd::{configure, serve};
use crate::world::{Call, World};

crate::proofs! { "ssh", needs crate::sshd::NEEDS;
    refused: ["not connected"];
    refused_is_tried_again: ["not connected"];
    no_such_host: ["not connected"];
    no_answer_to_the_connect: ["not connected"];
    no_greeting: ["no greeting from the server"];
    login_refused: ["the login was refused"];
    wrong_host_key: ["the login was refused"];
    wrong_option: ["the login was refused"];
    dropped: ["the connection was lost"];
    remote_signal: ["the connection was lost, or the remote command ended with 255"];
    remote_255: ["the connection was lost, or the remote command ended with 255"];
    other_remote_codes: [];
    a_remote_script_that_could_not_connect: [];
    a_remote_script_without_a_greeting: [];
}

const APPEND: &str = "echo done >> effect";

fn ssh<'a>(world: &'a mut World, config: &str, server: &Server, remote: &str) -> Call<'a> {
    let (config, work, port) = (world.arg(config), world.arg(""), server.port().to_string());
    let remote = format!("cd {work}; {remote}");
    world.call(["ssh", "-F", &config, "-p", &port, "127.0.0.1", &remote])
}

fn refused(world: &mut World) {
    configure(world);
    let server = Server::refuses();
    ssh(world, "known", &server, APPEND).run().is_safe();
    let port = server.port();
    world
        .line(&format!(
            "ssh -F known -oBatchMode=yes -p{port} me@127.0.0.1 true"
        ))
        .run()
        .is_safe();
    // Where the port comes from is not seen, and whether it is the captured one neither.
    world
        .line(&format!("ssh -F known -oPort={port} 127.0.0.1 true"))
        .run()
        .is_uncertain();
}

fn refused_is_tried_again(world: &mut World) {
    configure(world);
    let server = Server::refuses();
    let call = ssh(world, "known", &server, APPEND);
    call.with("-r 1 --backoff const:1ms").run().is("safe", 2);
}

fn no_such_host(world: &mut World) {
    configure(world);
    let host = "x".repeat(64);
    world
        .line(&format!("ssh -F known {host}.test true"))
        .run()
        .is_safe();
}

fn no_answer_to_the_connect(world: &mut World) {
    configure(world);
    let server = Server::silent();
    let port = server.port();
    let line = format!("ssh -F known -o ConnectTimeout=1 -p {port} 127.0.0.1 true");
    world.line(&line).run().is_safe();
}

fn no_greeting(world: &mut World) {
    configure(world);
    let closed = Server::inetd(|| std::process::Command::new("true"));
    let silent = Server::never_reads();
    for server in [closed, silent] {
        let line = format!(
            "ssh -F known -o ConnectTimeout=1 -p {} 127.0.0.1 true",
            server.port()
        );
        world.line(&line).run().is_uncertain();
        world.line(&line).with("--classifier ssh").run().is_safe();
        assert_eq!(server.connections(), 2);
    }
}

fn login_refused(world: &mut World) {
    configure(world);
    let server = serve(world);
    ssh(world, "stranger", &server, APPEND).run().is_permanent();
    assert_eq!((server.connections(), world.lines("effect")), (1, 0));
}

fn wrong_host_key(world: &mut World) {
    configure(world);
    let server = serve(world);
    ssh(world, "doubtful", &server, APPEND).run().is_permanent();
    assert_eq!((server.connections(), world.lines("effect")), (1, 0));
}

fn wrong_option(world: &mut World) {
    world
        .line("ssh -o NoSuchOption=1 127.0.0.1 true")
        .run()
        .is_permanent();
}

fn dropped(world: &mut World) {
    configure(world);
    let server = serve(world);
    let remote = format!("{APPEND}; kill -9 $PPID");
    let call = ssh(world, "known", &server, &remote);
    call.with("-r 2 --backoff const:1ms").run().is_uncertain();
    assert_eq!((server.connections(), world.lines("effect")), (1, 1));
}

fn remote_signal(world: &mut World) {
    configure(world);
    let server = serve(world);
    let remote = format!("{APPEND}; kill -9 $$");
    ssh(world, "known", &server, &remote).run().is_uncertain();
    assert_eq!(world.lines("effect"), 1);
}

fn remote_255(world: &mut World) {
    configure(world);
    let server = serve(world);
    let remote = format!("{APPEND}; exit 255");
    ssh(world, "known", &server, &remote).run().is_uncertain();
    assert_eq!(world.lines("effect"), 1);
}

fn other_remote_codes(world: &mut World) {
    configure(world);
    let server = serve(world);
    ssh(world, "known", &server, APPEND).run().is("success", 1);
    let remote = format!("{APPEND}; exit 3");
    assert_eq!(
        ssh(world, "known", &server, &remote)
            .run()
            .is_permanent()
            .code,
        3
    );
    assert_eq!((server.connections(), world.lines("effect")), (2, 2));
}

/// The words of a failed login, but of another one, after the effect.
fn a_remote_script_that_could_not_connect(world: &mut World) {
    configure(world);
    let (server, gone) = (serve(world), Server::refuses());
    let (config, port) = (world.arg("known"), gone.port());
    let onward = format!("{APPEND}\nssh -F {config} -p {port} 127.0.0.1 true\n");
    world.write("deploy.sh", &onward);
    let ran = ssh(world, "known", &server, "sh ./deploy.sh").run();
    assert!(ran.stderr.contains("ssh: connect to host"), "{ran:#?}");
    ran.is_uncertain();
    assert_eq!(world.lines("effect"), 1);
}

fn a_remote_script_without_a_greeting(world: &mut World) {
    configure(world);
    let server = serve(world);
    let closed = Server::inetd(|| std::process::Command::new("true"));
    let (config, port) = (world.arg("known"), closed.port());
    world.write(
        "deploy.sh",
        &format!("{APPEND}\nssh -F {config} -p {port} 127.0.0.1 true\n"),
    );
    let ran = ssh(world, "known", &server, "sh ./deploy.sh").run();
    assert!(
        ran.stderr.contains("kex_exchange_identification"),
        "{ran:#?}"
    );
    ran.is_uncertain();
    assert_eq!(world.lines("effect"), 1);
}
