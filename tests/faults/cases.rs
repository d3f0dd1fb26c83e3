//! Points and what is done at them, generated from a run that nothing disturbs.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use std::collections::BTreeMap;
use std::fmt;

use crate::scenarios::Scenario;
use crate::steps::{Step, errno_name};
use crate::trace::{Act, Point, Role, Traced, Victim};

/// One disturbed run.
#[derive(Clone, Copy)]
pub struct Case {
    /// Of what.
    pub scenario: &'static Scenario,
    /// Where.
    pub point: Point,
    /// How.
    pub act: Act,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Point { role, step, nth } = self.point;
        let (scenario, role) = (self.scenario.name, role.word());
        write!(f, "{scenario}/{role}/{}/{nth}/{}", step.name(), self.act)
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Act::Kill(Victim::Itself) => f.write_str("kill"),
            Act::Kill(Victim::All(role)) => write!(f, "kill-{}", role.word()),
            Act::Kill(Victim::Tree) => f.write_str("kill-child"),
            Act::Kill(Victim::Everything) => f.write_str("kill-all"),
            Act::Fail(errno) => f.write_str(errno_name(*errno)),
            Act::FailOn(errno) => write!(f, "{}-on", errno_name(*errno)),
            Act::Corrupt => f.write_str("corrupt"),
        }
    }
}

/// Everything that can be done to a scenario, from what its undisturbed run did.
pub fn all(scenario: &'static Scenario, undisturbed: &Traced) -> Vec<Case> {
    let mut cases = Vec::new();
    for (&(role, step), &count) in &undisturbed.seen {
        for nth in 1..=count {
            let point = Point { role, step, nth };
            cases.extend(acts(role, step).into_iter().map(|act| Case {
                scenario,
                point,
                act,
            }));
        }
    }
    cases
}

fn acts(role: Role, step: Step) -> Vec<Act> {
    let mut acts = Vec::new();
    if step.acts() {
        acts.push(Act::Kill(Victim::Itself));
        acts.extend(victims(role).iter().copied().map(Act::Kill));
    }
    if role == Role::Child {
        return acts;
    }
    acts.extend(step.errors().map(Act::Fail));
    if step.fills_disk() {
        acts.push(Act::FailOn(libc::ENOSPC));
    }
    if step.reads_pages() {
        acts.push(Act::Corrupt);
    }
    acts
}

/// Who else can die while this one is at work.
fn victims(role: Role) -> &'static [Victim] {
    match role {
        Role::Keeper => &[Victim::All(Role::Front), Victim::Tree, Victim::Everything],
        Role::Child => &[
            Victim::All(Role::Keeper),
            Victim::All(Role::Front),
            Victim::Everything,
        ],
        Role::Gated => &[Victim::All(Role::Keeper), Victim::Everything],
        Role::Front => &[Victim::All(Role::Keeper), Victim::Everything],
        Role::Launcher => &[],
    }
}

/// So many of them, with every kind of step among them as far as they reach: chosen anew from a seed.
pub fn sample(mut cases: Vec<Case>, count: usize, seed: u64) -> Vec<Case> {
    cases.shuffle(&mut StdRng::seed_from_u64(seed));
    // A stable sort by how many of its kind came before spreads the choice over all kinds.
    let mut before: BTreeMap<(Role, Step, Act), u32> = BTreeMap::new();
    let mut ranked: Vec<(u32, Case)> = cases
        .into_iter()
        .map(|case| {
            let Point { role, step, .. } = case.point;
            let rank = before.entry((role, step, case.act)).or_default();
            *rank += 1;
            (*rank, case)
        })
        .collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.truncate(count);
    ranked.into_iter().map(|(_, case)| case).collect()
}

/// What was tried at one kind of step.
#[derive(Default)]
struct Row {
    tried: u32,
    reached: u32,
    acts: BTreeMap<String, u32>,
}

/// The list of points: for each kind of step, by whom and how often it was reached and disturbed.
pub fn summary(cases: &[(Case, bool)]) -> String {
    let mut rows: BTreeMap<(String, Role), Row> = BTreeMap::new();
    for (case, reached) in cases {
        let kind = (case.point.step.name(), case.point.role);
        let row = rows.entry(kind).or_default();
        row.tried += 1;
        row.reached += u32::from(*reached);
        *row.acts.entry(case.act.to_string()).or_default() += 1;
    }
    let mut text = String::new();
    for ((step, role), row) in &rows {
        let acts = row.acts.iter().map(|(act, n)| format!("{act} {n}"));
        let acts = acts.collect::<Vec<_>>().join(", ");
        let Row { tried, reached, .. } = row;
        let role = role.word();
        text += &format!("{step:18} {role:7} {tried:5} tried {reached:5} reached: {acts}\n");
    }
    let reached = cases.iter().filter(|(_, reached)| *reached).count();
    let (tried, kinds) = (cases.len(), rows.len());
    text + &format!("{tried} points tried, {reached} reached, {kinds} kinds of step\n")
}
