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

use crate::call::Calls;

/// The calls that need a key, as `Authorization: Bearer <app>:<secret>`.
pub(crate) fn calls() -> Calls {
    let calls = batches::calls(jobs::calls(Calls::new()));
    let calls = reruns::calls(bulk::calls(calls));
    let calls = pools::calls(calendars::calls(calls));
    let calls = site::calls(groups::calls(calls));
    let calls = pull::calls(external_dependencies::calls(calls));
    site::dead_letter_calls(super::pull::calls(calls))
}
