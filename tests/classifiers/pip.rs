//! pip.

use crate::http::{Answer, status};
use crate::needs;
use crate::server::Server;
use crate::world::World;

crate::proofs! { "pip", needs ["pip3"];
    refused: ["no package was found, or none was reached"];
    reset: ["no package was found, or none was reached"];
    statuses: ["no package was found, or none was reached"];
    it_tries_again_by_itself: ["no package was found, or none was reached"];
}

/// Runs it with this many retries of its own. Its last line is the same for every failure.
fn install(world: &mut World, server: &Server, retries: u32) {
    let pip = needs::path("pip3");
    let (index, target) = (server.url("/simple/"), world.arg("target"));
    let line = format!(
        "{} install --retries {retries} --timeout 20 --index-url {index} --target {target} nothing",
        pip.display()
    );
    let call = world.line(&line);
    let call = call
        .env("PIP_CONFIG_FILE", "/dev/null")
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
    call.run().is_uncertain();
}

fn refused(world: &mut World) {
    install(world, &Server::refuses(), 0);
}

fn reset(world: &mut World) {
    let server = Server::always(Answer::Reset);
    install(world, &server, 0);
    assert_eq!(server.count("GET"), 1);
}

fn statuses(world: &mut World) {
    for code in [404, 503] {
        let server = Server::always(Answer::Reply(status(code)));
        install(world, &server, 0);
        assert_eq!(server.count("GET"), 1);
    }
}

fn it_tries_again_by_itself(world: &mut World) {
    let server = Server::always(Answer::Reset);
    install(world, &server, 1);
    assert_eq!(server.count("GET"), 2);
}
