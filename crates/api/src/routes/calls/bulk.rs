//! One action for many batches or jobs.

use tidemill_model::Role;

use crate::call::{Call, Calls};
use crate::routes::bulk;
use crate::view::{BulkItemView, BulkView, List};

pub(super) fn calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::post("/api/bulk", "One action for all batches or jobs that fit a filter, as one operation")
                .of_group(Role::User)
                .takes::<bulk::BulkRequest>()
                .gives::<bulk::BulkStarted>()
                .or_gives::<bulk::BulkPlan>(),
            bulk::begin,
        )
        .add(
            Call::get("/api/bulk", "Operations on many batches or jobs, newest first")
                .of_site(Role::Viewer)
                .page()
                .gives::<List<BulkView>>(),
            bulk::list,
        )
        .add(
            Call::get("/api/bulk/{id}", "How far an operation is")
                .own(Role::Viewer)
                .fresh()
                .gives::<BulkView>(),
            bulk::get,
        )
        .add(
            Call::get("/api/bulk/{id}/items", "What came of each batch or job of an operation")
                .own(Role::Viewer)
                .with(bulk::OUTCOME)
                .page()
                .gives::<List<BulkItemView>>(),
            bulk::items,
        )
}
