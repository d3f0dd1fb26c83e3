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
        "wget -q --tries=1 --max-redirect 0 http://x",
    ] {
        assert_eq!(class(line, 4, stderr), SAFE, "{line}");
    }
    for line in [
        "wget -t1 http://x http://y",
        "wget -t2 http://x",
        "wget -nv -t1 http://x",
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
    let stderr = "ssh: connect to host h port 22: Connection refused";
    for line in ["ssh h true", "ssh git@h run", "ssh -i k -p 22 h echo~1"] {
        assert_eq!(class(line, 255, stderr), SAFE, "{line}");
    }
    for line in [
        "ssh h cd~r;git~pull",
        "ssh h ssh i true",
        "ssh h rsync~a~i:b",
    ] {
        assert_eq!(class(line, 255, stderr), UNCERTAIN, "{line}");
    }
    assert_eq!(class("rsync -ae ssh~-p~22 a h:b", 255, stderr), SAFE);
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
}
