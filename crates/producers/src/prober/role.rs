//! The whole of what a prober does next, without clock and I/O: the loop around it and the simulator use it alike.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidemill_model::{FieldError, MAX_ANSWERS, OutputAnswer, ShardId, Timestamp, Token};
use tidemill_probe::{Answer, Event, Late, Outcome, Path, Question, Schedule};

use super::config::Config;
use super::health::{Health, Watch};
use super::outputs::{LostOutput, Outputs, question};
use super::waiting::{Finding, Waiting, Wanted};
use crate::Parts;

/// Until what was not taken is told again, milliseconds.
pub(super) const TELL_AGAIN_MS: u64 = 1_000;
/// Above this many things, an owner is asked less often: by so many for each millisecond.
const EXTERNAL_DEPENDENCIES_PER_MS: usize = 10;

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// This process asks the paths of these parts.
    Parts(Parts),
    /// These are all shards there are.
    Shards(Vec<ShardId>),
    /// All that a shard waits for, asked for by [`Output::Look`].
    Wanted {
        /// Which shard.
        shard: ShardId,
        /// Each external dependency once.
        external_dependencies: Vec<Wanted>,
        /// Why some of its external dependencies cannot be asked for, one reason for each.
        barred: Vec<String>,
        /// All outputs of lost attempts that it wants looked for.
        outputs: Vec<LostOutput>,
    },
    /// What a look of [`Output::LookForOutputs`] came to: when the path changed last, `None` if nothing is there, or why nobody can
    /// tell. All of them have to come back.
    OutputLooked(ShardId, Token, Result<Option<Timestamp>, String>),
    /// What became of an [`Output::TellOutputs`] of these attempts.
    OutputsTold(ShardId, Vec<Token>, Answered),
    /// A shard's owner did not say what it waits for.
    Unknown(ShardId),
    /// What a question of [`Output::Ask`] came to. All of them have to come back.
    Answer(Answer),
    /// What became of an [`Output::Tell`].
    Told(ShardId, Answered),
    /// What became of an [`Output::Health`].
    HealthTold(String, Health, Answered),
}

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// The owner decided it.
    Decided,
    /// It may not have been decided.
    Lost,
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Ask the shard's owner for all that it waits for.
    Look(ShardId),
    /// Ask these. Neighbours stand together.
    Ask(Vec<Question>),
    /// Tell a shard that these external dependencies are there: [`MAX_ANSWERS`] at most, one command at a time for each shard.
    Tell(ShardId, Vec<Finding>),
    /// Find out when the paths of these attempts changed last.
    LookForOutputs(Vec<(ShardId, Token, Path)>),
    /// Tell a shard what was found of outputs: [`MAX_OUTPUT_ANSWERS`](tidemill_model::MAX_OUTPUT_ANSWERS) at most.
    TellOutputs(ShardId, Vec<OutputAnswer>),
    /// Tell the catalogue how the check of an authority's paths goes.
    Health(String, Health),
}

/// What follows from what happened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Turn {
    /// To be done now.
    pub outputs: Vec<Output>,
    /// When there is more to do if nothing happens until then.
    pub wake_at_ms: u64,
}

#[derive(Debug, Default)]
struct Shard {
    look_at_ms: u64,
    looking: bool,
    /// Found and not yet taken.
    found: BTreeSet<Finding>,
    /// What is being told.
    telling: Vec<Finding>,
    tell_at_ms: u64,
    barred: Vec<String>,
}

/// A prober's memory: nothing of it has to survive.
#[derive(Debug)]
pub struct Role {
    config: Config,
    schedule: Schedule,
    waiting: Waiting,
    outputs: Outputs,
    watch: Watch,
    shards: BTreeMap<ShardId, Shard>,
    /// Who waited for a question when it was asked.
    asked: HashMap<Question, Vec<(ShardId, Finding)>>,
    parts: Parts,
}

impl Role {
    /// One that knows of nothing yet.
    ///
    /// # Errors
    /// A field of the configuration that is outside its range.
    pub fn new(config: Config) -> Result<Self, FieldError> {
        config.check()?;
        Ok(Self {
            schedule: Schedule::new(config.poll.clone())?,
            config,
            waiting: Waiting::default(),
            outputs: Outputs::default(),
            watch: Watch::default(),
            shards: BTreeMap::new(),
            asked: HashMap::new(),
            parts: Parts::none(),
        })
    }

    /// Takes what happened, and says what to do now. `now_ms` must not go back.
    pub fn step(&mut self, now_ms: u64, inputs: impl IntoIterator<Item = Input>) -> Turn {
        let mut events = Vec::new();
        for input in inputs {
            self.take(now_ms, input, &mut events);
        }
        for event in &events {
            if let Event::Unwanted(question) = event {
                self.watch.unwanted(question);
            }
        }
        let step = self.schedule.step(now_ms, events);
        let mut turn = Turn { outputs: Vec::new(), wake_at_ms: now_ms + TELL_AGAIN_MS };
        if !step.ask.is_empty() {
            for question in &step.ask {
                self.asked.insert(question.clone(), self.waiting.of(question));
            }
            turn.outputs.push(Output::Ask(step.ask));
        }
        self.tell(now_ms, &mut turn.outputs);
        self.look(now_ms, &mut turn);
        if let Some(wake_at_ms) = self.outputs.step(now_ms, &mut turn.outputs) {
            turn.wake_at_ms = turn.wake_at_ms.min(wake_at_ms);
        }
        if self.watch.is_due(now_ms) {
            let barred = self.shards.values().flat_map(|shard| shard.barred.iter().map(String::as_str));
            let news = self.watch.news(now_ms, &self.schedule.late(now_ms), barred);
            turn.outputs
                .extend(news.into_iter().map(|(authority, health)| Output::Health(authority, health)));
        }
        if let Some(wake_at_ms) = step.wake_at_ms {
            turn.wake_at_ms = turn.wake_at_ms.min(wake_at_ms.max(now_ms));
        }
        turn
    }

    /// Distinct paths that this process asks for, and the external dependencies that wait for them.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        (self.waiting.len(), self.waiting.external_dependencies())
    }

    /// Questions under way.
    #[must_use]
    pub fn asking(&self) -> usize {
        self.asked.len()
    }

    /// Paths whose last check failed.
    #[must_use]
    pub fn failing(&self) -> usize {
        self.watch.failing()
    }

    /// Which authorities are late, and by how much.
    #[must_use]
    pub fn late(&self, now_ms: u64) -> Vec<Late> {
        self.schedule.late(now_ms)
    }

    fn take(&mut self, now_ms: u64, input: Input, events: &mut Vec<Event>) {
        match input {
            Input::Parts(parts) => self.divide(now_ms, parts, events),
            Input::Shards(shards) => self.know(now_ms, &shards, events),
            Input::Wanted { shard, external_dependencies, barred, outputs } => {
                self.wanted(now_ms, shard, external_dependencies, barred, events);
                self.outputs_wanted(now_ms, shard, outputs);
            }
            Input::OutputLooked(shard, token, changed_at) => {
                self.outputs.looked(now_ms, (shard, token), changed_at);
            }
            Input::OutputsTold(shard, tokens, answered) => {
                self.outputs.told(now_ms, shard, &tokens, answered)
            }
            Input::Unknown(shard) => {
                let next_ms = now_ms + self.config.poll_interval_ms;
                if let Some(shard) = self.shards.get_mut(&shard) {
                    (shard.looking, shard.look_at_ms) = (false, next_ms);
                }
            }
            Input::Answer(answer) => self.answered(answer, events),
            Input::Told(shard, answered) => {
                let Some(shard) = self.shards.get_mut(&shard) else { return };
                let telling = std::mem::take(&mut shard.telling);
                if answered == Answered::Lost {
                    shard.found.extend(telling);
                    shard.tell_at_ms = now_ms + TELL_AGAIN_MS;
                }
            }
            Input::HealthTold(_, _, Answered::Decided) => {}
            Input::HealthTold(authority, health, Answered::Lost) => self.watch.not_heard(authority, &health),
        }
    }

    /// What is no longer this process's is forgotten at once, and what now is, is looked for at once.
    fn divide(&mut self, now_ms: u64, parts: Parts, events: &mut Vec<Event>) {
        let has_more = !parts.mine.is_subset(&self.parts.mine) || parts.count != self.parts.count;
        self.parts = parts;
        let Parts { mine, count } = &self.parts;
        events.extend(self.waiting.retain(|question| mine.contains(&question.share(*count))));
        self.outputs.keep_parts(|path| mine.contains(&question(path).share(*count)));
        if has_more {
            self.shards.values_mut().for_each(|shard| shard.look_at_ms = now_ms);
        }
    }

    fn know(&mut self, now_ms: u64, shards: &[ShardId], events: &mut Vec<Event>) {
        let gone: Vec<ShardId> =
            self.shards.keys().copied().filter(|shard| !shards.contains(shard)).collect();
        self.outputs.retain(shards);
        for shard in gone {
            self.shards.remove(&shard);
            events.extend(self.waiting.replace(shard, Vec::new()));
        }
        for shard in shards {
            self.shards.entry(*shard).or_insert_with(|| Shard { look_at_ms: now_ms, ..Shard::default() });
        }
    }

    fn wanted(
        &mut self,
        now_ms: u64,
        number: ShardId,
        mut external_dependencies: Vec<Wanted>,
        barred: Vec<String>,
        events: &mut Vec<Event>,
    ) {
        let Some(shard) = self.shards.get_mut(&number) else { return };
        let pause_ms = (external_dependencies.len() / EXTERNAL_DEPENDENCIES_PER_MS) as u64;
        shard.looking = false;
        shard.look_at_ms = now_ms + self.config.poll_interval_ms.max(pause_ms);
        shard.barred = barred;
        external_dependencies.retain(|wanted| {
            let is_mine = self.parts.mine.contains(&wanted.question.share(self.parts.count));
            let permitted = self.config.permits(&wanted.question);
            shard.barred.extend(permitted.as_ref().err().filter(|_| is_mine).cloned());
            is_mine && permitted.is_ok()
        });
        events.extend(self.waiting.replace(number, external_dependencies));
    }

    /// Those of this process. What may not be asked for, it says at once.
    fn outputs_wanted(&mut self, now_ms: u64, shard: ShardId, mut outputs: Vec<LostOutput>) {
        if !self.shards.contains_key(&shard) {
            return;
        }
        outputs.retain_mut(|output| {
            let Ok(path) = &output.path else { return true };
            let asked = question(path);
            let is_mine = self.parts.mine.contains(&asked.share(self.parts.count));
            if let Err(reason) = self.config.permits(&asked) {
                output.path = Err(reason);
            }
            is_mine
        });
        self.outputs.replace(now_ms, shard, outputs);
    }

    fn answered(&mut self, Answer { question, outcome }: Answer, events: &mut Vec<Event>) {
        let waited = self.asked.remove(&question).unwrap_or_default();
        // Nobody cares any more how the check of what is not waited for goes.
        if self.waiting.holds(&question) {
            self.watch.answered(&question, &outcome);
        }
        if outcome == Outcome::Present {
            for (number, finding) in waited {
                let still = self.waiting.still(number, finding);
                if let Some(shard) = self.shards.get_mut(&number).filter(|_| still) {
                    shard.found.insert(finding);
                }
            }
        }
        events.push(Event::Answered(question, outcome));
    }

    fn tell(&mut self, now_ms: u64, outputs: &mut Vec<Output>) {
        for (number, shard) in &mut self.shards {
            if !shard.telling.is_empty() || now_ms < shard.tell_at_ms {
                continue;
            }
            let waiting = &self.waiting;
            shard.found.retain(|finding| waiting.still(*number, *finding));
            while shard.telling.len() < MAX_ANSWERS
                && let Some(finding) = shard.found.pop_first()
            {
                shard.telling.push(finding);
            }
            if !shard.telling.is_empty() {
                outputs.push(Output::Tell(*number, shard.telling.clone()));
            }
        }
    }

    fn look(&mut self, now_ms: u64, turn: &mut Turn) {
        for (number, shard) in &mut self.shards {
            if shard.looking {
                continue;
            }
            if shard.look_at_ms <= now_ms {
                shard.looking = true;
                turn.outputs.push(Output::Look(*number));
            } else {
                turn.wake_at_ms = turn.wake_at_ms.min(shard.look_at_ms);
            }
        }
    }
}
