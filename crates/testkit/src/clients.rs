//! Clients that pull: they ask, work, complete, and do so late, twice, for others, or not at all. And what they were
//! told, against what is on record.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_model::{
    Answer, Command, GrantId, Outcome, PulledGrant, Rejection, RequestId, ShardId, TaskCommand, TaskId,
    Timestamp, UserName,
};

use crate::happening::Happening;
use crate::known_pulls::{End, KnownPulls};
use crate::pulls::user;
use crate::{Rng, World};

/// For each group.
const CLIENTS: usize = 2;
/// With what the ids of requests begin whose outcome is not kept.
const BY_STATE: char = 'c';

/// One program that pulls for one user at a time.
#[derive(Debug)]
pub(crate) struct Client {
    group: usize,
    user: UserName,
    asked: Option<RequestId>,
    holds: Option<GrantId>,
    /// What it completed last, and with which result.
    done: Option<(GrantId, String)>,
}

/// Whether an answer to this request is read from the state each time, so that it may be another one the next time.
pub(crate) fn is_by_state(request: &RequestId) -> bool {
    request.as_str().starts_with(BY_STATE)
}

/// The id of the request of this number, the answer to which is read from the state each time.
pub(crate) fn by_state(number: u64) -> String {
    format!("{BY_STATE}{number}")
}

impl World {
    pub(crate) fn clients_begin(&mut self) {
        for group in 0..self.plan.groups {
            for index in 0..CLIENTS {
                let client = Client { group, user: user(group, index), asked: None, holds: None, done: None };
                let number = self.clients.len();
                self.clients.push(client);
                self.at(5_000 + 100 * number as u64, Happening::Client { index: number, turn: 0 });
            }
        }
    }

    /// Sends a request of a client, which is repeated until it is answered.
    pub(crate) fn ask_as_client(
        &mut self,
        shard: ShardId,
        command: impl Into<Command>,
        delay: u64,
    ) -> RequestId {
        let request = RequestId::new(by_state(self.requests + 1));
        self.ask_with(request, shard, command, delay)
    }

    pub(crate) fn client_turn(&mut self, index: usize, turn: u64) {
        let mut rng = Rng::new(self.plan.seed, "client", turn * 100 + index as u64);
        let rng = &mut rng;
        let is_answered = self.client_hears(index);
        // Some ask again without an answer.
        if is_answered || rng.chance(15) {
            self.client_acts(index, rng);
        }
        if !self.healed {
            let pause = if rng.chance(8) { rng.range(5_000, 18_000) } else { rng.range(200, 2_200) };
            self.after(pause, Happening::Client { index, turn: turn + 1 });
        }
    }

    fn client_hears(&mut self, index: usize) -> bool {
        let Some(request) = self.clients[index].asked.clone() else { return true };
        let Some(requested) = self.requested.get(&request) else { return true };
        let Some(answer) = requested.answer.clone() else { return false };
        let result = match &requested.record.command {
            Command::Task(TaskCommand::Complete { result, .. }) => result.clone(),
            _ => String::new(),
        };
        let client = &mut self.clients[index];
        client.asked = None;
        match answer {
            Outcome::Answered(Answer::Pulled(told)) => client.holds = Some(told.grant),
            Outcome::Answered(Answer::Completed { grant }) => {
                client.holds = None;
                client.done = Some((grant, result));
            }
            Outcome::Answered(Answer::NothingDue { .. }) => client.holds = None,
            Outcome::Refused(Rejection::GrantOver { .. } | Rejection::AlreadyCompleted { .. }) => {
                client.holds = None;
            }
            _ => {}
        }
        true
    }

    fn client_acts(&mut self, index: usize, rng: &mut Rng) {
        if rng.chance(4) {
            let group = self.clients[index].group;
            let client = &mut self.clients[index];
            (client.user, client.holds) = (user(group, rng.below(4)), None);
        }
        let user = self.clients[index].user.clone();
        let (holds, done) = (self.clients[index].holds, self.clients[index].done.clone());
        let shard = self.home_of(&user, rng);
        let complete = |grant: GrantId, result: String| {
            Command::Task(TaskCommand::Complete { user: user.clone(), grant, result })
        };
        let result = format!("result {}", rng.range(0, 3));
        let command = match (holds, done, rng.range(0, 100)) {
            (_, _, 0..4) => {
                let grants: Vec<GrantId> = self.known.pulls.grants.keys().rev().take(6).copied().collect();
                complete(rng.pick(&grants).copied().unwrap_or(GrantId::mint(9_999, shard)), result)
            }
            (None, Some((grant, said)), 4..10) => complete(grant, said),
            (None, Some((grant, _)), 10..14) => complete(grant, "another result".to_owned()),
            (None, _, _) => Command::Task(TaskCommand::Pull { user }),
            (Some(_), _, 4..16) => return,
            (Some(_), _, 16..30) => Command::Task(TaskCommand::Pull { user }),
            (Some(grant), _, 30..40) => {
                Command::Task(TaskCommand::ReturnGrant { user, grant, reason: String::new() })
            }
            (Some(grant), _, 40..50) => {
                let command = complete(grant, result);
                let delay = rng.range(0, 40);
                self.ask_as_client(shard, command.clone(), delay);
                command
            }
            (Some(grant), _, 50..52) => complete(grant, String::new()),
            (Some(grant), _, _) => complete(grant, result),
        };
        let request = match command {
            // Its outcome is kept, as that of most requests.
            Command::Task(TaskCommand::ReturnGrant { .. }) => {
                self.clients[index].holds = None;
                self.ask(shard, command)
            }
            command => self.ask_as_client(shard, command, 0),
        };
        self.clients[index].asked = Some(request);
    }

    /// What clients were told they have, or have completed, is on record, and it is no more than there was.
    pub(crate) fn clients_were_told_so(&mut self) {
        let mut wrong = Vec::new();
        let mut acknowledged: BTreeMap<(TaskId, Timestamp), BTreeMap<GrantId, UserName>> = BTreeMap::new();
        let pulls = &self.known.pulls;
        for (request, requested) in &self.requested {
            let Some(Outcome::Answered(answer)) = &requested.answer else { continue };
            let fault = match (answer, &requested.record.command) {
                (Answer::Pulled(told), Command::Task(TaskCommand::Pull { user })) => {
                    not_granted(pulls, told, user)
                }
                (Answer::Completed { grant }, Command::Task(TaskCommand::Complete { user, result, .. })) => {
                    let known = pulls.grants.get(grant);
                    if let Some(known) = known {
                        let of = acknowledged.entry((known.task, known.start)).or_default();
                        of.insert(*grant, user.clone());
                    }
                    let is_so = known.is_some_and(|known| {
                        known.user == *user && known.end == Some(End::Completed(result.clone()))
                    });
                    (!is_so).then(|| format!("completed is {grant} by {user}, on record is {known:?}"))
                }
                _ => None,
            };
            wrong.extend(fault.map(|fault| format!("{request}: {fault}")));
        }
        for ((task, start), grants) in acknowledged {
            let Some(known) = pulls.tasks.get(&task) else { continue };
            if grants.len() as u32 > known.most_dispatched {
                wrong.push(format!("task {task} of {start} was completed {} times", grants.len()));
            }
            let stayed: Vec<_> = grants.values().filter(|user| !pulls.removed.contains(*user)).collect();
            let users: BTreeSet<_> = stayed.iter().collect();
            if !known.was_repeat && users.len() < stayed.len() {
                wrong.push(format!(
                    "plain task {task} of {start} was completed twice by one user: {grants:?}"
                ));
            }
        }
        for what in wrong {
            self.is_wrong(format!("a client: {what}"));
        }
    }
}

fn not_granted(pulls: &KnownPulls, told: &PulledGrant, user: &UserName) -> Option<String> {
    let Some(known) = pulls.grants.get(&told.grant) else {
        return Some(format!("{user} was told of grant {}, which is not on record", told.grant));
    };
    let is_so = known.user == *user
        && (known.task, known.version, known.start) == (told.task, told.version, told.start)
        && (known.granted_at, known.expires_at) == (told.granted_at, told.expires_at)
        && (&known.spec.name, &known.spec.parameters) == (&told.name, &told.parameters);
    (!is_so).then(|| format!("{user} was told {told:?}, on record is {known:?}"))
}
