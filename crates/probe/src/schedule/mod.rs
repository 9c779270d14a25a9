//! When which path is asked again. Without clock and I/O: times are given, in milliseconds of any one clock.
//!
//! ```text
//!             due                 its turn: earliest deadline first, neighbours come along
//!  sleeping ───────► ready ──────────────────────────────────────────────────────────────► asked
//!      ▲                                                                                    │
//!      └───────────────────────────────── answered, and still wanted ───────────────────────┘
//! ```
//!
//! Each path has a *due* time, from which it may be asked, and a *deadline*, `max_interval_ms` after it was last asked
//! (DEP-1). Earliest deadline first keeps all deadlines that can be kept, and where they cannot, it goes round
//! all paths alike. Paths about to matter are due sooner, but have no earlier deadline: they get the capacity
//! that is left over. Each authority has a window of questions under way, so one that is slow holds up only
//! itself; the window follows the pace at which they come back.

mod lane;
mod window;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidemill_model::{FieldError, check_range};

use crate::{Authority, FailureKind, Outcome, Question};
use lane::{Item, Lane, State};

/// How often paths are asked. Unknown fields are refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PollTimes {
    /// The longest time between two probes of a path, milliseconds, 1,000 to 3,600,000; default 30,000. What is
    /// older is late.
    pub max_interval_ms: u64,
    /// When a path is due again after it was asked, milliseconds, 100 to `max_interval_ms`; default 25,000. The rest
    /// is for its turn.
    pub interval_ms: u64,
    /// The same for a path that is about to matter, and after a failure, milliseconds, 100 to `interval_ms`;
    /// default 3,000.
    pub min_interval_ms: u64,
    /// When a path is asked, paths of the same directory that are due within this time come along, so that one
    /// listing answers them, milliseconds, 0 to `interval_ms`; default 6,000.
    pub batch_window_ms: u64,
    /// Questions under way to one authority at most, 1 to 1,000,000; default 4,096. Fewer where they come back
    /// slowly: what waits there cannot be overtaken. The prober bounds the calls.
    pub window: usize,
}

impl Default for PollTimes {
    fn default() -> Self {
        Self {
            max_interval_ms: 30_000,
            interval_ms: 25_000,
            min_interval_ms: 3_000,
            batch_window_ms: 6_000,
            window: 4_096,
        }
    }
}

impl PollTimes {
    /// Checks the ranges.
    ///
    /// # Errors
    /// The first field that is outside its range, with its value and the rule.
    pub fn check(&self) -> Result<(), FieldError> {
        check_range("max_interval_ms", self.max_interval_ms, 1_000, 3_600_000)?;
        check_range("interval_ms", self.interval_ms, 100, self.max_interval_ms)?;
        check_range("min_interval_ms", self.min_interval_ms, 100, self.interval_ms)?;
        check_range("batch_window_ms", self.batch_window_ms, 0, self.interval_ms)?;
        check_range("window", self.window as u64, 1, 1_000_000)
    }
}

/// How much a path matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// Somebody waits for it.
    Waiting,
    /// It is about to matter: it is the last thing somebody waits for, or a deadline is near.
    Soon,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// This is waited for, from now on or still. A new one is asked at once.
    Wanted(Question, Urgency),
    /// Nobody waits for this any more.
    Unwanted(Question),
    /// This is to be asked now, and once more if it is under way: what was asked before does not count (DEP-6,
    /// DEP-9). Nothing happens where nobody waits for it.
    Again(Question),
    /// Everything is to be asked now (DEP-9).
    AgainAll,
    /// What a question came to. Every question that [`Step::ask`] gave out has to come back so.
    Answered(Question, Outcome),
}

/// What to do now.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// To be asked now. Neighbours stand together.
    pub ask: Vec<Question>,
    /// When there is more to do if nothing happens until then; none while nothing is waited for.
    pub wake_at_ms: Option<u64>,
}

/// An authority whose paths were not checked for longer than [`PollTimes::max_interval_ms`] (DEP-5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Late {
    /// Which.
    pub authority: Authority,
    /// By how much the path is late that was checked longest ago. A check counts from its beginning, once the
    /// authority answered it; a failure or a hung call is none.
    pub late_ms: u64,
    /// How many paths are late.
    pub paths: usize,
}

/// When which path is asked again.
#[derive(Debug)]
pub struct Schedule {
    poll: PollTimes,
    items: Vec<Option<Item>>,
    vacant: Vec<usize>,
    ids: HashMap<Question, usize>,
    lanes: BTreeMap<Authority, Lane>,
}

impl Schedule {
    /// One that waits for nothing yet.
    ///
    /// # Errors
    /// A field of the rhythm that is outside its range.
    pub fn new(poll: PollTimes) -> Result<Self, FieldError> {
        poll.check()?;
        Ok(Self { poll, items: Vec::new(), vacant: Vec::new(), ids: HashMap::new(), lanes: BTreeMap::new() })
    }

    /// Takes what happened, and says what to ask now. `now_ms` must not go back.
    pub fn step(&mut self, now_ms: u64, events: impl IntoIterator<Item = Event>) -> Step {
        for event in events {
            match event {
                Event::Wanted(question, urgency) => self.wanted(question, urgency, now_ms),
                Event::Unwanted(question) => self.unwanted(&question),
                Event::Again(question) => {
                    if let Some(id) = self.ids.get(&question) {
                        self.again(*id, now_ms);
                    }
                }
                Event::AgainAll => (0..self.items.len()).for_each(|id| self.again(id, now_ms)),
                Event::Answered(question, outcome) => self.answered(&question, &outcome, now_ms),
            }
        }
        let mut step = Step::default();
        for lane in self.lanes.values_mut() {
            for id in lane.turn(now_ms, &self.poll, &self.items) {
                let item = self.items[id].as_mut().expect("a lane holds only what is there");
                item.state = State::Asked { at_ms: now_ms, again: false, unwanted: false };
                step.ask.push(item.question.clone());
            }
            let wake_at_ms = lane.wake_at_ms();
            step.wake_at_ms = [step.wake_at_ms, wake_at_ms].into_iter().flatten().min();
        }
        step
    }

    /// The events that make this the whole of what is waited for.
    #[must_use]
    pub fn reconcile(&self, wanted: &HashMap<Question, Urgency>) -> Vec<Event> {
        let gone = self.items.iter().flatten().filter(|item| !wanted.contains_key(&item.question));
        let mut events: Vec<Event> = gone.map(|item| Event::Unwanted(item.question.clone())).collect();
        let is_known = |question: &Question, urgency: Urgency| {
            let item = self.ids.get(question).and_then(|id| self.items[*id].as_ref());
            item.is_some_and(|item| item.urgency == urgency && !item.state.is_unwanted())
        };
        for (question, urgency) in wanted {
            if !is_known(question, *urgency) {
                events.push(Event::Wanted(question.clone(), *urgency));
            }
        }
        events
    }

    /// Which authorities are late, and by how much.
    #[must_use]
    pub fn late(&self, now_ms: u64) -> Vec<Late> {
        let of = |(authority, lane): (&Authority, &Lane)| {
            let (late_ms, paths) = lane.late(now_ms, &self.poll)?;
            Some(Late { authority: authority.clone(), late_ms, paths })
        };
        self.lanes.iter().filter_map(of).collect()
    }

    /// How many distinct questions are waited for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.iter().flatten().filter(|item| !item.state.is_unwanted()).count()
    }

    /// Whether nothing is waited for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn wanted(&mut self, question: Question, urgency: Urgency, now_ms: u64) {
        if let Some(id) = self.ids.get(&question).copied() {
            return self.still_wanted(id, urgency, now_ms);
        }
        let authority = question.authority();
        let lane = self.lanes.entry(authority).or_insert_with(|| Lane::new(&self.poll));
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.items.push(None);
            self.items.len() - 1
        });
        let directory: Arc<str> = question.path.directory().into();
        let item = Item {
            question: question.clone(),
            directory: lane.directory(directory),
            urgency,
            state: State::Resting { due_ms: now_ms },
            deadline_ms: now_ms + self.poll.max_interval_ms,
            last_ms: None,
            checked_ms: now_ms,
        };
        lane.enter(id, &item);
        self.items[id] = Some(item);
        self.ids.insert(question, id);
    }

    fn still_wanted(&mut self, id: usize, urgency: Urgency, now_ms: u64) {
        let (item, lane) = entry(&mut self.items, &mut self.lanes, id);
        let is_nearer = urgency > item.urgency;
        item.urgency = urgency;
        match &mut item.state {
            State::Asked { again, unwanted, .. } => {
                // What was asked for somebody else's sake may be too old for whoever waits now.
                *again |= *unwanted;
                if std::mem::take(unwanted) {
                    item.checked_ms = now_ms;
                    lane.since.insert((now_ms, id));
                }
            }
            State::Resting { .. } if is_nearer => {
                let due_ms = item.last_ms.map_or(now_ms, |last_ms| last_ms + self.poll.min_interval_ms);
                lane.hasten(id, item, due_ms);
            }
            State::Resting { .. } => {}
        }
    }

    fn unwanted(&mut self, question: &Question) {
        let Some(id) = self.ids.get(question).copied() else { return };
        let (item, lane) = entry(&mut self.items, &mut self.lanes, id);
        if item.state.is_unwanted() {
            return;
        }
        lane.since.remove(&(item.checked_ms, id));
        match &mut item.state {
            // Its place in the window is free only when it comes back.
            State::Asked { unwanted, .. } => *unwanted = true,
            State::Resting { due_ms } => {
                lane.leave(id, *due_ms, item);
                self.forget(id);
            }
        }
    }

    fn again(&mut self, id: usize, now_ms: u64) {
        if self.items[id].is_none() {
            return;
        }
        let (item, lane) = entry(&mut self.items, &mut self.lanes, id);
        match &mut item.state {
            State::Asked { again, .. } => *again = true,
            State::Resting { .. } => {
                lane.hasten(id, item, now_ms);
            }
        }
    }

    fn answered(&mut self, question: &Question, outcome: &Outcome, now_ms: u64) {
        let Some(id) = self.ids.get(question).copied() else { return };
        let (item, lane) = entry(&mut self.items, &mut self.lanes, id);
        let State::Asked { at_ms, again, unwanted } = item.state else { return };
        lane.came_back(now_ms);
        if unwanted {
            lane.release_directory(&item.directory);
            return self.forget(id);
        }
        if outcome.is_conclusive() {
            lane.since.remove(&(item.checked_ms, id));
            item.checked_ms = at_ms;
            lane.since.insert((at_ms, id));
        }
        let interval = match item.urgency {
            Urgency::Waiting => self.poll.interval_ms,
            Urgency::Soon => self.poll.min_interval_ms,
        };
        let due_ms = match outcome {
            _ if again => now_ms,
            Outcome::Present | Outcome::Absent => at_ms + interval,
            Outcome::Hung { .. } => now_ms + self.poll.min_interval_ms,
            Outcome::Failed(failure) => match failure.kind {
                FailureKind::Refused => at_ms + interval,
                FailureKind::Unavailable => now_ms + self.poll.min_interval_ms,
                FailureKind::Paused { for_ms } => now_ms + for_ms,
            },
        };
        item.last_ms = Some(at_ms);
        item.deadline_ms = at_ms + self.poll.max_interval_ms;
        item.state = State::Resting { due_ms };
        lane.rest(id, item, due_ms);
    }

    fn forget(&mut self, id: usize) {
        let item = self.items[id].take().expect("it was found");
        self.ids.remove(&item.question);
        self.vacant.push(id);
        let authority = item.question.authority();
        if self.lanes.get(&authority).is_some_and(Lane::is_empty) {
            self.lanes.remove(&authority);
        }
    }
}

fn entry<'a>(
    items: &'a mut [Option<Item>],
    lanes: &'a mut BTreeMap<Authority, Lane>,
    id: usize,
) -> (&'a mut Item, &'a mut Lane) {
    let item = items[id].as_mut().expect("ids lead to items");
    let lane = lanes.get_mut(&item.question.authority()).expect("an item's lane is there");
    (item, lane)
}
