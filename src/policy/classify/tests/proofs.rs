//! When one request at most was sent.

use super::*;

#[test]
fn curl_must_be_known_to_send_one_request() {
    let stderr = "curl: (7) Failed to connect to x";
    for line in [
        "curl http://x",
        "curl -sSf -X POST -d @f -H A:~b http://x",
        "curl -fsSo out --max-time 5 --url http://x",
        "curl -sSXPOST http://[::1]:80/",
        "curl -g http://x/{a,b}",
        "curl --compressed -u a:b -T f http://u:p@x/",
        "curl --basic -u a:b http://x",
        "timeout 5 env A=b curl http://x",
    ] {
        assert_eq!(class(line, 7, stderr), SAFE, "{line}");
    }
    for line in [
        "curl http://x http://y",
        "curl http://x/[1-3]",
        "curl http://x/{a,b}",
        "curl http://[::1]/[1-3]",
        "curl -L http://x",
        "curl -sSL http://x",
        "curl --location http://x",
        "curl --loc http://x",
        "curl --location-trusted http://x",
        "curl --retry 3 http://x",
        "curl --retry-connrefused http://x",
        "curl -K config http://x",
        "curl --next http://x",
        "curl -sT {a,b} http://x/",
        "curl --future-option http://x",
        "curl --anyauth -u a:b http://x",
        "curl --digest -u a:b http://x",
        "curl -H",
        "curl",
    ] {
        assert_eq!(class(line, 7, stderr), UNCERTAIN, "{line}");
    }
    let throttled = "curl: (22) The requested URL returned error: 429";
    assert_eq!(class("curl -f http://x http://y", 22, throttled), UNCERTAIN);
    let refused = "curl: (22) The requested URL returned error: 404";
    assert_eq!(class("curl -fL http://x", 22, refused), PERMANENT);
}

#[test]
fn wget_must_be_known_to_send_one_request() {
    let stderr = "failed: Connection refused.";
    for line in [
        "wget -t1 http://x",
        "wget -t 1 -T 5 -O f http://x",
        "wget --tries=1 --timeout 5 --post-data a=1 http://x",
        "wget --tries=20 -t1 -nc -S4 --method PUT http://x",
    ] {
        assert_eq!(class(line, 4, stderr), SAFE, "{line}");
    }
    for line in [
        "wget -t1 http://x http://y",
        "wget -t2 http://x",
        "wget -t1 --tries=2 http://x",
        "wget -t1 --trie=2 http://x",
        "wget -t1 -t http://x",
        "wget -nv -t1 http://x",
        "wget -q --tries=1 --max-redirect 0 http://x",
        "wget -Sq -t1 http://x",
        "wget --spider -t1 http://x",
        "wget -t1 -r http://x",
        "wget -t1 -i list http://x",
        "wget -t1 --input-file=list http://x",
        "wget -t1",
    ] {
        assert_eq!(class(line, 4, stderr), UNCERTAIN, "{line}");
    }
}

#[test]
fn a_login_elsewhere_proves_nothing_about_this_one() {
    let refused =
        |host, port| format!("ssh: connect to host {host} port {port}: Connection refused\r");
    for (line, host, port) in [
        ("ssh h true", "h", 22),
        ("ssh git@H run", "h", 22),
        ("ssh -i k -p 2222 h echo~1", "h", 2222),
        ("ssh -Cvp2222 -oBatchMode=yes -l me h", "h", 2222),
    ] {
        assert_eq!(class(line, 255, &refused(host, port)), SAFE, "{line}");
    }
    for (line, host, port) in [
        ("ssh h deploy", "i", 22),
        ("ssh -p 2222 h deploy", "h", 22),
        ("ssh -o Port=2222 h deploy", "h", 2222),
        ("ssh ssh://h:2222 deploy", "h", 2222),
        ("ssh h deploy -p 2222", "h", 2222),
        ("ssh h cd~r;git~pull", "h", 22),
        ("ssh h ssh h true", "h", 22),
        ("ssh h rsync~a~h:b", "h", 22),
        ("ssh -p", "h", 22),
        ("ssh", "h", 22),
    ] {
        assert_eq!(class(line, 255, &refused(host, port)), UNCERTAIN, "{line}");
    }
    let unknown = "ssh: Could not resolve hostname h: Name or service not known";
    assert_eq!(class("ssh -p 2222 h true", 255, unknown), SAFE);
    assert_eq!(class("ssh i true", 255, unknown), UNCERTAIN);
    for (line, host, port, expected) in [
        ("ssh -o Port=2222 h true", "h", 2222, SAFE),
        ("ssh h ssh i true", "i", 22, UNCERTAIN),
        ("./deploy.sh", "i", 22, UNCERTAIN),
    ] {
        let stderr = refused(host, port);
        let named = Run {
            named: Some("ssh"),
            ..run(line, 255, &stderr)
        };
        assert_eq!(named.class(), expected, "{line}");
    }
    for hook in [
        "remote: ssh: connect to host i port 22: Connection refused",
        "remote: fatal: unable to access 'http://i/': Failed to connect",
    ] {
        assert_eq!(class("git push", 128, hook), UNCERTAIN);
        let lost = format!("{hook}\nfatal: the remote end hung up unexpectedly");
        assert_eq!(class("git push", 128, &lost), UNCERTAIN);
    }
    let own = "ssh: connect to host h port 22: Connection refused";
    assert_eq!(class("git push", 128, own), SAFE);
    assert_eq!(class("rsync -ae ssh~-p~22 a h:b", 255, own), SAFE);
    assert_eq!(class("rsync a h:b", 255, own), SAFE);
}

#[test]
fn the_environment_can_prove_that_retries_are_off() {
    let aws = |line, env| {
        Run {
            env,
            ..run(line, 255, "Could not connect to the endpoint URL")
        }
        .class()
    };
    let once: &[(&str, &str)] = &[("AWS_MAX_ATTEMPTS", "1")];
    assert_eq!(aws("aws sns publish", once), SAFE);
    assert_eq!(
        aws("aws sns publish", &[("AWS_MAX_ATTEMPTS", "2")]),
        UNCERTAIN
    );
    assert_eq!(aws("aws sns publish", &[]), UNCERTAIN);
    assert_eq!(aws("aws s3 cp a b", once), UNCERTAIN);
    assert_eq!(aws("env AWS_MAX_ATTEMPTS=1 aws sns publish", &[]), SAFE);
    assert_eq!(
        aws("env AWS_MAX_ATTEMPTS=3 aws sns publish", once),
        UNCERTAIN
    );
    assert_eq!(aws("env -i aws sns publish", once), UNCERTAIN);
    assert_eq!(
        aws("sudo aws sns publish", once),
        UNCERTAIN,
        "sudo clears it"
    );
    assert_eq!(aws("sudo AWS_MAX_ATTEMPTS=1 aws sns publish", &[]), SAFE);
    let npm = |env| {
        Run {
            env,
            ..run("npm publish", 1, "npm error code ECONNREFUSED")
        }
        .class()
    };
    assert_eq!(npm(&[("npm_config_fetch_retries", "0")]), SAFE);
    assert_eq!(npm(&[("npm_config_fetch_retries", "2")]), UNCERTAIN);
    let publish = |line| {
        let env = &[("npm_config_fetch_retries", "0")];
        let refused = run(line, 1, "npm error code ECONNREFUSED");
        Run { env, ..refused }.class()
    };
    assert_eq!(publish("npm publish --tag x"), SAFE);
    for line in [
        "npm publish --fetch-retries=2",
        "npm publish --fetch-retries 0 --fetch-retries 2",
        "npm publish -w a",
        "npm publish -ws",
        "npm publish --workspaces",
        "npm publish --ws",
    ] {
        assert_eq!(publish(line), UNCERTAIN, "{line}");
    }
}

#[test]
fn one_session_at_most_was_opened() {
    let refused =
        |tool: &str| format!("{tool}: error: connection to server at h failed: Connection refused");
    assert_eq!(class("psql -c x", 2, &refused("psql")), SAFE);
    assert_eq!(class("pg_dump x", 1, &refused("pg_dump")), SAFE);
    assert_eq!(
        class("pg_dump -Fd -j 4 x", 1, &refused("pg_dump")),
        UNCERTAIN
    );
    assert_eq!(
        class("pg_dump --jobs=4 x", 1, &refused("pg_dump")),
        UNCERTAIN
    );
    let script =
        "psql:x.sql:2: error: \\connect: connection to server at h failed: Connection refused";
    assert_eq!(class("psql -f x.sql", 3, script), UNCERTAIN);
    assert_eq!(class("psql -f x.sql", 2, script), UNCERTAIN);
}
