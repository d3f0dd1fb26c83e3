//! What every store must do, whichever it is: one suite, run against each implementation.

mod claims;
mod counts;
mod crowd;
mod fencing;
mod guards;
mod imports;
mod ledger;
mod lists;
mod mounts;
mod outputs;
mod purging;
mod roundtrip;
mod sample;
#[cfg(feature = "postgres")]
mod server;
#[cfg(feature = "postgres")]
#[path = "../servers/mod.rs"]
mod servers;
mod spools;
mod sqlite;

use idem::domain::name::Nonce;
use idem::engine::store::Store;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// A store's place, new and private to one test.
pub trait Place: Sync {
    /// Another connection to the store; the first one creates it.
    fn open(&self) -> Box<dyn Store>;

    /// What a process of its own needs to open it, see [`open`].
    fn location(&self) -> OsString;

    /// Where the spool file of an output has to be.
    fn spool(&self, nonce: &Nonce, number: u32) -> PathBuf;

    /// Whether a spooled output stays in its file, which goes with it; elsewhere it is copied.
    fn keeps_files(&self) -> bool;

    /// Waits until nothing is on its way any more from clients that were killed, and fails the test if
    /// the store is not sound.
    fn check(&self);
}

/// Opens the store at a place's location, which is made if it is not there yet.
fn open(location: &OsStr) -> Box<dyn Store> {
    #[cfg(feature = "postgres")]
    if let Some(store) = location.to_str().and_then(server::open) {
        return store;
    }
    sqlite::open(location.as_ref())
}

/// Makes a test of each function of a suite, against one kind of store. The place is an option: none where
/// this machine lacks what it needs.
macro_rules! tests {
    ($place:expr, { $($module:ident: $($test:ident),+;)+ }) => {
        $(mod $module {
            $(#[test]
            fn $test() {
                let Some(place) = $place else { return };
                crate::$module::$test(&place);
            })+
        })+
    };
}

/// The whole suite against one kind of store.
macro_rules! conform {
    ($place:expr) => {
        tests!($place, {
            roundtrip: every_field_of_a_claim_comes_back,
                every_field_of_a_proposal_comes_back,
                every_settled_state_comes_back,
                times_and_numbers_at_their_ends_come_back,
                names_are_told_apart_exactly;
            claims: a_claim_that_is_left_changes_nothing,
                a_refusal_keeps_the_guards_and_says_why,
                a_failing_decision_changes_nothing,
                a_kept_token_continues_the_record,
                a_minted_token_starts_a_record,
                a_token_cannot_be_kept_without_a_record,
                generations_are_never_used_twice,
                the_decision_learns_its_generation,
                an_approval_is_consumed_and_still_shown,
                a_proposal_takes_the_place_of_a_failure;
            fencing: only_the_present_claim_settles,
                repeating_ones_own_settle_is_done,
                a_late_result_beats_unknown,
                a_persons_word_beats_a_late_keeper,
                a_forgotten_claim_settles_nothing,
                a_settle_that_took_place_has_not_come_too_late,
                guards_are_touched_only_inside_the_fence,
                steps_are_fenced,
                an_owner_is_lost_once,
                a_failing_guard_undoes_the_settle;
            outputs: inline_and_spooled_output_comes_back,
                outputs_of_earlier_claims_stay_with_the_token,
                outputs_go_with_the_token,
                outputs_of_very_old_claims_go;
            ledger: events_are_paged_in_order,
                the_end_of_an_earlier_generation_is_known,
                a_lost_owner_is_an_end_until_the_result_comes,
                a_resolution_is_an_end_of_its_own,
                attempts_name_their_outputs,
                a_late_settle_is_kept_once;
            guards: guards_are_kept_by_kind_and_name,
                a_failing_body_undoes_its_guards,
                guards_and_claim_are_one_transaction;
            lists: newest_first_and_bounded,
                every_filter_filters;
            counts: what_keepers_do_is_counted_once,
                a_file_is_counted_once,
                old_hours_are_joined,
                states_are_counted_by_scope;
            imports: an_import_gets_a_generation_and_its_output,
                a_record_that_is_there_stays,
                names_are_listed_as_records_are;
            purging: only_expired_settled_records_go,
                a_moved_wall_clock_purges_nothing_early,
                batches_are_bounded,
                old_lines_go_and_positions_are_not_reused,
                lines_outlive_their_record;
            crowd: every_key_has_one_winner_among_processes,
                what_was_said_survives_a_kill,
                readers_and_writers_do_not_disturb_each_other;
        });
    };
}

mod on_sqlite {
    conform!(Some(crate::sqlite::SqlitePlace::new()));

    /// What only a store has that keeps outputs in files.
    mod files {
        tests!(Some(crate::sqlite::SqlitePlace::new()), {
            spools: a_missing_spool_file_is_nothing,
                another_claims_spool_file_is_refused;
        });
    }
}

#[cfg(feature = "postgres")]
mod on_postgres {
    conform!(crate::server::place::direct());
}

#[cfg(feature = "postgres")]
mod on_pgbouncer {
    conform!(crate::server::place::pooled());
}

/// Not a test: what [`crowd`] runs in processes of their own.
#[test]
#[ignore = "run by other tests, in a process of its own"]
fn process() {
    crowd::process(&open);
}
