//! Which classifier a command line gets.

use super::super::invocation::{Peeled, peel};
use super::*;

#[test]
fn a_tool_is_found_by_its_base_name() {
    let tool = |line: &str| Tool::for_command(&argv(line)).map(|t| t.name);
    for (line, name) in [
        ("curl http://x", Some("curl")),
        ("/usr/bin/curl http://x", Some("curl")),
        ("./curl.sh", None),
        ("python3.12 x.py", Some("python")),
        ("python3 -m pip install x", Some("pip")),
        ("python3 -m http.server", Some("python")),
        ("pip3 install x", Some("pip")),
        ("pip list", None),
        ("git push origin", Some("git")),
        ("git -C /srv -c a=b push", Some("git")),
        ("git commit -m push", None),
        ("npm --silent publish", Some("npm")),
        ("npm test", None),
        ("docker --context x push img", Some("docker-push")),
        ("docker run img push", Some("docker-run")),
        ("bash script.sh -c", Some("bash")),
        ("bash -x script.sh", Some("bash")),
        ("bash -c x", None),
        ("bash -ec x", None),
        ("sh -c curl~http://x", None),
        ("bash --norc -c x", None),
        ("sh", None),
        ("", None),
        ("nosuch", None),
    ] {
        assert_eq!(tool(line), name, "{line}");
    }
    assert_eq!(Tool::for_command(&[]), None);
}

#[test]
fn wrappers_are_looked_through() {
    let inner = |line: &str| {
        let text = |p: Peeled| {
            p.argv
                .iter()
                .map(|a| String::from_utf8_lossy(a).into_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        peel(&argv(line)).map(text)
    };
    for (line, expected) in [
        ("env A=1 B=2 curl x", Some("curl x")),
        ("env -i -u HOME -C /tmp A=1 curl x", Some("curl x")),
        ("env --unset HOME --chdir=/tmp -- curl x", Some("curl x")),
        ("env - curl x", Some("curl x")),
        ("env -S curl~x", None),
        ("env --split-string=curl~x", None),
        ("env A=1", None),
        ("nice curl x", Some("curl x")),
        ("nice -n 5 curl x", Some("curl x")),
        ("nice -n5 curl x", Some("curl x")),
        ("nice -10 curl x", Some("curl x")),
        ("nice --adjustment 5 curl x", Some("curl x")),
        ("nohup curl x", Some("curl x")),
        ("stdbuf -oL -e 0 curl x", Some("curl x")),
        ("stdbuf --output=L curl x", Some("curl x")),
        ("/usr/bin/time -f %e -o log -a curl x", Some("curl x")),
        ("sudo -u www -E A=1 curl x", Some("curl x")),
        ("sudo --user www -nH curl x", Some("curl x")),
        ("sudo -i curl x", None),
        ("sudo -nb curl x", None),
        ("sudo --login curl x", None),
        ("timeout 5 curl x", Some("curl x")),
        ("timeout -k 1 -s INT --foreground 5s curl x", Some("curl x")),
        ("timeout --kill-after 1 5s curl x", Some("curl x")),
        ("timeout 5", None),
        ("sudo env A=1 nice timeout 5 nohup curl x", Some("curl x")),
        ("env A=1 env B=2 sh -c curl~x", Some("sh -c curl~x")),
        ("nice -n", None),
        ("A=1 curl x", Some("A=1 curl x")),
    ] {
        assert_eq!(
            inner(line).as_deref(),
            expected.map(|e| e.replace('~', " ")).as_deref(),
            "{line}"
        );
    }
}

#[test]
fn a_selection_is_read() {
    assert_eq!("auto".parse(), Ok(Selection::Auto));
    assert_eq!("none".parse(), Ok(Selection::None));
    assert_eq!(
        "curl".parse(),
        Ok(Selection::Named(Tool::named("curl").unwrap()))
    );
    let error = "kurl".parse::<Selection>().unwrap_err().to_string();
    assert!(
        error.starts_with("`kurl` is not a classifier, expected auto, none or one of curl, wget,")
    );
    assert!(Classifier::choose(Selection::None, &argv("curl x")).is_none());
}
