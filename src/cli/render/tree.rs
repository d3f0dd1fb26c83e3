//! The tree of a task: its steps, and the calls within them.

use super::style::{Style, Tone};
use super::text::printable;
use crate::cli::guard_text;
use crate::cli::operation_json::operation;
use crate::cli::view::View;
use crate::cli::when::{age, rfc3339};
use crate::domain::outcome::State;
use crate::domain::time::{Stamp, UnixMs};
use crate::policy::task::Task;
use serde_json::{Value, json};
use std::time::Duration;

/// A task with everything that was done under its name.
#[derive(Debug)]
pub struct TaskView {
    /// Its name.
    pub name: String,
    /// Its state; none where steps bear its name though it was never opened.
    pub task: Option<Task>,
    /// Its operations.
    pub steps: Vec<View>,
}

/// One step: its own operation, if it has one, and those of the calls within it.
struct Step<'a> {
    name: &'a str,
    own: Vec<&'a View>,
    calls: Vec<(&'a str, &'a View)>,
}

impl TaskView {
    /// The steps in the order in which they were first begun.
    fn tree(&self) -> Vec<Step<'_>> {
        let mut views: Vec<&View> = self.steps.iter().collect();
        views.sort_by_key(|view| (view.record.created_at, view.record.generation));
        let mut steps: Vec<Step<'_>> = Vec::new();
        for view in views {
            let Some((step, call)) = self.place(view) else {
                continue;
            };
            let position = steps.iter().position(|known| known.name == step);
            let position = position.unwrap_or_else(|| {
                steps.push(Step {
                    name: step,
                    own: Vec::new(),
                    calls: Vec::new(),
                });
                steps.len() - 1
            });
            let Some(known) = steps.get_mut(position) else {
                continue;
            };
            match call {
                Some(call) => known.calls.push((call, view)),
                None => known.own.push(view),
            }
        }
        steps
    }

    /// The step and the call that a key names behind the task's.
    fn place<'a>(&self, view: &'a View) -> Option<(&'a str, Option<&'a str>)> {
        let key = view.record.name.key.as_str();
        let rest = key.strip_prefix(self.name.as_str())?.strip_prefix('/')?;
        Some(match rest.split_once('/') {
            Some((step, call)) => (step, Some(call)),
            None => (rest, None),
        })
    }

    fn headline(&self, now: &Stamp) -> String {
        let stands = match &self.task {
            Some(task) => guard_text::task(task, now),
            None => "was never opened".to_owned(),
        };
        format!("{}  {stands}", printable(&self.name))
    }

    /// The tree for people.
    pub fn page(&self, now: &Stamp, style: Style) -> String {
        let mut out = format!("{}\n", style.paint(Tone::Bold, &self.headline(now)));
        let steps = self.tree();
        let last = steps.len().saturating_sub(1);
        for (i, step) in steps.iter().enumerate() {
            let (branch, below) = if i == last {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };
            let states = step.own.iter().map(|view| told(view, now, style));
            let states: Vec<String> = states.collect();
            let states = states.join(", ");
            let line = format!("{branch}{}  {states}", printable(step.name));
            out.push_str(line.trim_end());
            out.push('\n');
            push_calls(&mut out, step, below, now, style);
        }
        out
    }

    /// The tree as one object.
    pub fn object(&self, now: &Stamp) -> Value {
        let task = self.task.as_ref();
        let left = task.and_then(|task| task.remaining(now));
        let steps: Vec<Value> = self.tree().iter().map(step_object).collect();
        json!({
            "name": self.name,
            "state": match task {
                Some(task) if task.ended.is_some() => "ended",
                Some(_) => "open",
                None => "not_opened",
            },
            "opened_at": task.map(|task| rfc3339(task.opened.wall)),
            "ended_at": task.and_then(|task| Some(rfc3339(task.ended.as_ref()?.wall))),
            "retries": task.and_then(|task| task.retries),
            "retries_used": task.map(|task| task.retries_used),
            "retries_left": task.and_then(|task| Some(task.retries?.saturating_sub(task.retries_used))),
            "deadline_at": task.and_then(deadline_at).map(rfc3339),
            "deadline_left_ms": left.map(ms),
            "steps": steps,
        })
    }
}

/// When a task must be over, by the wall clock at its opening.
pub fn deadline_at(task: &Task) -> Option<UnixMs> {
    let deadline = i64::try_from(task.deadline?.as_millis()).unwrap_or(i64::MAX);
    Some(UnixMs(task.opened.wall.0.saturating_add(deadline)))
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn push_calls(out: &mut String, step: &Step<'_>, below: &str, now: &Stamp, style: Style) {
    let last = step.calls.len().saturating_sub(1);
    for (i, (call, view)) in step.calls.iter().enumerate() {
        let branch = if i == last { "└─ " } else { "├─ " };
        let told = told(view, now, style);
        out.push_str(&format!("{below}{branch}{}  {told}\n", printable(call)));
    }
}

fn told(view: &View, now: &Stamp, style: Style) -> String {
    let record = &view.record;
    let state = view.state();
    let code = match (state, record.exit_code) {
        (State::Succeeded | State::Failed, Some(code)) => format!(" (exit {code})"),
        _ => String::new(),
    };
    let scope = match record.name.scope.as_str() {
        "" => String::new(),
        scope => format!(", scope {}", printable(scope)),
    };
    let attempts = match record.attempts {
        0 | 1 => String::new(),
        several => format!(", {several} attempts"),
    };
    format!(
        "{}{code}, {}{attempts}{scope}",
        style.paint(Tone::of(state), state.word()),
        age(record.since.age(now))
    )
}

fn step_object(step: &Step<'_>) -> Value {
    let calls: Vec<Value> = step
        .calls
        .iter()
        .map(|(call, view)| json!({"call": call, "operation": operation(view, None)}))
        .collect();
    let own: Vec<Value> = step.own.iter().map(|view| operation(view, None)).collect();
    json!({"step": step.name, "operations": own, "calls": calls})
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{name, now, stamp, succeeded, view};
    use super::*;
    use crate::domain::name::{Generation, OpName, Scope};
    use crate::domain::outcome::Class;
    use crate::domain::owner::Liveness;
    use crate::domain::record::Record;

    fn step(key: &str, created_s: i64, record: Record) -> View {
        let record = Record {
            name: name(key),
            created_at: UnixMs(created_s),
            generation: Generation(created_s),
            ..record
        };
        view(record, Liveness::Gone)
    }

    fn failed() -> Record {
        Record {
            state: State::Failed,
            class: Some(Class::Retryable),
            exit_code: Some(9),
            attempts: 3,
            ..succeeded()
        }
    }

    fn release(task: Option<Task>) -> TaskView {
        TaskView {
            name: "release-7".into(),
            task,
            steps: vec![
                step("release-7/push", 3, failed()),
                step("release-7/build/b", 2, succeeded()),
                step("release-7/build/a", 1, succeeded()),
                step("release-7/announce", 4, succeeded()),
                step("release-7/announce/mail", 5, succeeded()),
            ],
        }
    }

    #[test]
    fn steps_stand_in_their_order_and_calls_below_them() {
        let hour = Some(Duration::from_secs(3600));
        let mut task = Task::open(&stamp(1800), Some(2), hour);
        task.take_retry();
        let page = release(Some(task)).page(&now(), Style::PLAIN);
        assert_eq!(
            page,
            "release-7  is open: 1 of 2 retries left; its deadline is in 30m\n\
             ├─ build\n\
             │  ├─ a  succeeded (exit 0), 1h ago\n\
             │  └─ b  succeeded (exit 0), 1h ago\n\
             ├─ push  failed (exit 9), 1h ago, 3 attempts\n\
             └─ announce  succeeded (exit 0), 1h ago\n   \
                └─ mail  succeeded (exit 0), 1h ago\n"
        );
    }

    #[test]
    fn one_that_was_never_opened_is_a_name() {
        let page = release(None).page(&now(), Style::PLAIN);
        assert!(page.starts_with("release-7  was never opened\n"), "{page}");
        let object = release(None).object(&now());
        assert_eq!(object["state"], "not_opened");
        assert_eq!(object["retries_left"], Value::Null);
    }

    #[test]
    fn the_same_step_of_two_scopes_is_told_apart() {
        let mut view = release(None);
        let scoped = Record {
            name: OpName {
                scope: Scope::new("eu").unwrap(),
                ..name("release-7/push")
            },
            ..failed()
        };
        view.steps = vec![
            step("release-7/push", 3, failed()),
            super::super::fixtures::view(scoped, Liveness::Gone),
        ];
        let page = view.page(&now(), Style::PLAIN);
        assert!(page.contains("3 attempts, scope eu"), "{page}");
        assert_eq!(page.lines().count(), 2);
    }

    #[test]
    fn the_object_has_everything() {
        let mut task = Task::open(&stamp(0), Some(2), Some(Duration::from_secs(60)));
        task.ended = Some(stamp(1));
        let object = release(Some(task)).object(&now());
        assert_eq!(object["state"], "ended");
        assert_eq!(
            (&object["retries_left"], &object["deadline_left_ms"]),
            (&2.into(), &0.into())
        );
        assert_eq!(object["deadline_at"], "2026-11-30T12:01:00.000Z");
        assert_eq!(object["steps"][0]["step"], "build");
        assert_eq!(object["steps"][0]["operations"], json!([]));
        assert_eq!(object["steps"][0]["calls"][1]["call"], "b");
        assert_eq!(object["steps"][1]["operations"][0]["state"], "failed");
    }
}
