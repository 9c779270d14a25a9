//! Users who pull, and tasks for them.

use serde_json::{Value, json};
use tidemill_model::{
    Answer, Cause, Command, Envelope, Event, GrantId, Level, LiveAnswer, LiveQuery, Outcome, PulledGrant,
    Recorded, ReplicationEvent, Source, TaskCommand, TaskId, TaskLedger, TaskSpec, UserName, UserStanding,
};

use super::{GROUP, World};

/// A user's name.
pub(crate) fn user(name: &str) -> UserName {
    name.try_into().unwrap()
}

/// A task as JSON, for group `g` and at once, if it does not say otherwise.
pub(crate) fn spec(more: Value) -> TaskSpec {
    let mut value = json!({"executor": {"group": "g"}, "when": {"once": {"start": "2026-07-01T10:00:00Z"}}});
    for (key, field) in more.as_object().unwrap() {
        value[key] = field.clone();
    }
    TaskSpec::from_value(value).unwrap()
}

impl World {
    /// A fact of the group that some other shard would have caused.
    pub(crate) fn fact(&mut self, event: Event) {
        let cause = Cause { source: Source::Timer, outcome: Outcome::Done, events: 1 };
        let envelope = Envelope {
            level: Level::FIRST,
            now: self.wall.max(self.partition.now()),
            resume: self.partition.resume().cloned(),
            causes: vec![cause],
            events: vec![Recorded { shard: GROUP, event }],
        };
        self.partition.apply(&envelope);
        self.journal.push(serde_json::to_vec(&envelope).unwrap());
        self.run();
    }

    /// The members of the group.
    pub(crate) fn members(&mut self, names: &[&str]) {
        self.fact(Event::Replication(ReplicationEvent::UsersReplicated {
            users: names.iter().map(|name| user(name)).collect(),
        }));
        self.events();
    }

    /// Creates a task, which must be accepted.
    pub(crate) fn task(&mut self, more: Value) -> TaskId {
        match self.ask(GROUP, Command::Task(TaskCommand::Create { spec: spec(more) })) {
            Outcome::Answered(Answer::Task { task, version: 1 }) => task,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn change(&mut self, task: TaskId, more: Value) -> Outcome {
        self.ask(GROUP, Command::Task(TaskCommand::Change { task, spec: spec(more) }))
    }

    pub(crate) fn pull(&mut self, name: &str) -> Outcome {
        self.ask(GROUP, Command::Task(TaskCommand::Pull { user: user(name) }))
    }

    /// What a pull gives, in short.
    pub(crate) fn got(&mut self, name: &str) -> String {
        let time = |time: tidemill_model::Timestamp| time.strftime("%d %H:%M").to_string();
        match self.pull(name) {
            Outcome::Answered(Answer::Pulled(pulled)) => {
                let PulledGrant { grant, task, start, redo, .. } = *pulled;
                let again = if redo { " again" } else { "" };
                format!("g{} of p{} for {}{again}", grant.0 >> 12, task.0 >> 12, time(start))
            }
            Outcome::Answered(Answer::NothingDue { next_at: Some(next) }) => {
                format!("nothing until {}", time(next))
            }
            Outcome::Answered(Answer::NothingDue { next_at: None }) => "nothing".to_owned(),
            Outcome::Refused(rejection) => rejection.to_string(),
            other => panic!("{other:?}"),
        }
    }

    /// The grant of a pull that must give one.
    pub(crate) fn granted(&mut self, name: &str) -> PulledGrant {
        match self.pull(name) {
            Outcome::Answered(Answer::Pulled(pulled)) => *pulled,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn complete(&mut self, name: &str, grant: GrantId, result: &str) -> Outcome {
        self.ask(
            GROUP,
            Command::Task(TaskCommand::Complete { user: user(name), grant, result: result.to_owned() }),
        )
    }

    /// Pulls and completes; what it was, in short.
    pub(crate) fn work_off(&mut self, name: &str) -> String {
        let got = self.got(name);
        if let Some(live) = self.standing(name).live {
            let outcome = self.complete(name, live.grant, "ok");
            assert_eq!(outcome, Outcome::Answered(Answer::Completed { grant: live.grant }));
        }
        got
    }

    pub(crate) fn give_back(&mut self, name: &str, grant: GrantId) -> Outcome {
        self.ask(
            GROUP,
            Command::Task(TaskCommand::ReturnGrant {
                user: user(name),
                grant,
                reason: "not mine".to_owned(),
            }),
        )
    }

    pub(crate) fn ledger(&self, task: TaskId) -> Option<TaskLedger> {
        match self.partition.answer(GROUP, &LiveQuery::TaskLedger { task, before: None, limit: 1_000 }) {
            LiveAnswer::TaskLedger(ledger) => Some(*ledger),
            LiveAnswer::NotFound => None,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn standing(&self, name: &str) -> UserStanding {
        let query = LiveQuery::User { user: user(name), at: self.wall };
        match self.partition.answer(GROUP, &query) {
            LiveAnswer::User(standing) => *standing,
            other => panic!("{other:?}"),
        }
    }

    /// Taken, live, completed, returned, expired of a task, all of which must add up for each occurrence as well.
    pub(crate) fn counts(&self, task: TaskId) -> [u64; 5] {
        let ledger = self.ledger(task).unwrap();
        let mut all = vec![ledger.totals];
        all.extend(ledger.occurrences.iter().map(|occurrence| occurrence.ledger));
        assert!(all.iter().all(tidemill_model::Ledger::balances), "{all:?}");
        let total = ledger.totals;
        [total.taken, total.live, total.completed, total.returned, total.expired]
    }
}
