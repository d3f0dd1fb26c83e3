//! Much of everything, and odd names.

use super::place::{PostgresPlace, direct};
use crate::crowd;
use crate::sample::*;
use idem::domain::name::{Key, Nonce, OpName, Scope};
use idem::domain::outcome::State;
use idem::engine::store::{Claiming, Fenced, Filter, GuardKind, OpenOutput, OutputBody, Store};
use serde_json::json;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};

const ROWS: i64 = 1_203;

/// Many records, of which each ten entered their state at the same moment.
fn fill(place: &PostgresPlace) {
    let mut store = place.connect();
    let id = claim(&mut store, "k", 1);
    settle(&mut store, &id, State::Succeeded);
    let sql = "WITH rows AS (INSERT INTO @operation SELECT scope, 'k' || i, state, i, nonce, minted_by, \
        version, written, i / 10, expires_at, lease_until, kept, body \
        FROM @operation, generate_series(1, $1) AS i RETURNING 1) SELECT count(*) FROM rows";
    assert_eq!(place.ask(sql, &[ROWS.into()]), [ROWS]);
    change(&mut store, "k", forget());
}

#[test]
fn long_lists_are_read_in_pages() {
    let Some(place) = direct() else { return };
    fill(&place);
    let mut store = place.connect();
    let keys = |store: &mut dyn Store, filter: &Filter| {
        let names = store.names(filter).unwrap();
        let listed = store.list(filter).unwrap();
        let same = listed.iter().zip(&names).all(|(r, name)| r.name == *name);
        assert!(same && listed.len() == names.len());
        let key = |name: OpName| name.key.as_str()[1..].parse::<i64>().unwrap();
        names.into_iter().map(key).collect::<Vec<_>>()
    };
    let all = keys(&mut store, &Filter::default());
    assert_eq!(all, (1..=ROWS).rev().collect::<Vec<_>>());
    let some = Filter {
        limit: Some(700),
        ..Filter::default()
    };
    assert_eq!(keys(&mut store, &some), all[..700]);
    let globbed = Filter {
        glob: Some("k*7".to_owned()),
        limit: Some(115),
        ..Filter::default()
    };
    let sevens: Vec<i64> = all.iter().copied().filter(|n| n % 10 == 7).collect();
    assert_eq!(keys(&mut store, &globbed), sevens[..115]);
}

#[test]
fn odd_names_are_only_names() {
    let Some(place) = direct() else { return };
    let mut store = place.connect();
    let long = "é".repeat(127);
    let odd = [
        "'; DROP TABLE operation; --",
        "\"quoted\"",
        "back\\slash\\",
        "$1 @operation %s {}",
        "%_*?[a]",
        "🦀 ключ 鍵",
        "e\u{301}",
        long.as_str(),
    ];
    for scope in odd {
        for key in odd {
            let name = OpName {
                scope: Scope::new(scope).unwrap(),
                key: Key::new(key).unwrap(),
            };
            let new = new_claim(1, mint("t"));
            let (_, record) = store
                .claim(&name, &mut |found| {
                    found
                        .guards
                        .set_guard(GuardKind::Task, key, Some(json!({ "of": key })))?;
                    Ok(Claiming::Claim(Box::new(new.clone())))
                })
                .unwrap();
            let id = id_of(&record.unwrap());
            assert_eq!(settle(&mut store, &id, State::Failed), Fenced::Done);
            assert_eq!(store.find(&name).unwrap().unwrap().name, name);
            assert_eq!(store.events(Some(&name), 0, 9).unwrap().len(), 2);
        }
        let filter = Filter {
            scope: Some(Scope::new(scope).unwrap()),
            ..Filter::default()
        };
        assert_eq!(store.names(&filter).unwrap().len(), odd.len());
    }
    let tasks = store.list_guards(GuardKind::Task).unwrap();
    let mut wanted: Vec<_> = odd
        .iter()
        .map(|key| ((*key).to_owned(), json!({ "of": key })))
        .collect();
    wanted.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(tasks, wanted);
    let states = store.count_states().unwrap();
    assert_eq!(states.len(), odd.len());
}

const BIG_BYTES: u64 = 32 * 1024 * 1024;

/// Numbers, so that each part differs from every other.
fn write_pattern(file: File) {
    let mut out = BufWriter::new(file);
    for n in 0..BIG_BYTES / 8 {
        out.write_all(&n.to_be_bytes()).unwrap();
    }
    out.flush().unwrap();
}

fn is_pattern(file: &mut File) -> bool {
    let mut file = BufReader::new(file);
    let mut chunk = [0; 8];
    for n in 0..BIG_BYTES / 8 {
        file.read_exact(&mut chunk).unwrap();
        if u64::from_be_bytes(chunk) != n {
            return false;
        }
    }
    file.read(&mut chunk).unwrap() == 0
}

/// The most memory that this process has taken so far, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let words = line.unwrap().split_whitespace().nth(1);
    words.unwrap().parse().unwrap()
}

/// In a process of its own: stores a big output, reads it back, and says how much memory it took.
pub fn store_big(store: &mut dyn Store) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    write_pattern(File::create(&path).unwrap());
    let mut new = new_claim(1, mint("t"));
    new.record.nonce = Nonce(rand::random());
    let (id, _) = claim_as(store, "big", new);
    let before = peak();
    let mut end = settlement(State::Succeeded);
    end.output = Some(output(1, OutputBody::Spooled(path)));
    assert_eq!(settle_as(store, &id, &end), Fenced::Done);
    let stored = found(store, "big").output.unwrap();
    let OpenOutput::File(mut file) = store.open_output(&stored).unwrap() else {
        panic!("a long output comes as a file");
    };
    assert!(is_pattern(&mut file));
    crowd::say(&format!("{}", peak() - before));
}

#[test]
fn a_big_output_takes_little_memory() {
    let Some(place) = direct() else { return };
    let mut child = crowd::spawn(&place, "big");
    crowd::let_go(&mut child);
    let said: Vec<String> = crowd::said(&mut child).collect();
    assert!(child.wait().unwrap().success());
    let [grown] = said.as_slice() else {
        panic!("{said:?}");
    };
    let grown: u64 = grown.parse().unwrap();
    assert!(grown < 12 * 1024, "{grown} KiB more");
    // In parts, so that the server takes as little.
    let sql =
        "SELECT max(length(bytes))::bigint FROM @output UNION ALL SELECT count(*) FROM @output";
    assert_eq!(place.ask(sql, &[]), [1024 * 1024, 32]);
}
