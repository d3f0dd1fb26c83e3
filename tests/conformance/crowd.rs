//! Many processes at once, and processes that die in the middle.

use crate::Place;
use crate::sample::*;
use idem::domain::name::Nonce;
use idem::domain::outcome::State;
use idem::engine::store::{Claimed, Claiming, Fenced, Filter, GuardKind, NewClaim, Store};
use serde_json::json;
use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const LOCATION: &str = "CONFORMANCE_LOCATION";
const ROLE: &str = "CONFORMANCE_ROLE";

const PROCESSES: usize = 16;
const KEYS: usize = 24;

/// This program again, in another role.
pub fn spawn(place: &dyn Place, role: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "process", "--nocapture", "--quiet"])
        .env(LOCATION, place.location())
        .env(ROLE, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The entry of such a process.
pub fn process(open: &dyn Fn(&OsStr) -> Box<dyn Store>) {
    let (Some(location), Ok(role)) = (env::var_os(LOCATION), env::var(ROLE)) else {
        return;
    };
    // A line from the starter lets all begin at once.
    let mut go = String::new();
    std::io::stdin().read_line(&mut go).unwrap();
    let mut store = open(&location);
    match role.as_str() {
        "claimer" => claim_all(&mut *store),
        "churner" => churn(&mut *store),
        #[cfg(feature = "postgres")]
        "big" => crate::server::bulk::store_big(&mut *store),
        other => panic!("no such role: {other}"),
    }
}

pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "said: {text}").unwrap();
    out.flush().unwrap();
}

pub fn said(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let out = BufReader::new(child.stdout.take().unwrap());
    // What another test harness prints is none of ours.
    let lines = out.lines().map_while(Result::ok);
    lines.filter_map(|line| {
        let at = line.find("said: ")?;
        Some(line[at + 6..].to_owned())
    })
}

pub fn let_go(child: &mut Child) {
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"go\n").unwrap();
}

fn random_claim() -> NewClaim {
    let nonce = Nonce(rand::random());
    let mut new = new_claim(1, mint("t"));
    new.record.nonce = nonce;
    new.owner.nonce = nonce;
    new
}

fn claim_all(store: &mut dyn Store) {
    for n in 0..KEYS {
        let new = random_claim();
        let (claimed, record) = store
            .claim(&name(&format!("k{n}")), &mut |found| {
                Ok(match found.record {
                    None => Claiming::Claim(Box::new(new.clone())),
                    Some(_) => Claiming::Leave,
                })
            })
            .unwrap();
        let record = record.unwrap();
        if claimed == Claimed::Won {
            assert_eq!(record.nonce, new.record.nonce);
            say(&format!("{n} {}", record.generation));
            assert_eq!(
                settle(store, &id_of(&record), State::Succeeded),
                Fenced::Done
            );
        }
    }
}

pub fn every_key_has_one_winner_among_processes(place: &dyn Place) {
    // The store is not there yet: they also race to create it.
    let mut children: Vec<Child> = (0..PROCESSES).map(|_| spawn(place, "claimer")).collect();
    children.iter_mut().for_each(let_go);
    let mut won: Vec<(usize, i64)> = Vec::new();
    for child in &mut children {
        for line in said(child) {
            let (key, generation) = line.split_once(' ').unwrap();
            won.push((key.parse().unwrap(), generation.parse().unwrap()));
        }
        assert!(child.wait().unwrap().success());
    }
    won.sort_unstable();
    let keys: Vec<usize> = won.iter().map(|(key, _)| *key).collect();
    assert_eq!(keys, Vec::from_iter(0..KEYS));
    let mut generations: Vec<i64> = won.iter().map(|(_, generation)| *generation).collect();
    generations.sort_unstable();
    generations.dedup();
    assert_eq!(generations.len(), KEYS);
    let mut store = place.open();
    let records = store.list(&Filter::default()).unwrap();
    assert_eq!(records.len(), KEYS);
    assert!(
        records
            .iter()
            .all(|record| record.state == State::Succeeded)
    );
    place.check();
}

/// Claims key after key for ever, counting in the same transaction, and says each one when it is done.
fn churn(store: &mut dyn Store) {
    loop {
        let new = random_claim();
        let key = new.record.nonce.hex();
        store
            .claim(&name(&key), &mut |found| {
                let count = found.guards.guard(GuardKind::Counter, "claims")?;
                let n = count.and_then(|count| count.as_i64()).unwrap_or(0) + 1;
                found
                    .guards
                    .set_guard(GuardKind::Counter, "claims", Some(json!(n)))?;
                Ok(Claiming::Claim(Box::new(new.clone())))
            })
            .unwrap();
        say(&key);
        let id = id_of(&found(store, &key));
        let mut end = settlement(State::Succeeded);
        end.output = Some(inline(1, &[7; 9_000]));
        settle_as(store, &id, &end);
        say(&format!("{key} settled"));
    }
}

pub fn what_was_said_survives_a_kill(place: &dyn Place) {
    drop(place.open());
    let mut claimed: Vec<String> = Vec::new();
    let mut settled: Vec<String> = Vec::new();
    for round in 0..8 {
        let mut child = spawn(place, "churner");
        let_go(&mut child);
        let mut lines = said(&mut child);
        // Each round is cut after another number of lines, at whatever point it then is.
        let mut heard: Vec<String> = lines.by_ref().take(3 + 5 * round).collect();
        child.kill().unwrap();
        heard.extend(lines);
        child.wait().unwrap();
        for line in heard {
            match line.split_once(' ') {
                Some((key, _)) => settled.push(key.to_owned()),
                None => claimed.push(line),
            }
        }
    }
    place.check();
    let mut store = place.open();
    for key in &claimed {
        assert!(find(&mut *store, key).is_some(), "{key} is lost");
    }
    for key in &settled {
        assert_eq!(found(&mut *store, key).state, State::Succeeded);
    }
    // Counter and records are of one piece, said or not.
    let records = store.list(&Filter::default()).unwrap().len();
    let counters = store.list_guards(GuardKind::Counter).unwrap();
    assert_eq!(counters, [("claims".to_owned(), json!(records))]);
    assert!(records >= claimed.len());
    // And it goes on working.
    claim(&mut *store, "after", 1);
}

const WRITERS: u8 = 4;
const EACH: u8 = 20;

pub fn readers_and_writers_do_not_disturb_each_other(place: &dyn Place) {
    drop(place.open());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write(&mut *place.open(), writer)))
            .collect();
        let reader = scope.spawn(|| watch(&mut *place.open(), &done));
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Release);
        reader.join().unwrap();
    });
    place.check();
    let records = place.open().list(&Filter::default()).unwrap();
    assert_eq!(records.len(), usize::from(WRITERS) * usize::from(EACH));
}

fn write(store: &mut dyn Store, writer: u8) {
    for n in 0..EACH {
        let key = format!("{writer}/{n}");
        let id = claim(store, &key, writer);
        assert_eq!(settle(store, &id, State::Succeeded), Fenced::Done);
    }
}

/// Reads until the writers are done: a record goes forward only, and never disappears.
fn watch(store: &mut dyn Store, done: &AtomicBool) {
    let key = "0/10";
    let mut seen = None;
    loop {
        let last = done.load(Ordering::Acquire);
        let now = find(store, key).map(|record| record.state);
        match (seen, now) {
            (None, _)
            | (Some(State::Running), Some(State::Running | State::Succeeded))
            | (Some(State::Succeeded), Some(State::Succeeded)) => seen = now,
            other => panic!("from one look to the next: {other:?}"),
        }
        if last {
            break;
        }
    }
    assert_eq!(seen, Some(State::Succeeded));
}
