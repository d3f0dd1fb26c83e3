//! `idem key`.

use super::context::Context;
use super::keeping;
use crate::cli::layers::Layers;
use crate::cli::settings::{self, KeySource, Named, Surroundings};
use crate::cli::stdout::print;
use crate::cli::when::rfc3339;
use crate::cli::words::{Words, flag};
use crate::process::facts::SystemFacts;
use crate::process::{clock, entry};
use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let env = |name: &str| std::env::var_os(name);
    let layers = Layers::read(words, &env).map_err(|e| anyhow!(e))?;
    let named = named(&layers, &env)?;
    let shown = match flag(words, "json") {
        true => format!("{}\n", object(&named)),
        false => lines(&named),
    };
    print(shown)?;
    Ok(0)
}

fn named(layers: &Layers<'_>, env: &dyn Fn(&str) -> Option<OsString>) -> Result<Named> {
    let context = Context::of(layers)?;
    let argv: Vec<Vec<u8>> = settings::command(layers.words())
        .into_iter()
        .map(OsStringExt::into_vec)
        .collect();
    let no_command = argv.is_empty();
    let around = Surroundings {
        env,
        now: context.now(),
        monotonic: clock::monotonic(),
        ancestry: Vec::new(),
        cwd: Vec::new(),
    };
    let location = &context.location;
    let mut batches = |name: &str| keeping::batch_name(location, name).map_err(|e| e.to_string());
    let spool_dir = spool_dir(location.path());
    let mut facts = SystemFacts::new(argv, entry::stdin(), &spool_dir, &mut batches);
    let named = settings::named(layers, &around, &mut facts).map_err(|e| anyhow!(e))?;
    if named.source == KeySource::Derived && no_command {
        return Err(anyhow!(
            "there is neither a key nor a command to derive one from; give --key, or a command behind --"
        ));
    }
    Ok(named)
}

/// Beside the store, as `idem run` does it, if that place is there already.
pub(super) fn spool_dir(store: &Path) -> PathBuf {
    let beside = store.parent().filter(|dir| dir.is_dir());
    beside.map_or_else(std::env::temp_dir, Path::to_owned)
}

/// The key alone on the first line, for scripts.
fn lines(named: &Named) -> String {
    let mut lines = format!("{}\n", named.name.key);
    if let Some((starts_at, ends_at)) = named.period {
        lines.push_str(&format!(
            "from  {}\nuntil {}\n",
            rfc3339(starts_at),
            rfc3339(ends_at)
        ));
    }
    lines
}

fn object(named: &Named) -> Value {
    json!({
        "scope": named.name.scope.as_str(),
        "key": named.name.key.as_str(),
        "derived": named.source == KeySource::Derived,
        "previous_key": named.previous.as_ref().map(|name| name.key.as_str()),
        "period_starts_at": named.period.map(|(starts_at, _)| rfc3339(starts_at)),
        "period_ends_at": named.period.map(|(_, ends_at)| rfc3339(ends_at)),
    })
}
