//! `idem status`.

use super::context::{Context, Opened, is_glob, key, text};
use super::doctor::{slow_limit, slow_limits};
use crate::cli::render::detail;
use crate::cli::render::list::{Row, list};
use crate::cli::render::next;
use crate::cli::render::style::Style;
use crate::cli::stdout::print;
use crate::cli::values::{self, Deadline};
use crate::cli::view::View;
use crate::cli::words::{Words, flag, value};
use crate::cli::{attempts, exit, operation_json, present::say_line, quote};
use crate::domain::keyparts::task_name;
use crate::domain::name::{Key, OpName};
use crate::domain::nearest::nearest;
use crate::domain::outcome::State;
use crate::domain::time::{Stamp, UnixMs};
use crate::engine::event::{Event, EventKind};
use crate::engine::store::Filter;
use crate::process::terminal::Size;
use crate::process::waiting::Patience;
use anyhow::{Result, anyhow};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::time::Duration;

/// How many operations the table shows where no limit is given.
const DEFAULT_LIMIT: u32 = 50;

/// A watched list is looked at anew after this long at the latest.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Options that mean something for lists only.
const LIST_OPTIONS: [&str; 4] = ["state", "task", "since", "limit"];

/// What is asked for.
enum Asked {
    /// This operation.
    One(OpName),
    /// Those that a filter lets through.
    Many,
}

/// What one look at the store has to show.
struct Look {
    text: String,
    /// Said on stderr.
    remark: Option<String>,
    code: i32,
    /// What it tells apart from ages.
    gist: String,
}

/// Runs the verb.
pub fn run(words: &Words) -> Result<i32> {
    let context = Context::new(words)?;
    if flag(words, "watch") {
        return watch(words, context);
    }
    let look = look(words, &context, &mut Usual::default())?;
    print(&look.text)?;
    if let Some(remark) = look.remark {
        say_line(&remark);
    }
    Ok(look.code)
}

fn look(words: &Words, context: &Context, usual: &mut Usual) -> Result<Look> {
    let wanted = Wanted::read(words, context)?;
    let mut store = context.read()?;
    match asked(words, context, store.as_mut())? {
        Asked::One(name) => one(words, context, store, &name, usual),
        Asked::Many => many(words, context, store, &wanted, usual),
    }
}

/// Shows it again and again. An owner that dies writes to no file, so it is looked at even without
/// news. On a terminal each look is shown in the place of the last one, since ages grow.
fn watch(words: &Words, mut context: Context) -> Result<i32> {
    let mut changes = context.watch()?;
    let in_place = io::stdout().is_terminal();
    let mut usual = Usual::default();
    let mut gist = None;
    loop {
        let look = look(words, &context, &mut usual)?;
        if in_place {
            print(one_screen(&look))?;
        } else if gist.as_ref() != Some(&look.gist) {
            print(&look.text)?;
            gist = Some(look.gist);
        }
        let waited = changes.wait(&mut Patience::new(Some(LOOK_EVERY)));
        waited.map_err(|e| context.cannot_watch(&e))?;
        context.look_again();
    }
}

/// As much as the terminal shows at once, over what is there: ECMA-48's CUP, EL and ED.
fn one_screen(look: &Look) -> String {
    let size = Size::of(libc::STDOUT_FILENO).unwrap_or(Size::ASSUMED);
    let most = usize::from(size.rows).saturating_sub(1);
    let remark = look.remark.as_deref().into_iter();
    let lines = look.text.lines().chain(remark).take(most);
    let lines: String = lines.map(|line| format!("{line}\x1b[K\n")).collect();
    format!("\x1b[H{lines}\x1b[J")
}

/// A key is exact if there is such an operation, or if nothing in it makes it a glob.
fn asked(words: &Words, context: &Context, store: Option<&mut Opened>) -> Result<Asked> {
    let Some(argument) = value(words, "key") else {
        return Ok(Asked::Many);
    };
    let is_glob = is_glob(argument);
    let key = match key(argument) {
        Ok(key) => key,
        Err(_) if is_glob => return Ok(Asked::Many),
        Err(error) => return Err(error),
    };
    let name = context.name(key)?;
    let Some(option) = LIST_OPTIONS.iter().find(|o| value(words, o).is_some()) else {
        let exists = match (is_glob, store) {
            (false, _) => true,
            (true, None) => false,
            (true, Some(opened)) => opened.store().find(&name)?.is_some(),
        };
        return Ok(if exists {
            Asked::One(name)
        } else {
            Asked::Many
        });
    };
    if is_glob {
        return Ok(Asked::Many);
    }
    Err(anyhow!(
        "--{option} chooses among several operations, and {name} is one; leave one of them out"
    ))
}

fn one(
    words: &Words,
    context: &Context,
    store: Option<Opened>,
    name: &OpName,
    usual: &mut Usual,
) -> Result<Look> {
    let found = match store {
        Some(mut opened) => opened.look(name)?.map(|view| (opened, view)),
        None => None,
    };
    let Some((mut opened, view)) = found else {
        return Ok(Look {
            text: String::new(),
            remark: Some(not_there(name)),
            code: exit::NOT_FOUND,
            gist: String::new(),
        });
    };
    let minted_by = view.record.minted_by;
    let attempts = attempts::collect(&opened.events(name, minted_by)?, minted_by);
    let json = format!("{}\n", operation_json::operation(&view, Some(&attempts)));
    let overdue = usual.overdue(&mut opened, &view, &context.now())?;
    Ok(Look {
        text: match flag(words, "json") {
            true => json.clone(),
            false => detail::page(
                &view,
                &attempts,
                overdue,
                &context.now(),
                Style::of_stdout(),
            ),
        },
        remark: None,
        code: 0,
        gist: format!("{json}{overdue:?}"),
    })
}

/// There is no such operation.
pub fn not_there(name: &OpName) -> String {
    // With --per the period is part of the key, behind what was typed.
    let similar = Key::new(format!("{}*", name.key)).map(|key| OpName {
        key,
        scope: name.scope.clone(),
    });
    let similar = similar.map_or(String::new(), |glob| {
        format!(" {}", quote::operation(&glob))
    });
    format!("there is no operation {name}; list those that are there with `idem status{similar}`")
}

fn many(
    words: &Words,
    context: &Context,
    store: Option<Opened>,
    wanted: &Wanted,
    usual: &mut Usual,
) -> Result<Look> {
    let json = flag(words, "json");
    let limit = wanted.limit.or((!json).then_some(DEFAULT_LIMIT));
    let Some(mut opened) = store else {
        return Ok(Look {
            text: if json { "[]\n" } else { "" }.to_owned(),
            remark: None,
            code: 0,
            gist: String::new(),
        });
    };
    let (views, more) = wanted.views(&mut opened, limit, usual)?;
    let code = i32::from(flag(words, "exit-code") && !views.is_empty());
    let gist = json_array(&views);
    if json {
        return Ok(Look {
            text: gist.clone(),
            remark: None,
            code,
            gist,
        });
    }
    let rows: Result<Vec<Row>> = views
        .into_iter()
        .map(|view| row(&mut opened, view, context, usual))
        .collect();
    let rows = rows?;
    let overdue = rows.iter().filter(|row| row.overdue).count();
    let cut = more && wanted.limit.is_none();
    Ok(Look {
        text: list(&rows, &context.now(), Style::of_stdout()),
        remark: cut
            .then(|| format!("there are more than these {DEFAULT_LIMIT}; see more with --limit N")),
        code,
        gist: format!("{gist}{overdue}"),
    })
}

/// One operation a line.
fn json_array(views: &[View]) -> String {
    let lines: Vec<String> = views
        .iter()
        .map(|view| operation_json::operation(view, None).to_string())
        .collect();
    format!("[{}]\n", lines.join(",\n"))
}

fn row(opened: &mut Opened, view: View, context: &Context, usual: &mut Usual) -> Result<Row> {
    let duration = if view.state() == State::Running {
        Some(view.record.since.age(&context.now()))
    } else {
        let events = opened.events(&view.record.name, view.record.minted_by)?;
        latest_duration(&events)
    };
    Ok(Row {
        overdue: usual.overdue(opened, &view, &context.now())?.is_some(),
        view,
        duration,
    })
}

/// How long commands usually take at most. It is worked out when something runs, and once for all
/// looks: the whole ledger is read for it.
#[derive(Default)]
struct Usual {
    limits: Option<BTreeMap<String, Duration>>,
}

impl Usual {
    /// That limit, where an operation has run for longer.
    fn overdue(
        &mut self,
        opened: &mut Opened,
        view: &View,
        now: &Stamp,
    ) -> Result<Option<Duration>> {
        if view.state() != State::Running {
            return Ok(None);
        }
        let limits = match &mut self.limits {
            Some(limits) => limits,
            none => none.insert(slow_limits(opened)?),
        };
        Ok(slow_limit(&view.record, view.record.since.age(now), limits))
    }
}

/// From the latest claim to its end, by the wall clock, where both are known.
fn latest_duration(events: &[Event]) -> Option<Duration> {
    let claimed = events
        .iter()
        .rev()
        .find(|event| event.kind == EventKind::Claimed)?;
    let settled = events
        .iter()
        .find(|event| event.kind == EventKind::Settled && event.generation == claimed.generation)?;
    let ms = settled.at.0.saturating_sub(claimed.at.0);
    Some(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
}

/// What a list shows.
struct Wanted {
    filter: Filter,
    /// States as they are seen; empty for all.
    states: Vec<State>,
    /// Only what a person must look at, as of this moment.
    problems: Option<Stamp>,
    limit: Option<u32>,
}

impl Wanted {
    fn read(words: &Words, context: &Context) -> Result<Wanted> {
        let states = match text(words, "state")? {
            Some(words) => words.split(',').map(state).collect::<Result<_>>()?,
            None => Vec::new(),
        };
        let since = text(words, "since")?
            .map(|text| since(text, context.now().wall))
            .transpose()?;
        let glob = value(words, "key").and_then(|key| key.to_str());
        Ok(Wanted {
            filter: Filter {
                glob: glob.map(str::to_owned),
                scope: context.scope.clone(),
                task: text(words, "task")?.map(task).transpose()?,
                states: stored_states(&states),
                since,
                limit: None,
            },
            states,
            problems: flag(words, "problems").then(|| context.now()),
            limit: text(words, "limit")?.map(limit).transpose()?,
        })
    }

    /// The operations, newest first, and whether there are more than the limit.
    fn views(
        &self,
        opened: &mut Opened,
        limit: Option<u32>,
        usual: &mut Usual,
    ) -> Result<(Vec<View>, bool)> {
        let mut filter = self.filter.clone();
        if self.states.is_empty() && self.problems.is_none() {
            filter.limit = limit.map(|limit| limit.saturating_add(1));
        }
        let records = opened.store().list(&filter)?;
        let mut views: Vec<View> = records
            .into_iter()
            .map(|record| opened.view(record))
            .filter(|view| self.states.is_empty() || self.states.contains(&view.state()))
            .collect();
        if let Some(now) = &self.problems {
            let problems =
                views
                    .into_iter()
                    .filter_map(|view| match is_problem(opened, &view, now, usual) {
                        Ok(true) => Some(Ok(view)),
                        Ok(false) => None,
                        Err(error) => Some(Err(error)),
                    });
            views = problems.collect::<Result<_>>()?;
        }
        let most = limit.map_or(usize::MAX, |limit| limit as usize);
        let more = views.len() > most;
        views.truncate(most);
        Ok((views, more))
    }
}

/// Whether nothing goes on without a person, or what goes on takes suspiciously long.
fn is_problem(opened: &mut Opened, view: &View, now: &Stamp, usual: &mut Usual) -> Result<bool> {
    let next = next::in_a_word(view, now);
    let stands = matches!(next, "resolve" | "approve" | "look at it" | "correct it");
    Ok(stands || usual.overdue(opened, view, now)?.is_some())
}

/// The stored states that can be seen as these: a running one may be unknown, and an unknown one of
/// which something is left is still running.
fn stored_states(seen: &[State]) -> Vec<State> {
    let mut stored = seen.to_vec();
    for (one, other) in [
        (State::Running, State::Unknown),
        (State::Unknown, State::Running),
    ] {
        if seen.contains(&one) && !stored.contains(&other) {
            stored.push(other);
        }
    }
    stored
}

fn state(word: &str) -> Result<State> {
    State::from_word(word).ok_or_else(|| {
        let known = State::ALL.map(State::word);
        let meant = match nearest(word, &known) {
            Some(meant) => format!("did you mean '{meant}'?"),
            None => format!("the states are {}", known.join(", ")),
        };
        anyhow!("--state: there is no state '{word}'; {meant}")
    })
}

pub fn since(text: &str, now: UnixMs) -> Result<UnixMs> {
    match values::deadline(text).map_err(|e| anyhow!("--since: {e}"))? {
        Deadline::At(moment) => Ok(moment),
        Deadline::After(ago) => {
            let ms = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
            Ok(UnixMs(now.0.saturating_sub(ms)))
        }
    }
}

fn task(name: &str) -> Result<String> {
    let name = task_name(name.as_bytes()).map_err(|e| anyhow!("--task: {e}"))?;
    Ok(name.to_string())
}

fn limit(text: &str) -> Result<u32> {
    match values::whole_number(text) {
        Some(0) => Err(anyhow!("--limit: 0 would show nothing; write at least 1")),
        Some(limit) => Ok(limit),
        None => Err(anyhow!(
            "--limit: cannot read '{text}' as a number; write for example 20"
        )),
    }
}
