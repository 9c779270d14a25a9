//! A task log: an occurrence that a user was given, and what became of it.

use std::sync::Arc;

use tidemill_model::{Event, GrantId, TaskEvent};

/// What a grant is from the beginning and stays. Times are milliseconds since 1970, UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Which grant.
    pub grant: i64,
    /// Of which task.
    pub task: i64,
    /// The version of it that the user got.
    pub task_version: i64,
    /// The task's name for people.
    pub task_name: Option<Arc<str>>,
    /// The template of that version.
    pub template: Option<Arc<str>>,
    /// The parameters of that version, a JSON object.
    pub parameters: Arc<str>,
    /// The group whose shard gave it.
    pub group: Arc<str>,
    /// Who got it.
    pub user: Arc<str>,
    /// The start of the occurrence.
    pub start_at: i64,
    /// When it was given.
    pub granted_at: i64,
    /// When it goes back to stock by itself.
    pub expires_at: Option<i64>,
}

/// How it stands with a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Its user has it.
    Live,
    /// Done.
    Completed {
        /// As the client said.
        result: String,
    },
    /// Given back.
    Returned {
        /// Application, or application/person.
        by: String,
        /// Why; may be empty.
        reason: String,
    },
    /// Its lease ran out.
    Expired,
}

impl State {
    /// What the event makes of which grant; absent where it is about no grant.
    #[must_use]
    pub fn of(event: &Event) -> Option<(GrantId, Self)> {
        // The other hundred facts are none of a sink's business, and new ones are not by default.
        match event {
            Event::Task(TaskEvent::Granted { grant, .. }) => Some((*grant, State::Live)),
            Event::Task(TaskEvent::Completed { grant, result, .. }) => {
                Some((*grant, State::Completed { result: result.clone() }))
            }
            Event::Task(TaskEvent::GrantReturned { grant, by, reason, .. }) => {
                let by = match &by.user {
                    Some(user) => format!("{}/{user}", by.app),
                    None => by.app.to_string(),
                };
                Some((*grant, State::Returned { by, reason: reason.clone() }))
            }
            Event::Task(TaskEvent::GrantExpired { grant, .. }) => Some((*grant, State::Expired)),
            _ => None,
        }
    }

    /// The word for it: `live`, `completed`, `returned` or `expired`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            State::Live => "live",
            State::Completed { .. } => "completed",
            State::Returned { .. } => "returned",
            State::Expired => "expired",
        }
    }

    /// What the client said when it was done.
    #[must_use]
    pub fn result(&self) -> Option<&str> {
        let Self::Completed { result } = self else { return None };
        Some(result)
    }

    /// Who gave it back.
    #[must_use]
    pub fn returned_by(&self) -> Option<&str> {
        let Self::Returned { by, .. } = self else { return None };
        Some(by)
    }

    /// Why it was given back.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        let Self::Returned { reason, .. } = self else { return None };
        Some(reason)
    }
}

/// A fact about a grant, with all that a row of it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The journal record that holds the fact.
    pub offset: u64,
    /// Its place in that record.
    pub index: u32,
    /// When it was decided.
    pub at: i64,
    /// The grant.
    pub given: Arc<Given>,
    /// How it stands with it from then on.
    pub state: State,
}

impl Change {
    /// When the grant ended, if it did.
    #[must_use]
    pub fn ended_at(&self) -> Option<i64> {
        (self.state != State::Live).then_some(self.at)
    }

    /// About how many bytes it has.
    #[must_use]
    pub fn size(&self) -> usize {
        let state = self.state.result().or(self.state.reason()).map_or(0, str::len);
        256 + self.given.parameters.len() + state
    }
}
