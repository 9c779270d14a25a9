//! One action for many batches or jobs.

use tidemill_model::Role;

use super::{AT_LEAST, PAGE};
use crate::call::{Call, Calls, Verb};
use crate::parameter::{Parameter, Rule};
use crate::routes::bulk;
use crate::view::{BulkItemView, BulkView, List};

pub(super) fn calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::new(
                Verb::Post,
                "/api/bulk",
                "One action for all batches or jobs that fit a filter, as one operation",
            )
            .of_group(Role::User)
            .takes::<bulk::BulkRequest>()
            .gives::<bulk::BulkStarted>()
            .or_gives::<bulk::BulkPlan>(),
            bulk::begin,
        )
        .add(
            Call::new(Verb::Get, "/api/bulk", "Operations on many batches or jobs, newest first")
                .of_site(Role::Viewer)
                .query([PAGE[0], PAGE[1], AT_LEAST])
                .gives::<List<BulkView>>(),
            bulk::list,
        )
        .add(
            Call::new(Verb::Get, "/api/bulk/{id}", "How far an operation is")
                .own(Role::Viewer)
                .query([AT_LEAST])
                .gives::<BulkView>(),
            bulk::get,
        )
        .add(
            Call::new(Verb::Get, "/api/bulk/{id}/items", "What came of each batch or job of an operation")
                .own(Role::Viewer)
                .query([
                    Parameter::new(
                        "outcome",
                        "Only `left`, `done` or `refused`.",
                        Rule::Word(bulk::OUTCOMES),
                    ),
                    PAGE[0],
                    PAGE[1],
                    AT_LEAST,
                ])
                .gives::<List<BulkItemView>>(),
            bulk::items,
        )
}
