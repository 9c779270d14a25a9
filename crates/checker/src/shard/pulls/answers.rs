//! What clients are told, against what is on record.

use tidemill_log::Hash;
use tidemill_model::{
    Answer, Command, GrantId, Outcome, PulledGrant, Recorded, Rejection, TaskCommand, UserName,
};

use super::{Pulls, Rules};
use crate::shard::Shard;
use crate::{At, Invariant};

impl Shard {
    /// `pulls_answered_as_on_record`: `events` are those of the command at hand, which are applied.
    pub(crate) fn pulls_answered_as_on_record(&self, at: &At<'_>, outcome: &Outcome, events: &[Recorded]) {
        let rules = self.pull_rules(at);
        let pulls = &self.pulls;
        let wrong = match (outcome, at.command()) {
            (Outcome::Answered(Answer::Pulled(told)), command) => {
                let user = match command {
                    Some(Command::Task(TaskCommand::Pull { user })) => Some(user),
                    _ => None,
                };
                pulls.not_as_granted(told, user, events)
            }
            (
                Outcome::Answered(Answer::NothingDue { next_at }),
                Some(Command::Task(TaskCommand::Pull { user })),
            ) => pulls.not_nothing(user, *next_at, rules),
            (
                Outcome::Answered(Answer::Completed { grant }),
                Some(Command::Task(TaskCommand::Complete { user, result, .. })),
            ) => pulls.not_completed(*grant, user, result),
            (Outcome::Refused(rejection), Some(command)) => pulls.refused_without_cause(rejection, command),
            _ => None,
        };
        if let Some(why) = wrong {
            at.breaks(Invariant::PullsAnsweredAsOnRecord, why);
        }
    }
}

impl Pulls {
    fn not_as_granted(
        &self,
        told: &PulledGrant,
        user: Option<&UserName>,
        events: &[Recorded],
    ) -> Option<String> {
        let grant = told.grant;
        let Some(held) = self.grants.get(&grant) else {
            return Some(format!("a client is told of grant {grant}, which is not live"));
        };
        if let Some(user) = user.filter(|user| **user != held.user) {
            return Some(format!("user {user} is told of grant {grant}, which is user {}'s", held.user));
        }
        let given = (told.task, told.version, told.start, told.granted_at, told.expires_at);
        let held = (held.task, held.version, held.start, held.granted_at, held.expires_at);
        if given != held {
            return Some(format!("grant {grant} is told as {given:?}, and is {held:?}"));
        }
        (told.redo != events.is_empty()).then(|| {
            format!("grant {grant} is told with redo {}, and has {} events", told.redo, events.len())
        })
    }

    fn not_nothing(
        &self,
        user: &UserName,
        next_at: Option<tidemill_model::Timestamp>,
        rules: Rules,
    ) -> Option<String> {
        let Some(member) = self.members.get(user) else {
            return Some(format!("nothing is due for user {user}, who is no member"));
        };
        if let Some(grant) = member.live {
            return Some(format!("nothing is due for user {user}, who has grant {grant}"));
        }
        if self.is_unsure(user) {
            return None;
        }
        if let Some((start, task)) = self.due(user, rules) {
            return Some(format!("nothing is due for user {user}, and task {task} of {start} is"));
        }
        let next = self.next(user, rules);
        (next != next_at)
            .then(|| format!("user {user} is told of {next_at:?}, and the next start is {next:?}"))
    }

    fn not_completed(&self, grant: GrantId, user: &UserName, result: &str) -> Option<String> {
        let last = self.members.get(user).and_then(|member| member.last.as_ref());
        let is_so = last.is_some_and(|last| {
            last.grant == grant && last.result == Hash::of(result.as_bytes()).to_string()
        });
        (!is_so)
            .then(|| format!("grant {grant} is called completed by user {user} with this result, and is not"))
    }

    fn refused_without_cause(&self, rejection: &Rejection, command: &Command) -> Option<String> {
        let of = match command {
            Command::Task(
                TaskCommand::Complete { user, grant, .. } | TaskCommand::ReturnGrant { user, grant, .. },
            ) => Some((user, Some(*grant))),
            Command::Task(TaskCommand::Pull { user }) => Some((user, None)),
            _ => None,
        };
        let (user, grant) = of?;
        let member = self.members.get(user);
        match rejection {
            Rejection::UserUnknown { .. } if member.is_some() => {
                Some(format!("user {user} is called unknown, and is a member"))
            }
            Rejection::GrantOver { .. }
            | Rejection::NotReturned { .. }
            | Rejection::AlreadyCompleted { .. }
                if grant.is_some() && member.and_then(|member| member.live) == grant =>
            {
                Some(format!("grant {grant:?} is user {user}'s, and is called over"))
            }
            _ => None,
        }
    }
}
