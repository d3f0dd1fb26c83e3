//! Everything at once.

use std::fs;

use crate::env::upto;
use crate::world::{Host, World, can_hide, own_cluster};

const HOSTS: usize = 4;
const KEYS: usize = 50;

/// Every key, each host in an order of its own, again where nothing was run; notes each call's code.
fn all_keys(host: &Host, number: usize) -> crate::command::Running {
    let script = "n=$1; shift; \
        for i in $(seq 0 49); do k=$(((i * 7 + n * 13) % 50)); \
        code=125; while [ $code = 125 ]; do \
        KEY=k$k \"$0\" run --key k$k --lease 5s -- sh -c 'echo x >>\"$LOG/$KEY\"' >/dev/null 2>>\"$LOG/err.$n\"; \
        code=$?; echo \"k$k $code\" >>\"$LOG/codes.$n\"; done; done";
    host.shell(script).arg(number.to_string()).start()
}

#[test]
fn four_hosts_and_fifty_keys_while_the_server_is_killed_twice() {
    let Some(cluster) = own_cluster() else { return };
    if !can_hide() {
        return;
    }
    let world = World::new(&cluster);
    let url = cluster.url(&world.database);
    let hosts: Vec<Host> = (0..HOSTS).map(|_| world.hidden_host(&url)).collect();
    let calls: Vec<_> = hosts
        .iter()
        .enumerate()
        .map(|(n, host)| all_keys(host, n))
        .collect();
    let key = |k: usize| format!("k{k}");
    let all = || (0..KEYS).map(|k| world.runs(&key(k))).sum::<usize>();
    for runs in [12, 30] {
        upto("some have run", || all() >= runs);
        cluster.kill9();
        cluster.start_again();
    }
    for call in calls {
        call.end().code(0);
    }
    let codes: Vec<String> = (0..HOSTS)
        .flat_map(|n| {
            let codes = fs::read_to_string(world.file(&format!("codes.{n}"))).expect("codes");
            codes.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    assert!(codes.len() >= HOSTS * KEYS);
    for k in 0..KEYS {
        let ran = world.runs(&key(k));
        let told = |code: &str| codes.iter().any(|line| *line == format!("k{k} {code}"));
        assert!(ran <= 1, "k{k} ran {ran} times");
        assert!(ran == 1 || !told("0"), "k{k} never ran");
    }
    let last = &hosts[0];
    let done = all_keys(last, HOSTS).end();
    done.code(0);
    let codes = fs::read_to_string(world.file(&format!("codes.{HOSTS}"))).expect("codes");
    for line in codes.lines() {
        let (key, code) = line.split_once(' ').expect("a code");
        let ran = world.runs(key);
        let known = code == "0" && ran == 1;
        assert!(
            known || (code == "122" && ran <= 1),
            "{line}, ran {ran} times"
        );
    }
}
