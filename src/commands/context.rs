//! How a verb finds its store, and what it must know of its surroundings.

use crate::cli::layers::Layers;
use crate::cli::place::{self, GivenStore};
use crate::cli::settings;
use crate::cli::stdout::reason;
use crate::cli::view::View;
use crate::cli::words::{Words, value};
use crate::domain::name::{Generation, Key, Nonce, OpName, Scope};
use crate::domain::outcome::State;
use crate::domain::owner::Liveness;
use crate::domain::record::{OutputRef, Record, Source};
use crate::domain::time::Stamp;
use crate::engine::event::Event;
use crate::engine::store::{OpenOutput, Store, StoreResult};
use crate::process::spool::{Recorder, Recording, spool_stem};
use crate::process::waiting::ChangeWatch;
use crate::process::{clock, facts, liveness, random};
use crate::store::location::{AnyStore, Location};
#[cfg(feature = "postgres")]
use crate::store::{postgres::Target, server::ServerPlace};
use anyhow::{Result, anyhow};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

/// How many events are read at a time.
const EVENTS_A_PAGE: u32 = 1000;

/// What every verb begins with.
#[derive(Debug)]
pub struct Context {
    /// Where the store is.
    pub location: Location,
    /// The scope that was asked for by option, environment or configuration.
    pub scope: Option<Scope>,
    /// When this look began, by the clock of this machine.
    began: Stamp,
}

impl Context {
    /// Reads the options that all verbs share.
    pub fn new(words: &Words) -> Result<Context> {
        let env = |name: &str| std::env::var_os(name);
        let layers = Layers::read(words, &env).map_err(|e| anyhow!(e))?;
        Context::of(&layers)
    }

    /// The same from what has been read.
    pub fn of(layers: &Layers<'_>) -> Result<Context> {
        Ok(Context {
            location: location(layers)?,
            scope: scope(layers)?,
            began: clock::local(),
        })
    }

    /// The moment of this look, by the clock that the store's times are from.
    pub fn now(&self) -> Stamp {
        clock::by_store(self.began.clone())
    }

    /// Begins a new look.
    pub fn look_again(&mut self) {
        self.began = clock::local();
    }

    /// The operation with this key in the scope asked for.
    pub fn name(&self, key: Key) -> Result<OpName> {
        if self.location.is_shared() && self.scope.is_none() {
            return Err(anyhow!(settings::SCOPE_NEEDED));
        }
        Ok(OpName {
            scope: self.scope.clone().unwrap_or_default(),
            key,
        })
    }

    /// The store for reading; none where there is no store yet.
    pub fn read(&self) -> StoreResult<Option<Opened>> {
        let store = self.location.open_read()?;
        Ok(store.map(|store| Opened { store }))
    }

    /// The same for who only looks, and changes nothing even by the way.
    pub fn peek(&self) -> StoreResult<Option<Opened>> {
        let store = self.location.peek()?;
        Ok(store.map(|store| Opened { store }))
    }

    /// Begins to watch the store for changes. Look once more after this.
    pub fn watch(&self) -> Result<ChangeWatch> {
        if self.location.is_shared() {
            return Ok(ChangeWatch::by_looking());
        }
        let locks = match self.read()? {
            Some(opened) => opened.locks(),
            None => self.location.beside("-locks"),
        };
        ChangeWatch::begin(&locks).map_err(|e| self.cannot_watch(&e))
    }

    /// The message where no change can be waited for.
    pub fn cannot_watch(&self, error: &io::Error) -> anyhow::Error {
        anyhow!(
            "the store at {} cannot be watched: {}; look again without that option",
            self.location,
            reason(error)
        )
    }

    /// The store for writing; it is made if there is none.
    pub fn write(&self) -> StoreResult<Opened> {
        let store = self.location.open_write()?;
        Ok(Opened { store })
    }
}

/// Where the store is, by option, environment or configuration.
pub fn location(layers: &Layers<'_>) -> Result<Location> {
    // One that is not needed must be right as well.
    let lease = place::lease(layers).map_err(|e| anyhow!(e))?;
    Ok(match place::store(layers).map_err(|e| anyhow!(e))? {
        GivenStore::File { path, default } => Location::File { path, default },
        GivenStore::Server { url, from } => server(layers, &url, &from, lease)?,
    })
}

/// A server, and what this machine keeps for it: a directory of the user's own for each.
#[cfg(feature = "postgres")]
fn server(layers: &Layers<'_>, url: &str, from: &str, lease: Duration) -> Result<Location> {
    let environment = |name: &str| layers.variable(name);
    let target = Target::parse(url, &environment).map_err(|e| anyhow!("{from}: {e}"))?;
    let state = place::state_directory(layers).map_err(|e| anyhow!(e))?;
    let local = state
        .join(format!("postgres-{}", target.digest()))
        .join("store");
    Ok(Location::Server(Box::new(ServerPlace {
        target,
        local,
        lease,
    })))
}

#[cfg(not(feature = "postgres"))]
fn server(_: &Layers<'_>, _: &str, from: &str, _: Duration) -> Result<Location> {
    Err(anyhow!(
        "{from}: this idem was built without servers; name a file, or build it with the feature postgres"
    ))
}

/// `--scope`, or what stands for it; none where nothing does.
fn scope(layers: &Layers<'_>) -> Result<Option<Scope>> {
    // Verbs about no operation have no such option.
    if !layers.words().takes_scope() || !layers.has("scope") {
        return Ok(None);
    }
    let scope = settings::scope(layers).map_err(|e| anyhow!(e))?;
    Ok(Some(scope))
}

/// Whether something in an argument makes it a glob.
pub fn is_glob(argument: &OsStr) -> bool {
    let special = |byte: &u8| b"*?[".contains(byte);
    argument.to_str().is_some() && argument.as_bytes().iter().any(special)
}

/// The key that an argument names.
pub fn key(argument: &OsStr) -> Result<Key> {
    Key::new(argument.as_bytes()).map_err(|e| anyhow!("the key {e}; give the key of an operation"))
}

/// The key argument of a verb that takes exactly one.
pub fn key_argument(words: &Words) -> Result<Key> {
    key(value(words, "key").map_or(OsStr::new(""), OsString::as_os_str))
}

/// An option's value as text; nothing if it was not given.
pub fn text<'a>(words: &'a Words, name: &str) -> Result<Option<&'a str>> {
    let Some(given) = value(words, name) else {
        return Ok(None);
    };
    match given.to_str() {
        Some("") => Err(anyhow!("--{name} is empty; give a value or leave it out")),
        Some(text) => Ok(Some(text)),
        None => Err(anyhow!(
            "--{name}: the value is not UTF-8; write it in plain text"
        )),
    }
}

/// Who calls, for the ledger.
pub fn source() -> Source {
    facts::source(
        std::process::id().cast_signed(),
        std::os::unix::process::parent_id().cast_signed(),
    )
}

/// Who decides: `user@host`.
pub fn decider(source: &Source) -> String {
    format!("{}@{}", source.user, source.host)
}

/// A random name for a claim or a resolution.
pub fn new_nonce() -> Nonce {
    Nonce(random::bytes())
}

/// An opened store.
pub struct Opened {
    store: AnyStore,
}

impl Opened {
    /// The store.
    pub fn store(&mut self) -> &mut dyn Store {
        self.store.port()
    }

    /// The store as what it is.
    pub fn any(&mut self) -> &mut AnyStore {
        &mut self.store
    }

    /// The lock file on which liveness is seen.
    pub fn locks(&self) -> PathBuf {
        self.store.paths().locks.clone()
    }

    /// The operation as it is now; none where there is no record.
    pub fn look(&mut self, name: &OpName) -> StoreResult<Option<View>> {
        let Some(record) = self.store().find(name)? else {
            return Ok(None);
        };
        let view = self.view(record);
        // An owner that was found gone may have settled just before.
        if view.record.state == State::Running && view.liveness == Liveness::Gone {
            let again = self.store().find(name)?;
            return Ok(again.map(|record| self.view(record)));
        }
        Ok(Some(view))
    }

    /// A record with what is left of its owner.
    pub fn view(&self, record: Record) -> View {
        let liveness = observe(&record, &self.locks());
        View { record, liveness }
    }

    /// The events of one operation from a generation on, oldest first.
    pub fn events(&mut self, name: &OpName, from: Generation) -> StoreResult<Vec<Event>> {
        let mut events = Vec::new();
        let mut after_id = 0;
        loop {
            let page = self.store().events(Some(name), after_id, EVENTS_A_PAGE)?;
            let Some(last) = page.last() else {
                return Ok(events);
            };
            after_id = last.id;
            events.extend(page.into_iter().filter(|event| event.generation >= from));
        }
    }

    /// Hands every event after that one to `take`, oldest first, of one operation or of all. Returns the
    /// latest one's ID.
    pub fn each_event(
        &mut self,
        name: Option<&OpName>,
        mut after_id: i64,
        mut take: impl FnMut(Event) -> Result<()>,
    ) -> Result<i64> {
        loop {
            let page = self.store().events(name, after_id, EVENTS_A_PAGE)?;
            let Some(last) = page.last() else {
                return Ok(after_id);
            };
            after_id = last.id;
            page.into_iter().try_for_each(&mut take)?;
        }
    }

    /// The bytes of an output; nothing where none are stored.
    pub fn recording(&mut self, output: &OutputRef) -> StoreResult<Option<Recording>> {
        Ok(match self.store().open_output(output)? {
            OpenOutput::Nothing => None,
            OpenOutput::Inline(bytes) => Some(Recording::from_bytes(bytes)),
            OpenOutput::File(file) => Some(Recording::from_file(file)),
        })
    }

    /// Records what a person says a command has printed, whatever its size.
    pub fn recorder(&self, nonce: &Nonce) -> Recorder {
        let paths = self.store.paths();
        let db_name = paths.db.file_name().unwrap_or_default();
        Recorder::new(paths.directory(), spool_stem(db_name, nonce, 0), u64::MAX)
    }
}

/// What is left of a record's owner. That of a settled record means nothing any more.
pub fn observe(record: &Record, locks: &std::path::Path) -> Liveness {
    match (&record.owner, record.state) {
        (Some(owner), State::Running | State::Unknown) => {
            liveness::observe(owner, locks, &HashSet::new())
        }
        _ => Liveness::Gone,
    }
}
