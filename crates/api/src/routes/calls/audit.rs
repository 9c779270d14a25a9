//! The audit list.

use crate::call::{Call, Calls};
use crate::routes::audit;
use crate::view::AuditView;

pub(super) fn calls(calls: Calls) -> Calls {
    let filtered = |call: Call| {
        call.with(audit::APP)
            .with(audit::PERSON)
            .with(audit::KIND)
            .with(audit::OBJECT)
            .with(audit::GROUP)
            .with(audit::SINCE)
            .with(audit::UNTIL)
    };
    let summary = "Who asked for which change and when, and refused calls, the newest first";
    let list = Call::list::<AuditView>("/api/audit", summary).named("listAuditRows");
    let summary = "The same, the oldest first, as lines of JSON; goes on after any row of it";
    let export = Call::get("/api/audit/export", summary).named("exportAuditRows").fresh().with(audit::AFTER);
    calls
        .add(filtered(list).of_group(audit::NEEDS), audit::list)
        .add(filtered(export).of_group(audit::NEEDS).gives_media("application/x-ndjson"), audit::export)
        .add(
            Call::one::<AuditView>("/api/audit/{id}", "A row of the audit list")
                .named("getAuditRow")
                .of_group(audit::NEEDS),
            audit::get,
        )
}
