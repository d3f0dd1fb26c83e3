//! The client against real servers: a private cluster a run, and a pooler in front of it.
#![cfg(feature = "postgres")]

#[path = "../servers/mod.rs"]
mod servers;

mod endings;
mod entering;
mod pooled;
mod protection;
mod statements;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use idem::store::postgres::{Client, PgError, Target};
use servers::cluster::{Cluster, Setup};
use servers::{supervised, tools};

/// The cluster that the tests of this binary share; none where the programs are missing.
fn shared() -> Option<&'static Cluster> {
    static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
    let setup = Setup {
        hba: &entering::HBA,
        ..Setup::default()
    };
    let start = || tools::present().then(|| Cluster::start(&setup));
    SHARED.get_or_init(start).as_ref()
}

/// Far beyond what a loaded machine needs.
fn soon() -> Instant {
    Instant::now() + supervised::LIMIT
}

fn after(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}

fn target(url: &str) -> Target {
    Target::parse(url, &|_| None).unwrap()
}

fn connect(url: &str) -> Result<Client, PgError> {
    Client::connect(&target(url), soon())
}
