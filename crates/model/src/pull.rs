//! Passive dispatch: tasks that clients pull (PUL-1 to PUL-14). A *task* says what is to be done, by whom and when;
//! an *occurrence* is one start of it, which is given out `dispatch_times` times; a *grant* is one such giving, to one
//! user.

mod ledger;
mod task;
mod template;
mod user;

pub use ledger::{Ledger, OccurrenceLedger, PulledGrant, TaskLedger};
pub use task::{Executor, Parameters, TaskSpec, When};
pub use template::{Field, FieldType, Template, TemplateSpec};
pub use user::{LastCompleted, MovedOccurrence, MovedTask, NextDue, UserHistory, UserStanding};
