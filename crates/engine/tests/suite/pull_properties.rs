//! What holds after every step of any history of tasks that clients pull. A model of its own, which keeps everything
//! for ever and looks at every minute, says what each pull must give.
//!
//! A failing seed is printed; put it into [`SEEDS`] and keep it there.

use std::collections::{BTreeMap, BTreeSet};

use crate::kit::{GROUP, World, spec, user};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tidemill_model::{
    Answer, Command, Event, Executor, GrantId, GroupSettings, Outcome, TaskCommand, TaskEvent, TaskId,
    TaskSpec, Timestamp, When,
};

const SEEDS: std::ops::Range<u64> = 0..24;
const STEPS: usize = 220;
const USERS: [&str; 4] = ["a", "b", "c", "d"];
const HOURS: i64 = 3;

/// A small generator of numbers (splitmix64), so that a seed means the same for ever.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        if of.is_empty() { None } else { of.get(self.below(of.len())).copied() }
    }
}

/// Taken, live, completed, returned, expired.
type Counts = [u64; 5];
type Occurrence = (TaskId, Timestamp);

#[derive(Debug, Clone)]
struct Known {
    spec: TaskSpec,
    valid: bool,
}

#[derive(Debug, Clone)]
struct Live {
    user: String,
    of: Occurrence,
    expires_at: Option<Timestamp>,
}

/// What the journal alone says.
#[derive(Debug, Default)]
struct Model {
    tasks: BTreeMap<TaskId, Known>,
    counts: BTreeMap<Occurrence, Counts>,
    live: BTreeMap<GrantId, Live>,
    ended: BTreeSet<GrantId>,
    last: BTreeMap<String, (GrantId, Occurrence)>,
    done: BTreeSet<(String, Occurrence)>,
    horizon: Option<Timestamp>,
    newest: Option<GrantId>,
    seen: BTreeSet<&'static str>,
}

impl Model {
    fn used(&self, of: Occurrence) -> u64 {
        self.counts.get(&of).map_or(0, |counts| counts[1] + counts[2])
    }

    fn end(&mut self, grant: GrantId, how: usize) -> Live {
        let live = self.live.remove(&grant).expect("only a live grant ends");
        assert!(self.ended.insert(grant), "a grant ends once");
        let counts = self.counts.get_mut(&live.of).unwrap();
        counts[1] -= 1;
        counts[how] += 1;
        live
    }

    fn event(&mut self, now: Timestamp, event: &Event) {
        self.seen.insert(event.kind());
        match event {
            Event::Task(TaskEvent::Created { task, spec }) => {
                let known = Known { spec: (**spec).clone(), valid: true };
                assert!(self.tasks.insert(*task, known).is_none());
            }
            Event::Task(TaskEvent::Changed { task, spec, .. }) => {
                self.tasks.get_mut(task).unwrap().spec = (**spec).clone()
            }
            Event::Task(TaskEvent::Deleted { task }) => self.tasks.get_mut(task).unwrap().valid = false,
            Event::Task(TaskEvent::Granted { grant, task, start, user, expires_at, .. }) => {
                assert!(self.newest < Some(*grant), "grants grow");
                self.newest = Some(*grant);
                let (of, who) = ((*task, *start), user.as_str().to_owned());
                assert!(self.live.values().all(|live| live.user != who), "{who} has two live grants");
                let counts = self.counts.entry(of).or_default();
                counts[0] += 1;
                counts[1] += 1;
                let known = &self.tasks[task];
                assert!(known.valid && *start <= now);
                assert!(self.used(of) <= u64::from(known.spec.dispatch_times), "{task} {start} is oversold");
                assert!(known.spec.repeat || !self.done.contains(&(who.clone(), of)), "{who} has done it");
                self.live.insert(*grant, Live { user: who, of, expires_at: *expires_at });
            }
            Event::Task(TaskEvent::Completed { grant, .. }) => {
                let live = self.end(*grant, 2);
                self.done.insert((live.user.clone(), live.of));
                self.last.insert(live.user, (*grant, live.of));
            }
            Event::Task(TaskEvent::GrantReturned { grant, .. }) => drop(self.end(*grant, 3)),
            Event::Task(TaskEvent::GrantExpired { grant, .. }) => {
                let live = self.end(*grant, 4);
                assert!(live.expires_at.is_some_and(|at| at <= now), "it expired too early");
            }
            Event::Task(TaskEvent::Purged { before, tasks }) => {
                assert!(!tasks.is_empty() && self.horizon <= Some(*before));
                self.horizon = Some(*before);
            }
            _ => {}
        }
    }

    /// Whether an occurrence of the task begins then, by looking at it.
    fn is_start(spec: &TaskSpec, time: Timestamp) -> bool {
        match spec.when {
            When::Once { start } => start == time,
            When::EveryMinutes { n, start } => {
                time >= start && (time.as_second() - start.as_second()) % (i64::from(n) * 60) == 0
            }
            When::EveryDays { .. } => unreachable!("not in this test"),
        }
    }

    fn can_get(&self, who: &str, task: TaskId, time: Timestamp) -> bool {
        let known = &self.tasks[&task];
        let for_user = match &known.spec.executor {
            Executor::Group(_) => true,
            Executor::User(name) => name.as_str() == who,
        };
        for_user
            && known.valid
            && Self::is_start(&known.spec, time)
            && self.used((task, time)) < u64::from(known.spec.dispatch_times)
            && (known.spec.repeat || !self.done.contains(&(who.to_owned(), (task, time))))
    }

    fn earliest(&self, who: &str, from: Timestamp, upto: Timestamp) -> Option<(Timestamp, TaskId)> {
        let mut minute = from;
        while minute <= upto {
            if let Some(task) = self.tasks.keys().find(|task| self.can_get(who, **task, minute)) {
                return Some((minute, *task));
            }
            minute += SignedDuration::from_mins(1);
        }
        None
    }

    fn due(&self, who: &str, now: Timestamp) -> Option<(Timestamp, TaskId)> {
        let last = self.last.get(who).map(|(_, of)| *of);
        let begins = last.map_or(now - SignedDuration::from_hours(HOURS), |(_, start)| start);
        let from =
            begins.max(now - SignedDuration::from_hours(24)).max(self.horizon.unwrap_or(Timestamp::MIN));
        if let Some((task, start)) = last
            && start >= from
            && self.tasks[&task].spec.repeat
            && self.can_get(who, task, start)
        {
            return Some((start, task));
        }
        self.earliest(who, from, now)
    }

    /// Everything that the owner still keeps must be what the journal adds up to.
    fn compare(&self, world: &World) {
        for task in self.tasks.keys() {
            let Some(ledger) = world.ledger(*task) else { continue };
            let counts =
                |of: tidemill_model::Ledger| [of.taken, of.live, of.completed, of.returned, of.expired];
            let mut sum = Counts::default();
            for ((_, start), expected) in self.counts.range((*task, Timestamp::MIN)..=(*task, Timestamp::MAX))
            {
                assert_eq!(expected[0], expected[1..].iter().sum::<u64>());
                (0..5).for_each(|place| sum[place] += expected[place]);
                match ledger.occurrences.iter().find(|of| of.start == *start) {
                    Some(kept) => assert_eq!(counts(kept.ledger), *expected, "{task} {start}"),
                    None => {
                        assert!(expected[1] == 0 && self.horizon > Some(*start), "{task} {start} is lost")
                    }
                }
            }
            assert_eq!(counts(ledger.totals), sum, "{task}");
        }
        for name in USERS {
            let live = self.live.iter().find(|(_, live)| live.user == name).map(|(grant, _)| *grant);
            assert_eq!(world.standing(name).live.map(|live| live.grant), live);
        }
    }
}

fn random_spec(random: &mut Random, now: Timestamp) -> TaskSpec {
    let minutes = random.below(400) as i64 - 175;
    let start = (now + SignedDuration::from_mins(minutes)).to_string();
    let when = match random.below(3) {
        0 => {
            let n = [7, 15, 60, 200][random.below(4)];
            json!({"every_minutes": {"n": n, "start": start}})
        }
        _ => json!({"once": {"start": start}}),
    };
    let executor = match random.below(3) {
        0 => json!({"user": USERS[random.below(4)]}),
        _ => json!({"group": "g"}),
    };
    let mut value = json!({
        "executor": executor, "when": when, "dispatch_times": 1 + random.below(4), "repeat": random.below(3) == 0,
    });
    if random.below(3) == 0 {
        value["lease_s"] = json!(60 * (1 + random.below(60)));
    }
    spec(value)
}

/// One step: what is asked, and for a pull what must be answered.
fn step(random: &mut Random, world: &mut World, model: &Model) {
    let name = USERS[random.below(4)];
    let tasks: Vec<TaskId> = model.tasks.keys().copied().collect();
    match random.below(20) {
        0..2 => drop(
            world.ask(GROUP, Command::Task(TaskCommand::Create { spec: random_spec(random, world.wall) })),
        ),
        2 => {
            let Some(task) = random.pick(&tasks) else { return };
            let mut changed = random_spec(random, world.wall);
            changed.executor = model.tasks[&task].spec.executor.clone();
            if random.below(2) == 0 {
                changed.when = model.tasks[&task].spec.when.clone();
            }
            world.ask(GROUP, Command::Task(TaskCommand::Change { task, spec: changed }));
        }
        3 if random.below(2) == 0 => {
            let Some(task) = random.pick(&tasks) else { return };
            world.ask(GROUP, Command::Task(TaskCommand::Delete { task }));
        }
        3..6 => world.pass_minutes(random.below(50) as i64),
        6 if random.below(4) == 0 => world.pass_minutes(60 * random.below(20) as i64),
        6..8 => {
            let known: Vec<GrantId> = model.live.keys().chain(&model.ended).copied().collect();
            let Some(grant) = random.pick(&known) else { return };
            let of_user = model.live.get(&grant).is_some_and(|live| live.user == name);
            let same = model.last.get(name).is_some_and(|(last, _)| *last == grant);
            let outcome = if random.below(2) == 0 {
                world.complete(name, grant, "ok")
            } else {
                world.give_back(name, grant)
            };
            assert!(of_user || same || matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
        }
        8..13 => {
            if let Some(live) = world.standing(name).live {
                world.complete(name, live.grant, "ok");
            }
        }
        _ => pull(world, model, name),
    }
}

fn pull(world: &mut World, model: &Model, name: &str) {
    let now = world.wall;
    let live = model.live.iter().find(|(_, live)| live.user == name);
    let (expected, next) = match live {
        Some((_, live)) => (Some((live.of.1, live.of.0)), None),
        None => {
            let from = now + SignedDuration::from_mins(1);
            (model.due(name, now), model.earliest(name, from, now + SignedDuration::from_hours(HOURS)))
        }
    };
    match world.pull(name) {
        Outcome::Answered(Answer::Pulled(pulled)) => {
            assert_eq!(Some((pulled.start, pulled.task)), expected, "{name} at {now}");
            assert_eq!(live.map(|(grant, _)| *grant), pulled.redo.then_some(pulled.grant));
        }
        Outcome::Answered(Answer::NothingDue { next_at }) => {
            assert_eq!(expected, None, "{name} at {now}");
            assert_eq!(next_at, next.map(|(start, _)| start), "{name} at {now}");
        }
        other => panic!("{other:?}"),
    }
}

fn history(seed: u64) -> BTreeSet<&'static str> {
    let settings =
        GroupSettings { pull_window_hours: HOURS as u32, pull_retention_days: 1, ..GroupSettings::default() };
    let mut world = World::with(crate::kit::START, settings);
    world.members(&USERS);
    let (mut random, mut model) = (Random(seed), Model::default());
    for _ in 0..STEPS {
        let now = world.wall;
        step(&mut random, &mut world, &model);
        assert!(now <= world.wall);
        let at = world.wall;
        world.events().iter().for_each(|event| model.event(at, event));
        model.compare(&world);
    }
    assert_eq!(world.partition, world.folded(), "what the journal folds to is another state");
    model.seen
}

/// PUL-4, PUL-5, PUL-7, PUL-13, PUL-14, BYD-10: after every step of any history no occurrence is given out more often
/// than it may be, a user has one live grant at most, each pull gives what looking at every minute gives, ledgers
/// balance, and the journal folds to the same state.
#[test]
fn pulls_agree_with_a_model_that_looks_at_every_minute() {
    let mut seen = BTreeSet::new();
    for seed in SEEDS {
        println!("seed {seed}");
        seen.extend(history(seed));
    }
    let kinds =
        ["task.changed", "task.deleted", "task.completed", "grant.returned", "grant.expired", "tasks.purged"];
    assert!(kinds.iter().all(|kind| seen.contains(kind)), "{seen:?}");
}

/// PUL-5, EVT-2: numbers in parameters are the same after any number of rounds through the journal.
#[test]
fn parameters_are_read_back_as_they_were_written() {
    let mut world = World::new();
    world.members(&["a"]);
    world.task(json!({"parameters": {"share": 0.1, "big": 1e300, "third": 0.333_333_333_333_333_3}}));
    let pulled = world.granted("a");
    let value: Value = serde_json::to_value(&pulled.parameters).unwrap();
    assert_eq!(value["third"], json!(0.333_333_333_333_333_3));
    world.complete("a", pulled.grant, "ok");
    assert_eq!(world.partition, world.folded());
    let told = world.ask(GROUP, Command::Task(TaskCommand::Pull { user: user("a") }));
    assert_eq!(told, Outcome::Answered(Answer::NothingDue { next_at: None }));
}
