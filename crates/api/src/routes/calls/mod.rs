//! The table of all calls: path, right, parameters, and who answers. Router, document and page of rights follow its order.

mod audit;
mod batches;
mod jobs;
mod pull;
mod site;

pub(crate) use site::{admin_calls, attempt_calls, open_calls};

use crate::call::Calls;

/// The calls that need a key, as `Authorization: Bearer <app>:<secret>`.
pub(crate) fn calls() -> Calls {
    let calls = batches::calls(jobs::calls(Calls::default()));
    let calls = batches::reruns(batches::bulk(calls));
    let calls = site::calendars_and_pools(calls);
    let calls = site::calls(site::groups(calls));
    let calls = pull::calls(batches::external_dependencies(calls));
    let calls = super::sign_in::calls(super::directory::calls(super::pull::calls(calls)));
    site::dead_letter_calls(audit::calls(calls))
}
