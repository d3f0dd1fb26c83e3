//! A TLS server whose certificate nobody trusts.

use std::process::{Command, Stdio};

use crate::needs;
use crate::server::Server;
use crate::world::World;

/// Speaks TLS on the connection that is its stdin, and appends what a client sends then to a file.
const SCRIPT: &str = "
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
try:
    inside = context.wrap_socket(socket.socket(fileno=0), server_side=True)
    data = inside.recv(65536)
except OSError:
    data = b''
with open(sys.argv[2], 'ab') as seen:
    seen.write(data)
";

/// What a test needs for it.
pub const PYTHON: &str = "python3";

/// The server. What clients send after the handshake is appended to the file `sent`.
pub fn untrusted(world: &World) -> Server {
    let (certificate, sent) = (world.arg("certificate.pem"), world.arg("sent"));
    let mut openssl = world.command("openssl");
    let request = "req -x509 -newkey rsa:2048 -nodes -subj /CN=nobody -days 3650";
    openssl.args(request.split(' '));
    world.prepare(openssl.args(["-keyout", &certificate, "-out", &world.arg("public.pem")]));
    let public = std::fs::read(world.path("public.pem")).unwrap();
    let key = std::fs::read(world.path("certificate.pem")).unwrap();
    std::fs::write(world.path("certificate.pem"), [key, public].concat()).unwrap();
    let python = needs::path(PYTHON);
    Server::inetd(move || {
        let mut command = Command::new(&python);
        command
            .args(["-c", SCRIPT, &certificate, &sent])
            .stderr(Stdio::null());
        command
    })
}

/// How many bytes clients have sent after the handshake.
pub fn sent_bytes(world: &World, server: &Server) -> u64 {
    assert!(server.connections() > 0);
    std::fs::metadata(world.path("sent")).unwrap().len()
}
