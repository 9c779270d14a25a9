//! The table of all calls: path, right, parameters, and who answers. Router, document and page of rights follow its order.

mod batches;
mod bulk;
mod calendars;
mod external_dependencies;
mod groups;
mod jobs;
mod pools;
mod pull;
mod reruns;
mod site;

pub(crate) use site::{admin_calls, attempt_calls, open_calls};

use crate::JournalPosition;
use crate::call::Calls;
use crate::parameter::{Parameter, Rule};
use crate::params::MAX_LIMIT;

const PAGE: [Parameter; 2] = [
    Parameter::new("limit", "Rows of this part, 1 to 1000; default 50.", Rule::Number(1, MAX_LIMIT as u64)),
    Parameter::text("cursor", "The `next` of the part before."),
];
const AT_LEAST: Parameter = Parameter::new(
    "at_least",
    "A `position`; the answer waits until it shows that write.",
    Rule::of::<JournalPosition>(),
);

/// The calls that need a key, as `Authorization: Bearer <app>:<secret>`.
pub(crate) fn calls() -> Calls {
    let calls = batches::calls(jobs::calls(Calls::new()));
    let calls = reruns::calls(bulk::calls(calls));
    let calls = pools::calls(calendars::calls(calls));
    let calls = site::calls(groups::calls(calls));
    let calls = pull::calls(external_dependencies::calls(calls));
    site::dead_letter_calls(super::pull::calls(calls))
}
