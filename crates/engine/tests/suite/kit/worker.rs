//! A worker as the owner sees it: asks, starts, ends, in the way that its script says.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use tidemill_model::{
    AttemptOutcome, AttemptResult, Command, Heartbeat, Incarnation, Nonce, Registration, StartRequest,
    Timestamp, Token, WorkMessage, WorkerCommand, WorkerId,
};

use super::{group, sign};

/// What a worker does with what it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    /// Nothing: the test speaks for it.
    Silent,
    /// Asks, starts and succeeds at once.
    Succeed,
    /// Asks, starts and fails at once.
    Fail,
    /// Asks and starts, then goes on until it is killed or the test ends it.
    Run,
    /// Succeeds after this many milliseconds.
    Take(i64),
    /// Gives every assignment back.
    Reject,
}

/// One played worker.
#[derive(Debug, Clone)]
pub(crate) struct TestWorker {
    pub(crate) id: WorkerId,
    pub(crate) incarnation: Incarnation,
    pub(crate) host: String,
    /// Its group, and that group's shard.
    pub(crate) group: &'static str,
    pub(crate) shard: tidemill_model::ShardId,
    pub(crate) slots: u32,
    pub(crate) labels: Vec<String>,
    pub(crate) script: Script,
    /// Of its slots for `noop`.
    pub(crate) reserved: Option<tidemill_model::Reserved>,
    /// Everything it was told.
    pub(crate) heard: Vec<WorkMessage>,
    /// Attempts that live on it.
    pub(crate) running: BTreeMap<Token, Timestamp>,
}

impl TestWorker {
    pub(crate) fn new(name: &str, slots: u32, script: Script) -> Self {
        Self {
            id: WorkerId::new(name),
            incarnation: Incarnation::new("1"),
            host: format!("host-{name}"),
            group: "g",
            shard: super::GROUP,
            slots,
            labels: Vec::new(),
            script,
            reserved: None,
            heard: Vec::new(),
            running: BTreeMap::new(),
        }
    }

    pub(crate) fn registration(&self) -> Registration {
        let text = Registration::signed_text(&group(self.group), &self.id, &self.incarnation);
        let kinds = ["noop", "shell"].map(|kind| (kind.try_into().unwrap(), self.slots));
        Registration {
            worker: self.id.clone(),
            incarnation: self.incarnation.clone(),
            group: group(self.group),
            host: self.host.clone(),
            address: "127.0.0.1:1".to_owned(),
            slots: kinds.into_iter().collect(),
            reserved: self.reserved.map(|kept| ("noop".try_into().unwrap(), kept)).into_iter().collect(),
            labels: self.labels.iter().map(|label| label.as_str().try_into().unwrap()).collect(),
            keeps: None,
            types: BTreeMap::new(),
            live: self.running.keys().copied().collect(),
            running: Vec::new(),
            number: 0,
            signature: sign(&text),
        }
    }

    /// Comes back as a new process, with nothing running.
    pub(crate) fn restart(&mut self) -> Command {
        let life: u32 = self.incarnation.as_str().parse().unwrap();
        self.incarnation = Incarnation::new((life + 1).to_string());
        self.running.clear();
        Command::Worker(WorkerCommand::Register(Box::new(self.registration())))
    }

    pub(crate) fn request(&self, token: Token) -> Command {
        Command::Worker(WorkerCommand::RequestStart(StartRequest {
            token,
            worker: self.id.clone(),
            incarnation: self.incarnation.clone(),
            nonce: Nonce::new(format!("nonce-{token}")),
        }))
    }

    /// Gives back what [`Self::request`] asked for.
    pub(crate) fn give_back(&self, token: Token) -> Command {
        Command::Worker(WorkerCommand::RejectAssignment {
            lacks_resources: false,
            token,
            worker: self.id.clone(),
            nonce: Some(Nonce::new(format!("nonce-{token}"))),
            reason: "no room".to_owned(),
        })
    }

    pub(crate) fn heartbeat(&self) -> Command {
        Command::Worker(WorkerCommand::Heartbeat(Heartbeat {
            worker: self.id.clone(),
            incarnation: self.incarnation.clone(),
            number: 0,
            measure: None,
            unready: None,
            excesses: Vec::new(),
            leaving: None,
            external_work: Vec::new(),
            status: None,
        }))
    }

    pub(crate) fn started(&self, token: Token) -> Command {
        Command::Worker(WorkerCommand::ReportStarted { token, worker: self.id.clone() })
    }

    pub(crate) fn finished(&self, token: Token, result: AttemptResult) -> Command {
        let exit_code = match result {
            AttemptResult::Success => Some(0),
            AttemptResult::Failed => Some(3),
            AttemptResult::Killed | AttemptResult::Lost | AttemptResult::TimedOut => None,
        };
        let outcome = AttemptOutcome { exit_code, ..AttemptOutcome::bare(result) };
        Command::Worker(WorkerCommand::ReportFinished {
            token,
            worker: self.id.clone(),
            outcome,
            usage: None,
            interrupted: false,
            external: None,
        })
    }

    /// What it answers.
    pub(crate) fn hear(&mut self, message: WorkMessage, now: Timestamp) -> Vec<Command> {
        self.heard.push(message.clone());
        if self.script == Script::Silent {
            return Vec::new();
        }
        match message {
            WorkMessage::AssignedWithRight { spec, .. } => vec![self.request(spec.token)],
            WorkMessage::Confirmed { incarnation, token, .. } if incarnation == self.incarnation => {
                self.start(token, now)
            }
            WorkMessage::Assigned { token, .. } if self.script == Script::Reject => {
                vec![Command::Worker(WorkerCommand::RejectAssignment {
                    lacks_resources: false,
                    token,
                    worker: self.id.clone(),
                    nonce: None,
                    reason: "busy".to_owned(),
                })]
            }
            WorkMessage::Assigned { token, .. } => vec![self.request(token)],
            WorkMessage::Granted { incarnation, spec, .. } if incarnation == self.incarnation => {
                self.start(spec.token, now)
            }
            WorkMessage::Kill { token, .. } if self.running.remove(&token).is_some() => {
                vec![self.finished(token, AttemptResult::Killed)]
            }
            WorkMessage::Registered { incarnation, granted, .. } if incarnation == self.incarnation => {
                let gone: Vec<Token> =
                    granted.into_iter().filter(|token| !self.running.contains_key(token)).collect();
                gone.into_iter().map(|token| self.finished(token, AttemptResult::Lost)).collect()
            }
            WorkMessage::Unregistered { incarnation, .. } if incarnation == self.incarnation => {
                vec![self.restart()]
            }
            WorkMessage::Granted { .. }
            | WorkMessage::Confirmed { .. }
            | WorkMessage::AskedBack { .. }
            | WorkMessage::SealReports { .. }
            | WorkMessage::Kill { .. }
            | WorkMessage::Registered { .. }
            | WorkMessage::Unregistered { .. }
            | WorkMessage::Refused { .. }
            | WorkMessage::Recorded { .. } => Vec::new(),
        }
    }

    fn start(&mut self, token: Token, now: Timestamp) -> Vec<Command> {
        let end = match self.script {
            Script::Succeed => {
                return vec![self.started(token), self.finished(token, AttemptResult::Success)];
            }
            Script::Fail => return vec![self.started(token), self.finished(token, AttemptResult::Failed)],
            Script::Take(ms) => now.saturating_add(SignedDuration::from_millis(ms)).unwrap(),
            Script::Run | Script::Silent | Script::Reject => Timestamp::MAX,
        };
        if self.running.insert(token, end).is_some() {
            return Vec::new();
        }
        vec![self.started(token)]
    }

    /// What ends by now.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Vec<Command> {
        let ended: Vec<Token> =
            self.running.iter().filter(|(_, end)| **end <= now).map(|(token, _)| *token).collect();
        ended
            .into_iter()
            .map(|token| {
                self.running.remove(&token);
                self.finished(token, AttemptResult::Success)
            })
            .collect()
    }

    /// The token it was assigned last.
    pub(crate) fn last_token(&self) -> Token {
        let last = self.heard.iter().rev().find_map(|message| match message {
            WorkMessage::Assigned { token, .. } => Some(*token),
            WorkMessage::AssignedWithRight { spec, .. } => Some(spec.token),
            _ => None,
        });
        last.unwrap()
    }
}
