//! HTTP clients, remote shells and what travels over them.

use super::super::proof;
use super::super::{Says, Tool, Unmatched};
use super::{FAILED, PERMANENT, TOOL, UNCERTAIN, code, row, safe};
use crate::domain::outcome::Class;

pub static CURL: Tool = Tool {
    name: "curl",
    commands: &["curl"],
    warning: proof::curl_warning,
    rows: &[
        row(
            "another failure before the last one",
            FAILED,
            r"^curl: \((\d+)\)",
            Says::OtherCode,
        )
        .seen(),
        row("it retried", FAILED, r"Will retry in ", Says::Repeats).seen(),
        row(
            "the protocol is not supported",
            &[(1, 1)],
            r"Protocol .* not supported",
            PERMANENT,
        )
        .seen(),
        row(
            "an answer that is no HTTP",
            &[(1, 1)],
            r"Received HTTP/0\.9",
            UNCERTAIN,
        )
        .seen(),
        code(
            "wrong usage, URL or local file",
            &[(2, 4), (26, 26)],
            PERMANENT,
        )
        .seen(),
        row(
            "not connected",
            &[(5, 7), (35, 35), (97, 97)],
            r"^curl: \((5|6|7|35|97)\)",
            safe(proof::curl),
        )
        .seen(),
        row(
            "timed out before it was connected",
            &[(28, 28)],
            r"(Resolving|Connection) timed out|Failed to connect.*Timeout|Connection timeout after",
            safe(proof::curl),
        )
        .seen(),
        row(
            "timed out after it was connected",
            &[(28, 28)],
            r"Operation (timed out|too slow)",
            UNCERTAIN,
        )
        .seen(),
        code(
            "the certificate was refused",
            &[(58, 60), (77, 77), (90, 91)],
            PERMANENT,
        )
        .seen(),
        row(
            "the proxy opened no tunnel",
            &[(56, 56)],
            r"CONNECT tunnel failed, response (\d{3})|HTTP code (\d{3}) from proxy after CONNECT",
            Says::Tunnel(proof::curl),
        )
        .seen(),
        row(
            "an HTTP error",
            &[(22, 22)],
            r"returned error: (\d{3})",
            Says::Http(proof::curl),
        )
        .seen(),
        code("the request may have arrived", FAILED, UNCERTAIN).seen(),
    ],
    ..TOOL
};

pub static WGET: Tool = Tool {
    name: "wget",
    commands: &["wget"],
    rows: &[
        row(
            "it went on after an answer",
            FAILED,
            r"\[following\]|^Retrying\.|^Authentication selected",
            Says::Repeats,
        )
        .seen(),
        row(
            "a request was sent before the last connect",
            &[(4, 4)],
            r"^HTTP request sent",
            Says::Repeats,
        )
        .seen(),
        row(
            "not connected",
            &[(4, 4)],
            r"failed: Connection (refused|timed out)|unable to resolve host",
            safe(proof::wget),
        )
        .seen(),
        row(
            "the answer was lost",
            &[(4, 4)],
            r"Read error .* in headers|No data received",
            UNCERTAIN,
        )
        .seen(),
        row(
            "an HTTP error",
            &[(8, 8), (4, 4)],
            r"ERROR (\d{3})|awaiting response\.\.\. (504)",
            Says::Http(proof::wget),
        )
        .seen(),
        row(
            "the certificate was refused",
            &[(5, 5)],
            r"not trusted|cannot verify",
            PERMANENT,
        )
        .seen(),
        row(
            "the login was refused",
            &[(6, 6)],
            r"Authentication Failed",
            PERMANENT,
        )
        .seen(),
        code("wrong usage", &[(2, 2)], PERMANENT).seen(),
        code("the request may have arrived", &[(4, 4)], UNCERTAIN).seen(),
        code(
            "it failed after the request, or before",
            &[(1, 1), (3, 3), (7, 7)],
            UNCERTAIN,
        ),
    ],
    ..TOOL
};

pub static HTTPIE: Tool = Tool {
    name: "httpie",
    commands: &["http", "https", "httpie"],
    warning: proof::httpie_warning,
    rows: &[
        row(
            "the answer was lost",
            &[(1, 1)],
            r"Connection aborted",
            UNCERTAIN,
        ),
        row(
            "not connected",
            &[(1, 1)],
            r"NewConnectionError|gaierror",
            safe(proof::httpie),
        ),
        row("timed out", &[(2, 2)], r"Request timed out", UNCERTAIN),
        row(
            "an HTTP error",
            &[(3, 5)],
            r"HTTP (\d{3})",
            Says::Http(proof::httpie),
        ),
    ],
    ..TOOL
};

pub static PYTHON: Tool = Tool {
    name: "python",
    commands: &["python", "pypy"],
    // A program's exit 1 is its own affair unless a traceback speaks of the network.
    unmatched: Unmatched::Default,
    rows: &[
        row("it retried", FAILED, r"Retrying \(Retry\(", Says::Repeats).seen(),
        row(
            "it followed a redirect",
            FAILED,
            r", in (resolve_redirects|http_error_30\d)$",
            Says::Repeats,
        )
        .seen(),
        row(
            "not connected",
            &[(1, 1)],
            r"NewConnectionError|NameResolutionError|ConnectTimeout|Errno 111",
            safe(proof::named),
        )
        .seen(),
        row(
            "the answer was lost",
            &[(1, 1)],
            r"ReadTimeout|Connection aborted|RemoteDisconnected|ConnectionResetError|IncompleteRead|TimeoutError",
            UNCERTAIN,
        )
        .seen(),
        row(
            "an HTTP error",
            &[(1, 1)],
            r"(\d{3}) (?:Client|Server) Error|HTTP Error (\d{3})",
            Says::Http(proof::named),
        )
        .seen(),
    ],
    ..TOOL
};

const BEFORE_LOGIN: &str = r"^(ssh: connect to host|ssh: Could not resolve hostname|.*banner exchange|kex_exchange_identification)";
const LOGIN_REFUSED: &str = r"Permission denied \(|Host key verification failed|Bad configuration";

const CONNECTION_LOST: &str = r"^(Connection to .* closed by remote host|client_loop: |Read from remote host |Timeout, server )";

pub static SSH: Tool = Tool {
    name: "ssh",
    commands: &["ssh"],
    rows: &[
        row(
            "not connected",
            &[(255, 255)],
            r"^ssh: (?:connect to host (\S+ port \d+)|Could not resolve hostname ([^\s:]+))",
            Says::About(Class::Safe, proof::ssh_destination),
        )
        .seen(),
        // Which server it is about does not stand there.
        row(
            "no greeting from the server",
            &[(255, 255)],
            r"banner exchange|^kex_exchange_identification",
            safe(proof::named_login),
        )
        .seen(),
        row(
            "the login was refused",
            &[(255, 255)],
            LOGIN_REFUSED,
            PERMANENT,
        )
        .seen(),
        row(
            "the connection was lost",
            &[(255, 255)],
            CONNECTION_LOST,
            UNCERTAIN,
        )
        .seen(),
        code(
            "the connection was lost, or the remote command ended with 255",
            &[(255, 255)],
            UNCERTAIN,
        )
        .seen(),
    ],
    ..TOOL
};

pub static SCP: Tool = Tool {
    name: "scp",
    commands: &["scp"],
    rows: &[
        row(
            "the connection was lost",
            &[(1, 1)],
            r"lost connection",
            UNCERTAIN,
        ),
        row(
            "the destination is not usable",
            &[(1, 1)],
            r"dest open",
            PERMANENT,
        ),
    ],
    ..TOOL
};

pub static RSYNC: Tool = Tool {
    name: "rsync",
    commands: &["rsync"],
    rows: &[
        row(
            "not connected",
            &[(10, 10)],
            r"failed to connect|getaddrinfo",
            safe(proof::always),
        )
        .seen(),
        row(
            "not connected in time",
            &[(35, 35)],
            r"waiting for daemon",
            safe(proof::always),
        )
        .seen(),
        row(
            "not logged in",
            &[(255, 255), (12, 12)],
            BEFORE_LOGIN,
            safe(proof::one_login),
        )
        .seen(),
        row(
            "the login was refused",
            &[(255, 255), (12, 12)],
            LOGIN_REFUSED,
            PERMANENT,
        )
        .seen(),
        code(
            "the transfer was cut",
            &[(10, 10), (12, 12), (20, 20), (30, 30), (255, 255)],
            UNCERTAIN,
        )
        .seen(),
        code(
            "wrong usage, source or destination",
            &[(1, 1), (3, 3), (23, 23)],
            PERMANENT,
        )
        .seen(),
    ],
    ..TOOL
};

pub static GIT: Tool = Tool {
    name: "git",
    commands: &["git"],
    subcommands: &["push"],
    valued: &[
        "-C",
        "-c",
        "--git-dir",
        "--work-tree",
        "--namespace",
        "--exec-path",
        "--config-env",
    ],
    rows: &[
        row("it had pushed before", FAILED, r"^To ", Says::Repeats)
            .on_either()
            .seen(),
        row(
            "the ssh connection was lost",
            &[(1, 1), (128, 128)],
            CONNECTION_LOST,
            UNCERTAIN,
        )
        .seen(),
        row(
            "the other end was lost",
            &[(128, 128)],
            r"^fatal: the remote end hung up",
            UNCERTAIN,
        )
        .seen(),
        row(
            "refused before the push",
            &[(128, 128)],
            r"^fatal: unable to access .* returned error: (4\d\d)",
            Says::Http(proof::git_push),
        )
        .seen(),
        row(
            "no login or no such repository",
            &[(128, 128)],
            r"could not read Username|not found",
            PERMANENT,
        )
        .seen(),
        row(
            "the server was not reached",
            &[(128, 128)],
            r"^fatal: unable to access",
            safe(proof::git_push),
        )
        .seen(),
        row(
            "not logged in",
            &[(128, 128)],
            BEFORE_LOGIN,
            safe(proof::git_push),
        )
        .seen(),
        row(
            "the login was refused",
            &[(128, 128)],
            LOGIN_REFUSED,
            PERMANENT,
        )
        .seen(),
        row(
            "an HTTP error",
            &[(1, 1)],
            r"^error: RPC failed; HTTP (\d{3})",
            Says::Http(proof::git_push),
        )
        .seen(),
        row(
            "the answer was lost",
            &[(1, 1)],
            r"^error: RPC failed; curl",
            UNCERTAIN,
        )
        .seen(),
        row(
            "the server rejected the push",
            &[(1, 1)],
            r"\[(remote )?rejected",
            PERMANENT,
        )
        .seen(),
    ],
    ..TOOL
};
