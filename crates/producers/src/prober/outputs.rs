//! ZMB-1: outputs of lost attempts, which their owners want looked for. Each is asked for at once, a few times where nobody can
//! tell, and what was found is told until its owner has heard it. It is wanted no more where its owner does not name it any more.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_model::{BatchId, MAX_OUTPUT_ANSWERS, OutputAnswer, OutputFound, ShardId, Timestamp, Token};
use tidemill_probe::{Path, Question};

use super::role::{Answered, Output, TELL_AGAIN_MS};

/// Looks that are under way at once.
const MAX_LOOKS: usize = 64;
/// The pauses between two looks where nobody can tell, milliseconds; after the last one that is what is told.
const PAUSES_MS: [u64; 4] = [1_000, 3_000, 8_000, 15_000];

/// An output of a lost attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostOutput {
    /// Of which batch.
    pub batch: BatchId,
    /// Of which attempt.
    pub token: Token,
    /// Its path, or why it cannot be asked for.
    pub path: Result<Path, String>,
}

/// Looks for outputs, by the shards that want them.
#[derive(Debug, Default)]
pub(super) struct Outputs(BTreeMap<(ShardId, Token), Wanted>);

#[derive(Debug)]
struct Wanted {
    batch: BatchId,
    path: Result<Path, String>,
    looks: usize,
    state: State,
}

#[derive(Debug, PartialEq)]
enum State {
    Due { at_ms: u64 },
    Looking,
    Found { found: OutputFound, tell_at_ms: u64 },
    Telling { found: OutputFound },
}

impl Outputs {
    /// Makes these the whole of what a shard wants looked for.
    pub(super) fn replace(&mut self, now_ms: u64, shard: ShardId, outputs: Vec<LostOutput>) {
        let named: BTreeSet<Token> = outputs.iter().map(|output| output.token).collect();
        self.0.retain(|(of, token), _| *of != shard || named.contains(token));
        for LostOutput { batch, token, path } in outputs {
            let state = match &path {
                Ok(_) => State::Due { at_ms: now_ms },
                Err(reason) => State::found(OutputFound::Unknown { reason: reason.clone() }, now_ms),
            };
            self.0.entry((shard, token)).or_insert(Wanted { batch, path, looks: 0, state });
        }
    }

    /// Forgets those of other shards.
    pub(super) fn retain(&mut self, shards: &[ShardId]) {
        self.0.retain(|(shard, _), _| shards.contains(shard));
    }

    /// Forgets what is not this process's to ask for.
    pub(super) fn keep_parts(&mut self, is_mine: impl Fn(&Path) -> bool) {
        self.0.retain(|_, wanted| wanted.path.as_ref().is_ok_and(&is_mine));
    }

    pub(super) fn looked(
        &mut self,
        now_ms: u64,
        place: (ShardId, Token),
        changed_at: Result<Option<Timestamp>, String>,
    ) {
        let Some(wanted) = self.0.get_mut(&place).filter(|wanted| wanted.state == State::Looking) else {
            return;
        };
        let found = match changed_at {
            Ok(Some(at)) => OutputFound::Changed { at },
            Ok(None) => OutputFound::Absent,
            Err(reason) => match PAUSES_MS.get(wanted.looks) {
                Some(pause_ms) => {
                    wanted.looks += 1;
                    wanted.state = State::Due { at_ms: now_ms + pause_ms };
                    return;
                }
                None => OutputFound::Unknown { reason },
            },
        };
        wanted.state = State::found(found, now_ms);
    }

    /// What was told is done with; were it wanted still, its owner would name it again.
    pub(super) fn told(&mut self, now_ms: u64, shard: ShardId, tokens: &[Token], answered: Answered) {
        for token in tokens {
            let Some(wanted) = self.0.get_mut(&(shard, *token)) else { continue };
            match (answered, &mut wanted.state) {
                (Answered::Decided, _) => drop(self.0.remove(&(shard, *token))),
                (Answered::Lost, State::Telling { found }) => {
                    let found = found.clone();
                    wanted.state = State::found(found, now_ms + TELL_AGAIN_MS);
                }
                (Answered::Lost, _) => {}
            }
        }
    }

    /// What is to be looked for and told now, and when there is more.
    pub(super) fn step(&mut self, now_ms: u64, outputs: &mut Vec<Output>) -> Option<u64> {
        let mut looking = self.0.values().filter(|wanted| wanted.state == State::Looking).count();
        let (mut looks, mut answers) = (Vec::new(), BTreeMap::<ShardId, Vec<OutputAnswer>>::new());
        let mut wake_at_ms: Option<u64> = None;
        for ((shard, token), wanted) in &mut self.0 {
            let at_ms = match &wanted.state {
                State::Due { at_ms } => *at_ms,
                State::Found { tell_at_ms, .. } => *tell_at_ms,
                State::Looking | State::Telling { .. } => continue,
            };
            if at_ms > now_ms {
                wake_at_ms = Some(wake_at_ms.map_or(at_ms, |wake| wake.min(at_ms)));
                continue;
            }
            match (&wanted.state, &wanted.path) {
                (State::Found { found, .. }, _) => {
                    let found = found.clone();
                    let answers = answers.entry(*shard).or_default();
                    if answers.len() < MAX_OUTPUT_ANSWERS {
                        answers.push(OutputAnswer {
                            batch: wanted.batch,
                            token: *token,
                            found: found.clone(),
                        });
                        wanted.state = State::Telling { found };
                    }
                }
                (State::Due { .. }, Ok(path)) if looking < MAX_LOOKS => {
                    looking += 1;
                    looks.push((*shard, *token, path.clone()));
                    wanted.state = State::Looking;
                }
                _ => {}
            }
        }
        outputs.extend((!looks.is_empty()).then_some(Output::LookForOutputs(looks)));
        outputs.extend(answers.into_iter().map(|(shard, answers)| Output::TellOutputs(shard, answers)));
        wake_at_ms
    }
}

impl State {
    fn found(found: OutputFound, tell_at_ms: u64) -> Self {
        State::Found { found, tell_at_ms }
    }
}

/// The question whose share says who asks for a path.
pub(super) fn question(path: &Path) -> Question {
    Question { path: path.clone(), mark: None }
}
