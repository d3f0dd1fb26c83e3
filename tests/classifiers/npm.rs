//! npm publish.

use crate::http::{Answer, status};
use crate::server::Server;
use crate::world::{Call, World};

crate::proofs! { "npm", needs ["npm"];
    refused: ["not connected"];
    reset: ["the answer was lost"];
    it_tries_again_by_itself: ["the answer was lost"];
    statuses: ["an HTTP error"];
    throttled: ["an HTTP error"];
    hangs_after_reading: [];
    another_error: ["another error"];
    no_package: ["no login, or no package to publish"];
    nobody_is_logged_in: ["no login, or no package to publish"];
    a_script_that_could_not_connect: ["a script of the package failed"];
    a_package_before: [];
}

fn package(world: &World, place: &str, name: &str, scripts: &str) {
    std::fs::create_dir_all(world.path(place)).unwrap();
    let text =
        format!("{{\"name\": \"{name}\", \"version\": \"1.0.0\", \"scripts\": {{{scripts}}}}}");
    world.write(&format!("{place}/package.json"), &text);
}

/// `npm publish`, with its own retries off.
fn publish<'a>(world: &'a mut World, server: &Server, more: &str) -> Call<'a> {
    retrying(world, server, more).env("npm_config_fetch_retries", "0")
}

/// The same with its own retries, without their pauses.
fn retrying<'a>(world: &'a mut World, server: &Server, more: &str) -> Call<'a> {
    let config = format!("//127.0.0.1:{}/:_authToken=secret\n", server.port());
    let (config, cache) = (world.write("npmrc", &config), world.arg("cache"));
    let line = format!("npm publish {more}");
    let call = world.line(line.trim_end());
    call.env("npm_config_userconfig", config)
        .env("npm_config_globalconfig", "/dev/null")
        .env("npm_config_registry", server.url("/"))
        .env("npm_config_noproxy", "127.0.0.1")
        .env("npm_config_cache", cache)
        .env("npm_config_update_notifier", "false")
        .env("npm_config_fetch_retry_mintimeout", "1")
        .env("npm_config_fetch_retry_maxtimeout", "1")
}

/// A registry that knows no package and answers like this when one is published.
fn registry(answer: Answer) -> Server {
    Server::http(move |request, _| match request.method() {
        "PUT" => answer.clone(),
        _ => Answer::Reply(status(404)),
    })
}

fn refused(world: &mut World) {
    package(world, ".", "a", "");
    let server = Server::refuses();
    publish(world, &server, "").run().is_safe();
    retrying(world, &server, "--fetch-retries=0")
        .run()
        .is_safe();
    publish(world, &server, "--fetch-retries=1")
        .run()
        .is_uncertain();
    retrying(world, &server, "").run().is_uncertain();
}

fn reset(world: &mut World) {
    package(world, ".", "a", "");
    let server = registry(Answer::Reset);
    publish(world, &server, "").run().is_uncertain();
    assert_eq!(server.count("PUT"), 1);
}

fn it_tries_again_by_itself(world: &mut World) {
    package(world, ".", "a", "");
    let server = registry(Answer::Reset);
    retrying(world, &server, "").run().is_uncertain();
    assert_eq!(server.count("PUT"), 3);
}

fn statuses(world: &mut World) {
    package(world, ".", "a", "");
    for (code, class) in [(403, "permanent"), (409, "permanent"), (503, "uncertain")] {
        let server = registry(Answer::Reply(status(code)));
        let ran = publish(world, &server, "").run();
        ran.is(class, 1);
        assert_eq!(ran.last().http_status, Some(code.into()), "{ran:#?}");
        assert_eq!(server.count("PUT"), 1);
    }
}

fn throttled(world: &mut World) {
    package(world, ".", "a", "");
    let server = registry(Answer::Reply(status(429)));
    publish(world, &server, "").run().is_throttled();
    assert_eq!(server.count("PUT"), 1);
    retrying(world, &server, "").run().is_uncertain();
}

fn hangs_after_reading(world: &mut World) {
    package(world, ".", "a", "");
    let server = registry(Answer::Hang);
    publish(world, &server, "--fetch-timeout=1000")
        .run()
        .is_uncertain();
    assert_eq!(server.count("PUT"), 1);
}

fn another_error(world: &mut World) {
    package(world, ".", "a", "");
    let call = publish(
        world,
        &Server::refuses(),
        "--registry=http://127.0.0.1:99999/",
    );
    call.run().is_uncertain();
}

fn no_package(world: &mut World) {
    let server = registry(Answer::Reply(status(201)));
    publish(world, &server, "").run().is_permanent();
    world.write("package.json", "{");
    publish(world, &server, "").run().is_permanent();
    assert_eq!(server.count("PUT"), 0);
}

fn nobody_is_logged_in(world: &mut World) {
    package(world, ".", "a", "");
    let server = registry(Answer::Reply(status(201)));
    let nobody = world.write("nobody", "");
    let call = publish(world, &server, "");
    call.env("npm_config_userconfig", nobody)
        .run()
        .is_permanent();
    assert_eq!(server.count("PUT"), 0);
}

/// What runs after the package was published prints the words of a refused connect.
fn a_script_that_could_not_connect(world: &mut World) {
    let nested =
        "echo npm error code ECONNREFUSED >&2; echo npm ERR! code ECONNREFUSED >&2; exit 1";
    package(world, ".", "a", &format!("\"postpublish\": \"{nested}\""));
    let server = registry(Answer::Reply(status(201)));
    publish(world, &server, "").run().is_uncertain();
    assert_eq!(server.count("PUT"), 1);
}

/// One command that publishes two packages.
fn a_package_before(world: &mut World) {
    world.write(
        "package.json",
        "{\"name\": \"root\", \"private\": true, \"workspaces\": [\"a\", \"b\"]}",
    );
    package(world, "a", "a", "");
    package(world, "b", "b", "");
    let server = Server::http(|request, _| match (request.method(), request.target()) {
        ("PUT", "/a") => Answer::Reply(status(201)),
        ("PUT", _) => Answer::Reply(status(429)),
        _ => Answer::Reply(status(404)),
    });
    for option in [
        "--workspaces",
        "--ws",
        "-ws",
        "-w a -w b",
        "--workspace=a --workspace=b",
    ] {
        publish(world, &server, option).run().is_uncertain();
    }
    assert!(server.count("PUT") >= 2);
}
