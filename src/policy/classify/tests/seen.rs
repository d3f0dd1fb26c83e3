//! Endings that the real tools were seen to have, with the lines that they printed.

use super::*;

/// A command line, its exit code, its standard error, and the class that follows.
type Row = (&'static str, i32, &'static str, Option<Class>);

fn are_told(rows: &[Row]) {
    for (line, code, stderr, expected) in rows {
        assert_eq!(
            class(line, *code, stderr),
            *expected,
            "{line} -> {code} {stderr}"
        );
    }
}

#[test]
fn endings_of_curl_are_told() {
    are_told(CURL);
}

#[test]
fn endings_of_wget_are_told() {
    are_told(WGET);
}

#[test]
fn endings_of_remote_shells_and_copies_are_told() {
    are_told(REMOTE);
}

#[test]
fn endings_of_git_are_told() {
    are_told(GIT);
}

#[test]
fn endings_of_database_clients_are_told() {
    are_told(DATABASES);
}

#[test]
fn endings_of_package_managers_are_told() {
    are_told(PACKAGES);
}

#[test]
fn endings_of_clients_of_services_are_told() {
    are_told(SERVICES);
}

#[test]
fn endings_of_scripts_and_builds_are_told() {
    are_told(SCRIPTS);
}

/// Transfers with curl.
const CURL: &[Row] = &[
    (
        "curl -sS -d a=1 http://127.0.0.1:17999/",
        7,
        "curl: (7) Failed to connect to 127.0.0.1 port 17999 after 0 ms: Couldn't connect to server",
        SAFE,
    ),
    (
        "curl -sS --max-time 2 -d a=1 http://127.0.0.1:18009/",
        28,
        "curl: (28) Connection timed out after 2004 milliseconds",
        SAFE,
    ),
    (
        "curl -sS --max-time 2 -d a=1 http://127.0.0.1:18006/",
        28,
        "curl: (28) Operation timed out after 2001 milliseconds with 0 bytes received",
        UNCERTAIN,
    ),
    (
        "curl -sS -d a=1 http://127.0.0.1:18003/",
        56,
        "curl: (56) Recv failure: Connection reset by peer",
        UNCERTAIN,
    ),
    (
        "curl -sS --fail -d a=1 http://127.0.0.1:18000/s/429",
        22,
        "curl: (22) The requested URL returned error: 429",
        THROTTLED,
    ),
    (
        "curl -sS --fail http://x/",
        22,
        "curl: (22) The requested URL returned error: 404",
        PERMANENT,
    ),
    (
        "curl -sS --fail http://x/",
        22,
        "curl: (22) The requested URL returned error: 409",
        PERMANENT,
    ),
    (
        "curl -sS --fail http://x/",
        22,
        "curl: (22) The requested URL returned error: 503",
        UNCERTAIN,
    ),
    (
        "curl -sS --fail http://x/",
        22,
        "curl: (22) The requested URL returned error: 408",
        UNCERTAIN,
    ),
    (
        "curl -x p:1 https://x/",
        56,
        "curl: (56) CONNECT tunnel failed, response 403",
        PERMANENT,
    ),
    (
        "curl -x p:1 https://x/",
        56,
        "curl: (56) CONNECT tunnel failed, response 502",
        SAFE,
    ),
    (
        "curl -L -x p:1 https://x/",
        56,
        "curl: (56) CONNECT tunnel failed, response 502",
        UNCERTAIN,
    ),
    ("curl -s http://x/", 7, "", UNCERTAIN),
    ("curl -s http://x/", 60, "", PERMANENT),
    (
        "curl --nosuch",
        2,
        "curl: option --nosuch: is unknown",
        PERMANENT,
    ),
    (
        "curl x://y",
        1,
        "curl: (1) Protocol \"x\" not supported or disabled in libcurl",
        PERMANENT,
    ),
    (
        "curl http://x/",
        1,
        "curl: (1) Received HTTP/0.9 when not allowed",
        UNCERTAIN,
    ),
    (
        "curl http://x/",
        92,
        "curl: (92) HTTP/2 stream was not closed cleanly",
        UNCERTAIN,
    ),
];

/// Transfers with wget.
const WGET: &[Row] = &[
    (
        "wget --tries 1 --post-data a=1 http://127.0.0.1:17999/",
        4,
        "Connecting to 127.0.0.1:17999... failed: Connection refused.",
        SAFE,
    ),
    (
        "wget --tries=1 http://x/",
        4,
        "Connecting to x:80... failed: Connection refused.",
        SAFE,
    ),
    (
        "wget -t1 http://x/",
        4,
        "wget: unable to resolve host address 'x'",
        SAFE,
    ),
    (
        "wget http://x/",
        4,
        "failed: Connection refused.",
        UNCERTAIN,
    ),
    (
        "wget -nv -O /dev/null --tries 1 --post-data a=1 http://127.0.0.1:18003/",
        4,
        "Read error (Connection reset by peer) in headers.",
        UNCERTAIN,
    ),
    ("wget -q -t 1 http://x/", 4, "", UNCERTAIN),
    (
        "wget -t1 http://x/",
        8,
        "2026-01-01 00:00:00 ERROR 404: Not Found.",
        PERMANENT,
    ),
    (
        "wget -t1 http://x/",
        8,
        "2026-01-01 00:00:00 ERROR 429: Too Many Requests.",
        THROTTLED,
    ),
    (
        "wget http://x/",
        8,
        "2026-01-01 00:00:00 ERROR 429: Too Many Requests.",
        UNCERTAIN,
    ),
    (
        "wget -t1 http://x/",
        4,
        "2026-01-01 00:00:00 ERROR 504: Gateway Timeout.",
        UNCERTAIN,
    ),
];

/// Remote shells, and copies to other machines.
const REMOTE: &[Row] = &[
    (
        "ssh h true",
        255,
        "ssh: connect to host h port 22: Connection refused",
        SAFE,
    ),
    (
        "ssh -p 18122 127.0.0.1 touch~did",
        255,
        "Connection to 127.0.0.1 closed by remote host.",
        UNCERTAIN,
    ),
    (
        "ssh h true",
        255,
        "kex_exchange_identification: Connection closed by remote host",
        UNCERTAIN,
    ),
    (
        "ssh h true",
        255,
        "h: Permission denied (publickey).",
        PERMANENT,
    ),
    ("ssh h exit~255", 255, "", UNCERTAIN),
    ("ssh h false", 1, "", None),
    (
        "rsync a rsync://h/m",
        10,
        "rsync: [sender] failed to connect to h (127.0.0.1): Connection refused (111)",
        SAFE,
    ),
    (
        "rsync a rsync://h/m",
        30,
        "rsync error: timeout in data send/receive (code 30)",
        UNCERTAIN,
    ),
    (
        "rsync a h:b",
        255,
        "ssh: connect to host h port 22: Connection refused\nrsync: connection unexpectedly closed",
        SAFE,
    ),
    ("rsync nosuch b", 23, "rsync: link_stat failed", PERMANENT),
    ("rsync a b", 24, "rsync warning: some files vanished", None),
];

/// Pushes with git.
const GIT: &[Row] = &[
    (
        "git push http://127.0.0.1:18203/r.git HEAD:refs/heads/t",
        1,
        "error: RPC failed; curl 56 Recv failure: Connection reset by peer\nEverything up-to-date",
        UNCERTAIN,
    ),
    (
        "git push",
        1,
        "error: RPC failed; HTTP 429 curl 22 The requested URL returned error: 429",
        THROTTLED,
    ),
    (
        "git push",
        1,
        "error: RPC failed; HTTP 403 curl 22 The requested URL returned error: 403",
        PERMANENT,
    ),
    (
        "git push",
        1,
        "error: RPC failed; HTTP 503 curl 22 The requested URL returned error: 503",
        UNCERTAIN,
    ),
    (
        "git push",
        1,
        " ! [rejected]        HEAD -> t (fetch first)",
        PERMANENT,
    ),
    (
        "git push",
        128,
        "fatal: unable to access 'http://x/': Failed to connect to x port 80",
        SAFE,
    ),
    (
        "git push",
        128,
        "fatal: unable to access 'http://x/': The requested URL returned error: 403",
        PERMANENT,
    ),
    (
        "git push",
        128,
        "fatal: unable to access 'http://x/': The requested URL returned error: 429",
        THROTTLED,
    ),
    ("git push", 128, "", UNCERTAIN),
];

/// Clients of databases.
const DATABASES: &[Row] = &[
    (
        "psql -c x",
        2,
        "psql: error: connection to server at \"h\", port 5432 failed: Connection refused",
        SAFE,
    ),
    (
        "psql -c x",
        2,
        "psql: error: connection to server at \"h\" failed: FATAL:  database \"x\" does not exist",
        PERMANENT,
    ),
    (
        "psql -c x",
        2,
        "FATAL:  terminating connection due to administrator command\nserver closed the connection unexpectedly\nconnection to server was lost",
        UNCERTAIN,
    ),
    (
        "psql -c x",
        1,
        "ERROR:  syntax error at or near \"x\"",
        PERMANENT,
    ),
    (
        "psql -c x -c y",
        1,
        "ERROR:  syntax error at or near \"y\"",
        UNCERTAIN,
    ),
    (
        "psql -f x.sql -v ON_ERROR_STOP=1",
        3,
        "psql:x.sql:2: ERROR:  syntax error",
        UNCERTAIN,
    ),
    (
        "redis-cli incr a",
        1,
        "Could not connect to Redis at 127.0.0.1:1: Connection refused",
        SAFE,
    ),
    (
        "redis-cli incr a",
        1,
        "Error: Server closed the connection\nCould not connect to Redis",
        UNCERTAIN,
    ),
    (
        "mysql x",
        1,
        "ERROR 2002 (HY000): Can't connect to server on '127.0.0.1' (115)",
        SAFE,
    ),
    (
        "mysql x",
        1,
        "ERROR 2002 (HY000) at line 4: Can't connect to server on '127.0.0.1' (115)",
        UNCERTAIN,
    ),
    (
        "mysql x",
        1,
        "ERROR 1062 (23000) at line 2: Duplicate entry '1040' for key 'PRIMARY'",
        PERMANENT,
    ),
];

/// Package managers.
const PACKAGES: &[Row] = &[
    ("npm publish", 1, "npm error code ECONNREFUSED", UNCERTAIN),
    (
        "npm publish --fetch-retries=0",
        1,
        "npm error code ECONNREFUSED",
        SAFE,
    ),
    ("npm publish", 1, "npm error code E403", PERMANENT),
    ("npm publish", 1, "npm error code E503", UNCERTAIN),
    (
        "npm publish --fetch-retries=0",
        1,
        "npm error code ECONNREFUSED\nnpm error code ETIMEDOUT",
        UNCERTAIN,
    ),
    (
        "pip install x",
        1,
        "ERROR: No matching distribution found for x",
        UNCERTAIN,
    ),
    (
        "cargo publish",
        101,
        "error: download of config.json failed",
        SAFE,
    ),
    (
        "cargo publish",
        101,
        "    Uploaded a v1.0.0 to registry\nerror: download of config.json failed",
        UNCERTAIN,
    ),
    (
        "apt-get install a",
        100,
        "E: Could not get lock /var/lib/dpkg/lock\nE: Sub-process /usr/bin/dpkg returned an error code (1)",
        UNCERTAIN,
    ),
];

/// Clients of services, and what keeps infrastructure.
const SERVICES: &[Row] = &[
    ("borg create", 1, "", Some(Class::Success)),
    (
        "terraform plan -detailed-exitcode",
        2,
        "",
        Some(Class::Success),
    ),
    ("terraform plan", 2, "", UNCERTAIN),
    (
        "helm upgrade a b",
        1,
        "Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress",
        SAFE,
    ),
    (
        "kubectl exec p -- deploy",
        1,
        "The connection to the server localhost:8080 was refused - did you specify the right host or port?",
        UNCERTAIN,
    ),
    (
        "docker run img deploy",
        125,
        "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock.",
        UNCERTAIN,
    ),
    ("gh api -X POST x", 1, "error connecting to api.test", SAFE),
    (
        "gh issue create",
        1,
        "error connecting to api.test",
        UNCERTAIN,
    ),
];

/// Scripts, builds, and what no classifier is for.
const SCRIPTS: &[Row] = &[
    (
        "python3 x.py",
        1,
        "requests.exceptions.ReadTimeout: HTTPConnectionPool: Read timed out. (read timeout=2)",
        UNCERTAIN,
    ),
    (
        "python3 x.py",
        1,
        "requests.exceptions.HTTPError: 404 Client Error: Not Found for url",
        PERMANENT,
    ),
    (
        "python3 x.py",
        1,
        "urllib.error.HTTPError: HTTP Error 500: Internal Server Error",
        UNCERTAIN,
    ),
    ("python3 x.py", 1, "ValueError: x", None),
    ("make x", 2, "make: *** [Makefile:2: x] Error 1", UNCERTAIN),
    (
        "make x",
        2,
        "make: *** No rule to make target 'x'.  Stop.",
        None,
    ),
    (
        "bash x.sh",
        2,
        "x.sh: line 3: syntax error near unexpected token",
        PERMANENT,
    ),
    ("bash x.sh", 137, "", UNCERTAIN),
    ("bash x.sh", 1, "", None),
    ("nosuch", 75, "", None),
];
