//! `idem run --dry-run`: looks at everything, changes nothing.

use super::context::{Context, observe};
use super::key::spool_dir;
use crate::cli::explain::{Explanation, GuardView, object, page};
use crate::cli::guard_text;
use crate::cli::layers::Layers;
use crate::cli::quote;
use crate::cli::settings::{KeySource, Named, Surroundings};
use crate::cli::stdout::print;
use crate::cli::view::View;
use crate::cli::words::value;
use crate::domain::decision::{Request, decide, seen_state};
use crate::domain::name::{Nonce, OpName};
use crate::domain::outcome::State;
use crate::domain::owner::Liveness;
use crate::domain::time::Stamp;
use crate::engine::plan::Plan;
use crate::engine::store::{GuardKind, Store, StoreResult};
use crate::policy::breaker::{Breaker, Phase};
use crate::policy::budget::Budget;
use crate::policy::classify::Classifier;
use crate::policy::task::Task;
use crate::process::identity::identity;
use crate::process::locks::LockFile;
use crate::process::permits;
use crate::store::location::{AnyStore, Location};
use anyhow::Result;
use serde_json::Value;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

/// Explains the call.
pub fn run(layers: &Layers<'_>, around: &Surroundings<'_>) -> Result<i32> {
    let context = Context::of(layers)?;
    let location = context.location;
    let spool_dir = spool_dir(location.path());
    let mut batches = |name: &str| present_batch(&location, name).map_err(|e| e.to_string());
    let (named, plan) = super::run::understand(layers, around, &spool_dir, &mut batches)?;
    let explained = Look::at(&location)?.explain(layers, around, &named, &plan)?;
    print(match layers.flag("json") {
        true => format!("{}\n", object(&explained)),
        false => page(&explained),
    })?;
    Ok(0)
}

/// A batch's present name; one that nobody has used yet is minted by a call that runs.
fn present_batch(location: &Location, name: &str) -> StoreResult<String> {
    let known = match location.peek()? {
        Some(mut store) => state_of(store.port(), GuardKind::Batch, name)?,
        None => None,
    };
    let known = known.as_ref().and_then(Value::as_str);
    Ok(known.unwrap_or("(a new random name)").to_owned())
}

fn state_of(store: &mut dyn Store, kind: GuardKind, name: &str) -> StoreResult<Option<Value>> {
    let all = store.list_guards(kind)?;
    let mut named = all.into_iter().filter(|(found, _)| found == name);
    Ok(named.next().map(|(_, state)| state))
}

/// The store, and the lock file beside it, as they are.
struct Look {
    location: Location,
    store: Option<AnyStore>,
    locks: PathBuf,
}

impl Look {
    fn at(location: &Location) -> StoreResult<Look> {
        let store = location.peek()?;
        let locks = match &store {
            Some(store) => store.paths().locks.clone(),
            None => location.beside("-locks"),
        };
        Ok(Look {
            location: location.clone(),
            store,
            locks,
        })
    }

    fn explain<'a>(
        mut self,
        layers: &Layers<'_>,
        around: &Surroundings<'_>,
        named: &'a Named,
        plan: &'a Plan,
    ) -> Result<Explanation<'a>> {
        let found = self.find(&named.name)?;
        let request = Request {
            identity: Some(identity(&plan.running.argv, &plan.command.cwd)),
            ..plan.request.clone()
        };
        let liveness = found
            .as_ref()
            .map_or(Liveness::Gone, |view| view.liveness.clone());
        let record = found.as_ref().map(|view| &view.record);
        let decision = decide(record, &request, &liveness, &around.now);
        let previous_runs = self.previous_runs(named, &request.ancestry)?;
        let task = self.task(plan)?;
        let deadline_left = deadline_left(plan, around, task.as_ref());
        let argv: Vec<Vec<u8>> = plan
            .running
            .argv
            .iter()
            .map(|arg| arg.as_bytes().to_vec())
            .collect();
        let classifier = Classifier::choose(plan.retry.classifier, &argv);
        Ok(Explanation {
            plan,
            named,
            key_from: key_from(layers, named),
            given: layers.origins(),
            store_exists: self.store.is_some(),
            found,
            previous_runs,
            decision,
            classifier: classifier.map(|classifier| classifier.tool()),
            guards: self.guards(plan, task.as_ref(), deadline_left, &around.now)?,
            task_retries_left: task
                .as_ref()
                .and_then(|task| Some(task.retries?.saturating_sub(task.retries_used))),
            deadline_left,
            now: around.now.clone(),
            store: self.location.to_string(),
        })
    }

    fn find(&mut self, name: &OpName) -> StoreResult<Option<View>> {
        let Some(store) = &mut self.store else {
            return Ok(None);
        };
        let Some(record) = store.port().find(name)? else {
            return Ok(None);
        };
        let liveness = observe(&record, &self.locks);
        if liveness == Liveness::OwnerAlive {
            return Ok(Some(View { record, liveness }));
        }
        // An owner that is gone may have settled just before.
        let again = store.port().find(name)?;
        Ok(again.map(|record| View {
            liveness: observe(&record, &self.locks),
            record,
        }))
    }

    fn previous_runs(&mut self, named: &Named, ancestry: &[Nonce]) -> StoreResult<bool> {
        let Some(previous) = &named.previous else {
            return Ok(false);
        };
        let found = self.find(previous)?;
        Ok(found.is_some_and(|view| {
            seen_state(&view.record, &view.liveness) == State::Running
                && !ancestry.contains(&view.record.nonce)
        }))
    }

    fn state(&mut self, kind: GuardKind, name: &str) -> StoreResult<Option<Value>> {
        match &mut self.store {
            Some(store) => state_of(store.port(), kind, name),
            None => Ok(None),
        }
    }

    fn task(&mut self, plan: &Plan) -> Result<Option<Task>> {
        let Some(name) = &plan.guards.task else {
            return Ok(None);
        };
        let state = self.state(GuardKind::Task, name)?;
        state
            .map(|state| Task::from_json(&state))
            .transpose()
            .map_err(|e| anyhow::anyhow!("task {name} {e}; upgrade idem or end it"))
    }

    fn guards(
        &mut self,
        plan: &Plan,
        task: Option<&Task>,
        deadline_left: Option<Duration>,
        now: &Stamp,
    ) -> Result<Vec<GuardView>> {
        let mut views = Vec::new();
        views.extend(self.bulkhead(plan));
        if let Some(name) = &plan.guards.task {
            views.push(GuardView {
                kind: "task",
                name: name.clone(),
                stands: task.map_or_else(
                    || "was never opened, so it is only a part of the key".to_owned(),
                    |task| guard_text::task(task, now),
                ),
                refuses: task.is_some_and(|task| task.ended.is_some()),
            });
        }
        views.extend(self.breaker(plan, now)?);
        views.extend(self.budget(plan, now)?);
        if deadline_left == Some(Duration::ZERO) {
            views.push(GuardView {
                kind: "deadline",
                name: String::new(),
                stands: "has passed".to_owned(),
                refuses: true,
            });
        }
        Ok(views)
    }

    fn bulkhead(&self, plan: &Plan) -> Option<GuardView> {
        let spec = plan.guards.bulkhead.as_ref()?;
        // Without a lock file nobody holds anything.
        let free = LockFile::open_to_observe(&self.locks)
            .map_or(spec.permits, |locks| permits::free(&locks, spec));
        Some(GuardView {
            kind: "bulkhead",
            name: spec.name.clone(),
            stands: format!("has {free} of {} permits free", spec.permits),
            // It is waited for, unless there is no time for that.
            refuses: free == 0 && plan.limits.wait == Some(Duration::ZERO),
        })
    }

    fn breaker(&mut self, plan: &Plan, now: &Stamp) -> Result<Option<GuardView>> {
        let Some(spec) = &plan.guards.breaker else {
            return Ok(None);
        };
        let state = self.state(GuardKind::Breaker, &spec.name)?;
        let breaker = match state {
            Some(state) => Breaker::from_json(&state)
                .map_err(|e| anyhow::anyhow!("breaker {} {e}; upgrade idem", spec.name))?,
            None => Breaker::closed(now),
        };
        let phase = breaker.phase(now);
        let refuses = match phase {
            Phase::Closed { .. } => false,
            Phase::Open(_) => true,
            Phase::HalfOpen { successes, .. } => plan.guards.auxiliary && successes < spec.probes,
        };
        Ok(Some(GuardView {
            kind: "breaker",
            name: spec.name.clone(),
            stands: guard_text::breaker(phase),
            refuses,
        }))
    }

    fn budget(&mut self, plan: &Plan, now: &Stamp) -> Result<Option<GuardView>> {
        let Some(spec) = &plan.guards.budget else {
            return Ok(None);
        };
        let state = self.state(GuardKind::Budget, &spec.name)?;
        let budget = match state {
            Some(state) => Budget::from_json(&state)
                .map_err(|e| anyhow::anyhow!("budget {} {e}; upgrade idem", spec.name))?,
            None => Budget::full(spec, now),
        };
        Ok(Some(GuardView {
            kind: "budget",
            name: spec.name.clone(),
            stands: format!(
                "has {} of {} retries left",
                budget.left(spec, now),
                spec.retries
            ),
            refuses: false,
        }))
    }
}

fn deadline_left(plan: &Plan, around: &Surroundings<'_>, task: Option<&Task>) -> Option<Duration> {
    let own = plan.limits.deadline;
    let own = own.map(|deadline| deadline.saturating_sub(around.monotonic));
    let tasks = task.and_then(|task| task.remaining(&around.now));
    [own, tasks].into_iter().flatten().min()
}

/// How the key came about, as a fragment.
fn key_from(layers: &Layers<'_>, named: &Named) -> String {
    if named.source == KeySource::Derived {
        return "derived from the command and the directory, since no option names one".to_owned();
    }
    let words = layers.words();
    let option = ["key", "key-file", "key-from"]
        .into_iter()
        .find_map(|name| value(words, name).map(|value| (name, value)));
    match option {
        Some((name, value)) => format!("from --{name} {}", quote::shell(&value.to_string_lossy())),
        None if value(words, "step").is_some() => "from --task and --step".to_owned(),
        None => {
            let template = layers.variable("IDEM_KEY").unwrap_or_default();
            format!(
                "from IDEM_KEY={}",
                quote::shell(&template.to_string_lossy())
            )
        }
    }
}
