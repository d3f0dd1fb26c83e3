//! What `idem doctor` says about a server.

use super::{CLOCK_SLACK_MS, Findings};
use crate::cli::when::length;
use crate::store::server::{
    Health, OLDEST_VERSION, RENEWALS_A_LEASE, ServerPlace, ServerStore, newest,
};
use std::time::Duration;

/// A renewal of a lease takes a round trip or two; one that takes a larger part of the time between two
/// renewals is too slow.
const ROUND_TRIPS_A_RENEWAL: u32 = 8;

/// Looks at the server. False where it cannot be reached, so that there is nothing more to look at.
pub fn examine(findings: &mut Findings, place: &ServerPlace) -> bool {
    match Health::look(place) {
        Ok(health) => {
            way(findings, &health);
            promises(findings, &health);
            replication(findings, &health);
            clock(findings, &health);
            lease(findings, &health, place.lease);
            health.schema.is_some()
        }
        Err(error) => {
            findings.failed("server", &error.to_string());
            false
        }
    }
}

/// Says what the server has not got yet. Every call that opens the store has tried to deliver it.
pub fn waiting(findings: &mut Findings, place: &ServerPlace) {
    match ServerStore::waiting(place) {
        Ok(0) => findings.fine("waiting", "no result waits on this machine for the server"),
        Ok(count) => findings.problem(
            "waiting",
            format!(
                "{} on this machine for the server",
                counted(count, "result waits", "results wait")
            ),
            "deliver them with `idem sync`, which says why if it cannot",
        ),
        Err(error) => findings.failed("waiting", &error.to_string()),
    }
}

fn way(findings: &mut Findings, health: &Health) {
    let pooler = if health.pooled {
        ", through a pooler"
    } else {
        ""
    };
    let what = format!(
        "PostgreSQL {}{pooler}, {:.1} ms for a round trip",
        health.version,
        health.round_trip.as_secs_f64() * 1_000.0
    );
    match health.version_number < OLDEST_VERSION {
        true => findings.problem("server", what, "upgrade it to PostgreSQL 12 or newer"),
        false => findings.fine("server", what),
    }
    match (health.tls, health.local) {
        (true, _) => findings.fine("protection", "the connection is protected by TLS"),
        (false, true) => findings.fine("protection", "the connection stays on this machine"),
        (false, false) => findings.note(
            "protection",
            "the connection is not protected: who can listen learns commands and outputs",
            "add sslmode=verify-full to the URL, or sslmode=require where there is no certificate to check",
        ),
    }
    match health.schema {
        None => findings.problem(
            "schema",
            "the database has no tables of idem's yet",
            "make them once with `idem init`",
        ),
        Some(found) if found == newest() => {
            findings.fine("schema", format!("the tables are there (schema {found})"));
        }
        // What opening the store says tells what to do.
        Some(_) => {}
    }
    if health.encoding != "UTF8" {
        findings.problem(
            "encoding",
            format!(
                "the database's encoding is {}, which does not have every character",
                health.encoding
            ),
            "use a database that was made with ENCODING 'UTF8'",
        );
    }
}

/// What a crash of the server would leave.
fn promises(findings: &mut Findings, health: &Health) {
    let before = findings.0.len();
    if health.in_recovery {
        findings.problem(
            "writes",
            "the server is a standby, which accepts no writes",
            "connect to the primary server",
        );
    } else if health.read_only {
        findings.problem(
            "writes",
            "transactions of this role are read-only here",
            "`ALTER ROLE … SET default_transaction_read_only = off`, or use another role",
        );
    }
    for (name, on) in [
        ("fsync", health.fsync),
        ("full_page_writes", health.full_page_writes),
    ] {
        if !on {
            findings.problem(
                "durability",
                format!("{name} is off: a crash of the server's machine can lose claims and damage the tables, and commands run again"),
                format!("set {name} = on in postgresql.conf"),
            );
        }
    }
    let commit = health.synchronous_commit.as_str();
    if ["off", "local"].contains(&commit) {
        findings.note(
            "durability",
            format!("synchronous_commit is {commit} for this role"),
            "nothing is to be done: idem turns it on for what it promises",
        );
    }
    if findings.0.len() == before {
        findings.fine(
            "durability",
            "what the server has confirmed survives its crash",
        );
    }
}

fn replication(findings: &mut Findings, health: &Health) {
    if health.standbys == 0 {
        return;
    }
    let standbys = counted(health.standbys, "standby follows", "standbys follow");
    if health.synchronous_standbys.trim().is_empty() {
        findings.note(
            "replication",
            format!("{standbys}, and none is waited for: after a failover the latest claims can be missing, and their commands run again"),
            "set synchronous_standby_names, or look at what ran last before you let callers go on after a failover",
        );
    } else {
        let what = format!("{standbys}, and commits wait for those in synchronous_standby_names");
        findings.fine("replication", what);
    }
}

/// A number with what is counted.
fn counted(count: usize, one: &str, more: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{count} {more}"),
    }
}

fn clock(findings: &mut Findings, health: &Health) {
    let ahead = health.clock_ahead_ms;
    if ahead.abs() <= CLOCK_SLACK_MS {
        return;
    }
    let by = length(Duration::from_millis(ahead.unsigned_abs()));
    let way = if ahead > 0 { "ahead of" } else { "behind" };
    findings.note(
        "clock",
        format!("this machine's clock is {by} {way} the server's, by which idem counts"),
        "set the clock right: logs of this machine show other times than idem",
    );
}

fn lease(findings: &mut Findings, health: &Health, lease: Duration) {
    let every = lease / RENEWALS_A_LEASE;
    let what = format!(
        "a claim is taken for alive for {}, and is renewed every {}",
        length(lease),
        length(every)
    );
    match health.round_trip * ROUND_TRIPS_A_RENEWAL > every {
        true => findings.note(
            "lease",
            format!("{what}; the server answers slowly for that"),
            "give calls a longer --lease",
        ),
        false => findings.fine("lease", what),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn sound() -> Health {
        Health {
            round_trip: Duration::from_millis(1),
            tls: true,
            local: false,
            pooled: false,
            version_number: 150_018,
            version: "15.18".to_owned(),
            schema: Some(newest()),
            encoding: "UTF8".to_owned(),
            synchronous_commit: "on".to_owned(),
            fsync: true,
            full_page_writes: true,
            in_recovery: false,
            read_only: false,
            synchronous_standbys: String::new(),
            standbys: 0,
            clock_ahead_ms: 20,
        }
    }

    fn found(health: &Health) -> Findings {
        let mut findings = Findings::default();
        way(&mut findings, health);
        promises(&mut findings, health);
        replication(&mut findings, health);
        clock(&mut findings, health);
        lease(&mut findings, health, Duration::from_secs(60));
        findings
    }

    /// What is not fine, and how bad it is.
    fn remarks(health: &Health) -> Vec<(&'static str, Level)> {
        let findings = found(health).0.into_iter();
        let remarks = findings.filter(|finding| finding.level != Level::Fine);
        remarks
            .inspect(|finding| assert!(finding.remedy.is_some(), "{finding:?}"))
            .map(|finding| (finding.check, finding.level))
            .collect()
    }

    #[test]
    fn a_sound_server_gets_no_remark() {
        assert_eq!(remarks(&sound()), []);
        let local = Health {
            tls: false,
            local: true,
            pooled: true,
            ..sound()
        };
        assert_eq!(remarks(&local), []);
        assert!(found(&local).told().contains("through a pooler"));
        let synchronous = Health {
            standbys: 2,
            synchronous_standbys: "*".to_owned(),
            ..sound()
        };
        assert_eq!(remarks(&synchronous), []);
    }

    /// What is looked at, how bad it is, and what spoils it.
    type Case = (&'static str, Level, fn(&mut Health));

    #[test]
    fn what_endangers_a_promise_is_told_with_a_remedy() {
        use Level::{Note, Problem};
        let cases: [Case; 13] = [
            ("server", Problem, |h| h.version_number = 110_022),
            ("protection", Note, |h| h.tls = false),
            ("schema", Problem, |h| h.schema = None),
            ("encoding", Problem, |h| h.encoding = "LATIN1".to_owned()),
            ("durability", Note, |h| {
                h.synchronous_commit = "off".to_owned()
            }),
            ("durability", Note, |h| {
                h.synchronous_commit = "local".to_owned()
            }),
            ("durability", Problem, |h| h.fsync = false),
            ("durability", Problem, |h| h.full_page_writes = false),
            ("writes", Problem, |h| h.in_recovery = true),
            ("writes", Problem, |h| h.read_only = true),
            ("replication", Note, |h| h.standbys = 1),
            ("clock", Note, |h| h.clock_ahead_ms = -5_001),
            ("lease", Note, |h| h.round_trip = Duration::from_secs(3)),
        ];
        for (check, level, spoil) in cases {
            let mut health = sound();
            spoil(&mut health);
            assert_eq!(remarks(&health), [(check, level)], "{health:?}");
        }
    }
}
