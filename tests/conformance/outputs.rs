//! Recorded output: where it is, how long it stays.

use crate::Place;
use crate::sample::*;
use idem::domain::name::Nonce;
use idem::domain::outcome::State;
use idem::domain::record::{OutputRef, Place as Where};
use idem::engine::store::{ClaimId, Fenced, OutputBody, Store, TokenChoice};
use std::fs;
use std::path::PathBuf;

pub fn spooled(place: &dyn Place, nonce: &Nonce, number: u32, bytes: &[u8]) -> PathBuf {
    let path = place.spool(nonce, number);
    fs::write(&path, bytes).unwrap();
    path
}

pub fn settle_with(store: &mut dyn Store, claim: &ClaimId, body: OutputBody) -> OutputRef {
    let mut end = settlement(State::Failed);
    end.output = Some(output(1, body));
    assert_eq!(settle_as(store, claim, &end), Fenced::Done);
    store.find(&claim.name).unwrap().unwrap().output.unwrap()
}

pub fn opened(store: &mut dyn Store, output: &OutputRef) -> Option<Vec<u8>> {
    content(store.open_output(output).unwrap())
}

pub fn inline_and_spooled_output_comes_back(place: &dyn Place) {
    let mut store = place.open();
    let bytes: Vec<u8> = (0..16_384u32).map(|n| n.to_le_bytes()[0] ^ 0xa5).collect();
    let first = claim(&mut *store, "inline", 1);
    let inline = settle_with(&mut *store, &first, OutputBody::Inline(bytes.clone()));
    assert_eq!(inline.place, Where::Inline);
    let second = claim(&mut *store, "spool", 2);
    let path = spooled(place, &nonce(2), 1, &bytes);
    let spool = settle_with(&mut *store, &second, OutputBody::Spooled(path));
    assert_eq!(spool.place, Where::Spool);
    let third = claim(&mut *store, "nothing", 3);
    let nothing = settle_with(&mut *store, &third, OutputBody::Nothing);
    assert_eq!(nothing.place, Where::Nowhere);
    assert_eq!(nothing.stdout_bytes, 10);
    let mut reader = place.open();
    assert_eq!(opened(&mut *reader, &inline), Some(bytes.clone()));
    assert_eq!(opened(&mut *reader, &spool), Some(bytes));
    assert_eq!(opened(&mut *reader, &nothing), None);
}

/// Two claims under one token, each with an inline output of attempt 1 and a spooled one of attempt 2.
fn two_claims(place: &dyn Place, store: &mut dyn Store) -> (Vec<OutputRef>, Vec<PathBuf>) {
    let mut outputs = Vec::new();
    let mut files = Vec::new();
    for (n, token) in [(1, mint("t")), (2, TokenChoice::Keep)] {
        let (claim, _) = claim_as(store, "k", new_claim(n, token));
        let note = step(Some(inline(1, &[n])));
        assert_eq!(store.step(&claim, &note).unwrap(), Fenced::Done);
        let path = spooled(place, &nonce(n), 2, &[n, n]);
        let mut end = settlement(State::Failed);
        end.output = Some(output(2, OutputBody::Spooled(path.clone())));
        assert_eq!(settle_as(store, &claim, &end), Fenced::Done);
        let last = found(store, "k").output.unwrap();
        outputs.push(OutputRef {
            place: Where::Inline,
            number: 1,
            ..last
        });
        outputs.push(last);
        files.push(path);
    }
    (outputs, files)
}

fn all_opened(store: &mut dyn Store, outputs: &[OutputRef]) -> Vec<Option<Vec<u8>>> {
    outputs.iter().map(|output| opened(store, output)).collect()
}

pub fn outputs_of_earlier_claims_stay_with_the_token(place: &dyn Place) {
    let mut store = place.open();
    let (outputs, _) = two_claims(place, &mut *store);
    claim_as(&mut *store, "k", new_claim(3, TokenChoice::Keep));
    change(&mut *store, "k", resolution(4, State::Failed));
    propose(&mut *store, "k", new_proposal(5, TokenChoice::Keep));
    let wanted = [vec![1], vec![1, 1], vec![2], vec![2, 2]].map(Some);
    assert_eq!(all_opened(&mut *store, &outputs), wanted);
}

pub fn outputs_go_with_the_token(place: &dyn Place) {
    let ways: [fn(&mut dyn Store); 3] = [
        |store| drop(claim_as(store, "k", new_claim(9, mint("new")))),
        |store| drop(change(store, "k", forget())),
        |store| {
            assert_eq!(
                store.purge(&stamp(i64::MAX / 2), 10, DAY).unwrap().records,
                1
            )
        },
    ];
    for way in ways {
        let mut store = place.open();
        let (outputs, files) = two_claims(place, &mut *store);
        way(&mut *store);
        assert_eq!(all_opened(&mut *store, &outputs), [None, None, None, None]);
        let left = |file: &&PathBuf| place.keeps_files() && file.exists();
        assert_eq!(files.iter().find(left), None);
        change(&mut *store, "k", forget());
    }
}

pub fn outputs_of_very_old_claims_go(place: &dyn Place) {
    let mut store = place.open();
    let mut outputs = Vec::new();
    for n in 0..100 {
        let token = if n == 0 { mint("t") } else { TokenChoice::Keep };
        let (claim, _) = claim_as(&mut *store, "k", new_claim(n, token));
        outputs.push(settle_with(
            &mut *store,
            &claim,
            OutputBody::Inline(vec![n]),
        ));
    }
    let kept: Vec<bool> = outputs
        .iter()
        .map(|output| opened(&mut *store, output).is_some())
        .collect();
    assert!(!kept[0], "the oldest of a hundred is gone");
    assert!(
        kept[90..].iter().all(|kept| *kept),
        "the last ten are there"
    );
    assert!(kept.is_sorted());
}
