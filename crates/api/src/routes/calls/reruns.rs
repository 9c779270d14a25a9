//! Reruns and cold starts.

use tidemill_model::Role;

use crate::call::{Call, Calls};
use crate::routes::{rerun_plans, reruns};
use crate::view::{List, RerunBatchView, RerunJobs, RerunView, Written};

pub(super) fn calls(calls: Calls) -> Calls {
    decisions(reads(plans(calls)))
}

/// What is to be run again is planned first.
fn plans(calls: Calls) -> Calls {
    calls
        .add(
            Call::post("/api/reruns", "Plans a rerun of a span of logical times")
                .of_group(Role::User)
                .takes::<rerun_plans::RerunRequest>()
                .gives::<rerun_plans::RerunPlanned>(),
            rerun_plans::request,
        )
        .add(
            Call::post("/api/cold-starts", "Plans a cold start of the jobs of a period")
                .of_site(Role::SuperAdministrator)
                .takes::<rerun_plans::ColdStartRequest>()
                .gives::<rerun_plans::RerunPlanned>(),
            rerun_plans::cold_start,
        )
        .add(
            Call::post("/api/batches/{id}/clear", "Plans to run a batch and all after it again")
                .of_group(Role::User)
                .takes::<rerun_plans::ClearRequest>()
                .gives::<rerun_plans::RerunPlanned>(),
            rerun_plans::clear,
        )
}

/// Their plans, and how far they are.
fn reads(calls: Calls) -> Calls {
    calls
        .add(
            Call::get("/api/reruns", "Reruns and cold starts, the newest first")
                .of_group(Role::Viewer)
                .page()
                .with(reruns::KIND)
                .with(reruns::STATE)
                .gives::<List<RerunView>>(),
            reruns::list,
        )
        .add(
            Call::get("/api/reruns/{id}", "A rerun or cold start, with its counters")
                .of_group(Role::Viewer)
                .fresh()
                .gives::<RerunView>(),
            reruns::get,
        )
        .add(
            Call::get("/api/reruns/{id}/jobs", "Its jobs, and those that it leaves out")
                .of_group(Role::Viewer)
                .fresh()
                .gives::<RerunJobs>(),
            reruns::jobs,
        )
        .add(
            Call::get("/api/reruns/{id}/batches", "The batches of its plan, by number")
                .of_group(Role::Viewer)
                .page()
                .with(reruns::RUN_STATE)
                .gives::<List<RerunBatchView>>(),
            reruns::batches,
        )
}

/// What a person decides about a plan.
fn decisions(calls: Calls) -> Calls {
    let act = |path, summary| Call::post(path, summary).of_group(Role::User).gives::<Written>();
    calls
        .add(act("/api/reruns/{id}/approve", "Lets a planned one run"), reruns::approve)
        .add(act("/api/reruns/{id}/pause", "Starts no more of it for now"), reruns::pause)
        .add(act("/api/reruns/{id}/resume", "Goes on with it"), reruns::resume)
        .add(
            act("/api/reruns/{id}/cancel", "Starts no more of it").takes::<reruns::CancelRequest>(),
            reruns::cancel,
        )
}
