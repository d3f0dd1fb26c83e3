//! git push, over HTTP and through ssh.

use std::io::Write;
use std::process::Stdio;

use crate::http::{Answer, Request, status};
use crate::server::Server;
use crate::sshd::{configure, serve};
use crate::world::{Ran, World};

crate::proofs! { "git", needs ["git", "ssh", "sshd", "ssh-keygen"];
    pushed: [];
    refused: ["the server was not reached"];
    discovery_lost: ["the server was not reached"];
    discovery_refused: ["refused before the push", "the server was not reached"];
    no_login_or_repository: ["no login or no such repository"];
    push_lost: ["the answer was lost"];
    push_lost_after_the_effect: ["the answer was lost"];
    push_statuses: ["an HTTP error"];
    rejected: ["the server rejected the push"];
    rejected_by_a_hook: ["the server rejected the push"];
    pushed_elsewhere_before: ["it had pushed before"];
    a_remote_hook_that_could_not_connect: [];
    ssh_refused: ["not logged in"];
    ssh_login_refused: ["the login was refused"];
    ssh_lost_after_the_effect: ["the ssh connection was lost"];
    ssh_lost_before_the_effect: ["the ssh connection was lost"];
    receiver_killed: ["the other end was lost"];
}

/// An empty repository that can be pushed to, at `NAME.git`, and a clone with one commit.
fn repositories(world: &World, names: &[&str]) {
    let git = |line: &str| {
        let mut git = world.command("git");
        git.args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b.test",
            "-c",
            "init.defaultBranch=main",
        ]);
        world.prepare(git.args(line.split(' ')));
    };
    for name in names {
        git(&format!("init -q --bare {name}.git"));
        git(&format!("-C {name}.git config http.receivepack true"));
    }
    git("init -q clone");
    git("-C clone commit -q --allow-empty -m first");
}

/// What `git http-backend` answers.
fn backend(root: &str, request: &Request) -> Answer {
    let (path, query) = request
        .target()
        .split_once('?')
        .unwrap_or((request.target(), ""));
    let mut git = std::process::Command::new("git");
    git.arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", request.method())
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env(
            "CONTENT_TYPE",
            request.header("content-type").unwrap_or_default(),
        )
        .env("CONTENT_LENGTH", request.body.len().to_string())
        .env(
            "HTTP_CONTENT_ENCODING",
            request.header("content-encoding").unwrap_or_default(),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = git.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(&request.body)
        .unwrap();
    let output = child.wait_with_output().unwrap().stdout;
    // The status stands in a header, if it is not 200.
    let code = output.strip_prefix(b"Status: ").unwrap_or(b"200");
    let line = format!(
        "HTTP/1.1 {} Whatever\r\nConnection: close\r\n",
        String::from_utf8_lossy(&code[..3])
    );
    Answer::Bytes([line.as_bytes(), &output].concat())
}

/// A server of the repositories. `answer` may take the place of what the backend answers.
fn server(
    world: &World,
    answer: impl Fn(&Request, &dyn Fn() -> Answer) -> Answer + Send + Sync + 'static,
) -> Server {
    let root = world.arg("");
    Server::http(move |request, _| answer(request, &|| backend(&root, request)))
}

/// One that answers this instead, when something is pushed.
fn server_that_answers_a_push_with(world: &World, answer: Answer) -> Server {
    server(world, move |request, backend| match request.method() {
        "POST" => answer.clone(),
        _ => backend(),
    })
}

fn push(world: &mut World, options: &str, url: &str) -> Ran {
    let line = format!("git -C clone push {options} {url} HEAD:refs/heads/t");
    let words = line.split_whitespace();
    world.call(words).with("-r 2 --backoff const:1ms").run()
}

/// Whether the push has happened.
fn has_ref(world: &World, name: &str) -> bool {
    world.path(&format!("{name}.git/refs/heads/t")).exists()
}

fn pushed(world: &mut World) {
    repositories(world, &["r"]);
    let server = server(world, |_, backend| backend());
    push(world, "", &server.url("/r.git")).is("success", 1);
    assert!(has_ref(world, "r"));
    assert_eq!((server.count("GET"), server.count("POST")), (1, 1));
}

fn refused(world: &mut World) {
    repositories(world, &[]);
    let server = Server::refuses();
    let url = server.url("/r.git");
    world
        .line(&format!("git -C clone push {url} HEAD:t"))
        .run()
        .is_safe();
    world
        .line(&format!("git -C clone push -q {url} HEAD:t"))
        .run()
        .is_uncertain();
}

fn discovery_lost(world: &mut World) {
    repositories(world, &[]);
    for answer in [Answer::Reset, Answer::Close, Answer::Hang] {
        let server = Server::always(answer);
        let slow = "-c http.lowSpeedLimit=1 -c http.lowSpeedTime=1";
        let line = format!("git {slow} -C clone push {} HEAD:t", server.url("/r.git"));
        world.line(&line).run().is_safe();
        assert_eq!((server.count("GET"), server.count("POST")), (1, 0));
    }
}

fn discovery_refused(world: &mut World) {
    repositories(world, &[]);
    for (code, class) in [
        (403, "permanent"),
        (429, "throttled"),
        (500, "safe"),
        (503, "safe"),
    ] {
        let server = Server::always(Answer::Reply(status(code)));
        let line = format!("git -C clone push {} HEAD:t", server.url("/r.git"));
        world.line(&line).run().is(class, 1);
        assert_eq!(server.count("POST"), 0);
    }
}

fn no_login_or_repository(world: &mut World) {
    repositories(world, &[]);
    let challenge = status(401).with("WWW-Authenticate", "Basic realm=\"x\"");
    for answer in [challenge, status(404)] {
        let server = Server::always(Answer::Reply(answer));
        let line = format!("git -C clone push {} HEAD:t", server.url("/r.git"));
        world.line(&line).run().is_permanent();
        assert_eq!((server.count("GET"), server.count("POST")), (1, 0));
    }
}

fn push_lost(world: &mut World) {
    repositories(world, &["r"]);
    for answer in [Answer::Reset, Answer::Close] {
        let server = server_that_answers_a_push_with(world, answer);
        push(world, "", &server.url("/r.git")).is_uncertain();
        assert_eq!(server.count("POST"), 1);
        assert!(!has_ref(world, "r"));
    }
}

/// The same words, and this time it has happened.
fn push_lost_after_the_effect(world: &mut World) {
    repositories(world, &["r"]);
    let server = server(world, |request, backend| {
        let answer = backend();
        match request.method() {
            "POST" => Answer::Reset,
            _ => answer,
        }
    });
    push(world, "", &server.url("/r.git")).is_uncertain();
    assert_eq!(server.count("POST"), 1);
    assert!(has_ref(world, "r"));
}

fn push_statuses(world: &mut World) {
    repositories(world, &["r"]);
    for (code, class) in [
        (403, "permanent"),
        (413, "permanent"),
        (429, "throttled"),
        (500, "uncertain"),
        (503, "uncertain"),
    ] {
        let server = server_that_answers_a_push_with(world, Answer::Reply(status(code)));
        let line = format!("git -C clone push {} HEAD:t", server.url("/r.git"));
        let ran = world.line(&line).run();
        ran.is(class, 1);
        assert_eq!(ran.last().http_status, Some(code.into()), "{ran:#?}");
        assert_eq!(server.count("POST"), 1);
    }
}

fn rejected(world: &mut World) {
    repositories(world, &["r"]);
    let server = server(world, |_, backend| backend());
    let url = server.url("/r.git");
    push(world, "", &url).is("success", 1);
    let mut git = world.command("git");
    let other = [
        "-C",
        "clone",
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b.test",
        "commit",
        "-q",
    ];
    world.prepare(
        git.args(other)
            .args(["--amend", "--allow-empty", "-m", "other"]),
    );
    push(world, "", &url).is_permanent();
}

fn hook(world: &World, name: &str, script: &str) {
    let place = world.write(
        &format!("r.git/hooks/{name}"),
        &format!("#!/bin/sh\n{script}\n"),
    );
    world.prepare(world.command("chmod").args(["+x", &place]));
}

fn rejected_by_a_hook(world: &mut World) {
    repositories(world, &["r"]);
    hook(world, "pre-receive", "exit 1");
    let server = server(world, |_, backend| backend());
    push(world, "", &server.url("/r.git")).is_permanent();
    assert_eq!(server.count("POST"), 1);
    assert!(!has_ref(world, "r"));
}

fn pushed_elsewhere_before(world: &mut World) {
    repositories(world, &["r"]);
    let (server, gone) = (server(world, |_, backend| backend()), Server::refuses());
    for url in [server.url("/r.git"), gone.url("/r.git")] {
        let mut git = world.command("git");
        world.prepare(git.args([
            "-C",
            "clone",
            "config",
            "--add",
            "remote.origin.pushurl",
            &url,
        ]));
    }
    for options in ["", "--porcelain"] {
        push(world, options, "origin").is_uncertain();
    }
    assert!(has_ref(world, "r"));
}

/// A hook of the server's fails to reach another server, in the words of git and of ssh, after the push.
fn a_remote_hook_that_could_not_connect(world: &mut World) {
    repositories(world, &["r"]);
    let words = [
        "fatal: unable to access 'http://mirror/': Failed to connect",
        "ssh: connect to host mirror port 22: Connection refused",
    ];
    hook(
        world,
        "post-receive",
        &words.map(|w| format!("echo \"{w}\" >&2")).join("\n"),
    );
    let server = server(world, |request, backend| {
        match (request.method(), backend()) {
            ("POST", Answer::Bytes(bytes)) => Answer::Bytes(bytes[..bytes.len() - 20].to_vec()),
            (_, answer) => answer,
        }
    });
    // Whether git still prints what the hook said depends on which of its threads is faster.
    push(world, "", &server.url("/r.git")).is_uncertain();
    assert!(has_ref(world, "r"));
}

fn over_ssh(world: &mut World, config: &str, server: &Server) -> Ran {
    let command = format!("ssh -F {} -p {}", world.arg(config), server.port());
    let url = format!("127.0.0.1:{}", world.arg("r.git"));
    let line = format!("git -C clone push {url} HEAD:refs/heads/t");
    world.line(&line).env("GIT_SSH_COMMAND", command).run()
}

fn ssh_refused(world: &mut World) {
    repositories(world, &["r"]);
    configure(world);
    over_ssh(world, "known", &Server::refuses()).is_safe();
}

fn ssh_login_refused(world: &mut World) {
    repositories(world, &["r"]);
    configure(world);
    let server = serve(world);
    over_ssh(world, "stranger", &server).is_permanent();
    assert!(!has_ref(world, "r"));
    over_ssh(world, "known", &server).is("success", 1);
    assert!(has_ref(world, "r"));
    assert_eq!(server.connections(), 2);
}

/// The hook's parent is git, whose parent is what sshd has started, or sshd itself.
const KILL_SSHD: &str = "pid=$PPID
while [ \"$(cut -c1-4 /proc/$pid/comm)\" != sshd ]; do
    pid=$(awk '/^PPid/ {print $2}' /proc/$pid/status)
done
kill -9 $pid";

fn ssh_lost_after_the_effect(world: &mut World) {
    repositories(world, &["r"]);
    configure(world);
    let server = serve(world);
    hook(world, "post-receive", KILL_SSHD);
    over_ssh(world, "known", &server).is_uncertain();
    assert!(has_ref(world, "r"));
    assert_eq!(server.connections(), 1);
}

fn ssh_lost_before_the_effect(world: &mut World) {
    repositories(world, &["r"]);
    configure(world);
    let server = serve(world);
    hook(world, "pre-receive", &format!("{KILL_SSHD}\nexit 1"));
    over_ssh(world, "known", &server).is_uncertain();
    assert!(!has_ref(world, "r"));
    assert_eq!(server.connections(), 1);
}

fn receiver_killed(world: &mut World) {
    repositories(world, &["r"]);
    configure(world);
    let server = serve(world);
    hook(world, "pre-receive", "kill -9 $PPID");
    over_ssh(world, "known", &server).is_uncertain();
    assert!(!has_ref(world, "r"));
    assert_eq!(server.connections(), 1);
}
