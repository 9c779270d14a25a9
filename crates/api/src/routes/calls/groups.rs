//! Worker groups: their workers, their bounds, their freezes.

use tidemill_model::Role;

use crate::call::{Call, Calls};
use crate::routes::{freezes, groups, workers};
use crate::view::{FreezeView, GroupView, List, WorkerView, Written};

pub(super) fn calls(calls: Calls) -> Calls {
    freezes_of(workers_of(calls))
}

fn workers_of(calls: Calls) -> Calls {
    calls
        .add(
            Call::get("/api/workers", "Workers, by id")
                .of_group(Role::Viewer)
                .page()
                .with(workers::GROUP)
                .with(workers::STATE)
                .gives::<List<WorkerView>>(),
            workers::list,
        )
        .add(
            Call::get("/api/workers/{id}", "A worker").of_group(Role::Viewer).fresh().gives::<WorkerView>(),
            workers::get,
        )
        .add(
            Call::post("/api/workers/{id}/drain", "The worker takes no new work")
                .of_group(Role::User)
                .gives::<Written>(),
            workers::drain,
        )
        .add(
            Call::post("/api/workers/{id}/resume", "The worker takes work again")
                .of_group(Role::User)
                .gives::<Written>(),
            workers::resume,
        )
}

/// Groups, and what is frozen in them.
fn freezes_of(calls: Calls) -> Calls {
    calls
        .add(
            Call::get("/api/groups", "Worker groups, by number")
                .of_group(Role::Viewer)
                .fresh()
                .gives::<List<GroupView>>(),
            groups::list,
        )
        .add(
            Call::post("/api/groups", "Creates a group, or changes its key and bounds")
                .settles()
                .of_site(Role::SuperAdministrator)
                .takes::<groups::GroupRequest>()
                .gives::<groups::GroupDefined>(),
            groups::define,
        )
        .add(
            Call::get("/api/freezes", "What is frozen, by group")
                .of_group(Role::Viewer)
                .fresh()
                .gives::<List<FreezeView>>(),
            freezes::list,
        )
        .add(
            Call::put("/api/freezes/{scope}", "Lets no batch beyond a logical time be assigned")
                .settles()
                .of_group(Role::User)
                .takes::<freezes::FreezeRequest>()
                .gives::<Written>(),
            freezes::set,
        )
        .add(
            Call::delete("/api/freezes/{scope}", "Lifts a freeze")
                .settles()
                .of_group(Role::User)
                .with(freezes::REASON)
                .gives::<Written>(),
            freezes::lift,
        )
}
