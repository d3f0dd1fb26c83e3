//! A private sshd: one process for each connection, with keys and a configuration of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::needs;
use crate::server::Server;
use crate::world::World;

/// What a test needs for it.
pub const NEEDS: [&str; 3] = ["ssh", "sshd", "ssh-keygen"];

/// Makes the keys and the client's configuration: `known` is the configuration that works, `stranger`
/// the one with a key that the server does not know, `doubtful` the one that knows another server.
pub fn configure(world: &World) {
    for key in ["host_key", "other_host_key", "key", "other_key"] {
        let mut keygen = world.command("ssh-keygen");
        world.prepare(keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", key]));
    }
    fs::copy(world.path("key.pub"), world.path("authorized")).unwrap();
    for (known, key) in [
        ("known_hosts", "host_key.pub"),
        ("other_hosts", "other_host_key.pub"),
    ] {
        let public = fs::read_to_string(world.path(key)).unwrap();
        world.write(known, &format!("idem-tests {public}"));
    }
    world.write("sshd_config", &server_side(world));
    world.write("known", &client_side(world, "key", "known_hosts"));
    world.write("stranger", &client_side(world, "other_key", "known_hosts"));
    world.write("doubtful", &client_side(world, "key", "other_hosts"));
}

fn server_side(world: &World) -> String {
    let (key, authorized) = (world.arg("host_key"), world.arg("authorized"));
    format!(
        "HostKey {key}\nAuthorizedKeysFile {authorized}\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\nPidFile none\n"
    )
}

fn client_side(world: &World, key: &str, known: &str) -> String {
    let (key, known) = (world.arg(key), world.arg(known));
    format!(
        "IdentityFile {key}\nIdentitiesOnly yes\nUserKnownHostsFile {known}\nGlobalKnownHostsFile none\n\
         HostKeyAlias idem-tests\nStrictHostKeyChecking yes\nBatchMode yes\n"
    )
}

/// The server. A user who is not root can log in only as himself, and so does root here.
pub fn serve(world: &World) -> Server {
    let separation = Path::new("/run/sshd");
    if needs::is_root() && !separation.exists() {
        // Where the service has never been started, its directory is missing.
        fs::create_dir_all(separation).unwrap();
        fs::set_permissions(separation, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let (program, config, log) = (
        needs::path("sshd"),
        world.arg("sshd_config"),
        world.arg("sshd.log"),
    );
    Server::inetd(move || {
        let mut sshd = Command::new(&program);
        sshd.args(["-i", "-f", &config, "-E", &log])
            .stderr(Stdio::null());
        sshd
    })
}
