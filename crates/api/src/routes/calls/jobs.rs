//! Jobs, their schedules and their versions.

use tidemill_model::Role;

use crate::call::{Call, Calls};
use crate::routes::{apply, apply_request, jobs, run, versions};
use crate::view::{
    ChildView, JobDetail, JobVersionDetail, JobVersionView, JobView, List, PreviewView, SkippedRunsView,
    VersionDiff, Written,
};

pub(super) fn calls(calls: Calls) -> Calls {
    versions_of(changes(runs(definitions(calls))))
}

/// What jobs there are.
fn definitions(calls: Calls) -> Calls {
    calls
        .add(
            Call::post("/api/jobs/apply", "Adds and changes jobs, all or none")
                .of_group(Role::User)
                .with(apply::DRY_RUN)
                .settles()
                .takes::<apply_request::ApplyRequest>()
                .gives::<apply_request::Applied>(),
            apply::apply,
        )
        .add(
            Call::get("/api/jobs", "Jobs, by group and name")
                .of_group(Role::Viewer)
                .page()
                .with(jobs::GROUP)
                .with(jobs::NAME)
                .with(jobs::TYPE)
                .with(jobs::ENABLED)
                .with(jobs::SUBMITTED)
                .gives::<List<JobView>>(),
            jobs::list,
        )
        .add(
            Call::get("/api/jobs/export", "Jobs as they could have been written; `apply` takes them")
                .of_group(Role::Viewer)
                .fresh()
                .with(apply::GROUP)
                .gives::<apply::Exported>(),
            apply::export,
        )
        .add(
            Call::get("/api/jobs/{id}", "A job").fresh().of_group(Role::Viewer).gives::<JobDetail>(),
            jobs::get,
        )
        .add(
            Call::delete("/api/jobs/{id}", "Removes a definition")
                .fresh()
                .of_group(Role::User)
                .with(run::CANCEL)
                .with(run::ORPHAN_CHILDREN)
                .settles()
                .gives::<Written>(),
            run::delete,
        )
        .add(
            Call::get("/api/groups/{group}/jobs/{job}", "A job by the names of its group and its own")
                .fresh()
                .of_group(Role::Viewer)
                .gives::<JobDetail>(),
            jobs::get_named,
        )
}

/// What comes of their schedules, and runs by hand.
fn runs(calls: Calls) -> Calls {
    calls
        .add(
            Call::get(
                "/api/jobs/{id}/preview",
                "The next fires, or one logical time, with all templates resolved",
            )
            .of_group(Role::Viewer)
            .fresh()
            .with(jobs::N)
            .with(jobs::AFTER)
            .with(jobs::AT)
            .gives::<PreviewView>(),
            jobs::preview,
        )
        .add(
            Call::get("/api/jobs/{id}/skipped-runs", "Fires that made no batch, and why")
                .fresh()
                .of_group(Role::Viewer)
                .gives::<List<SkippedRunsView>>(),
            jobs::skipped,
        )
        .add(
            Call::post("/api/jobs/{id}/run", "One batch by hand")
                .of_group(Role::User)
                .takes::<run::RunRequest>()
                .gives::<run::Generated>(),
            run::run,
        )
}

/// What is changed of one.
fn changes(calls: Calls) -> Calls {
    calls
        .add(
            Call::post("/api/jobs/{id}/enable", "Batches are generated from now on")
                .of_group(Role::User)
                .settles()
                .gives::<Written>(),
            run::enable,
        )
        .add(
            Call::post("/api/jobs/{id}/disable", "No more batches are generated")
                .of_group(Role::User)
                .settles()
                .gives::<Written>(),
            run::disable,
        )
        .add(
            Call::post("/api/jobs/{id}/rename",
                "Gives a job another name in its group; its id, its history and its run numbers stay",
            )
            .of_group(Role::User)
            .settles()
            .takes::<run::RenameRequest>()
            .gives::<Written>(),
            run::rename,
        )
        .add(
            Call::post("/api/jobs/{id}/move",
                "Gives a job to another group, unless something of it is unfinished; its id and its run numbers stay",
            )
            .of_group(Role::User)
            .settles()
            .takes::<run::MoveJobRequest>()
            .gives::<Written>(),
            run::move_to,
        )
}

fn versions_of(calls: Calls) -> Calls {
    calls
        .add(
            Call::get("/api/jobs/{id}/versions", "The versions of a definition, the newest first")
                .of_group(Role::Viewer)
                .page()
                .gives::<List<JobVersionView>>(),
            versions::list,
        )
        .add(
            Call::get("/api/jobs/{id}/versions/{version}", "One version of a definition")
                .of_group(Role::Viewer)
                .fresh()
                .gives::<JobVersionDetail>(),
            versions::get,
        )
        .add(
            Call::get(
                "/api/jobs/{id}/versions/{version}/diff/{other}",
                "What differs between two versions of a definition, field by field",
            )
            .of_group(Role::Viewer)
            .fresh()
            .gives::<VersionDiff>(),
            versions::diff,
        )
        .add(
            Call::get("/api/jobs/{id}/children", "The jobs that name this one as a parent")
                .of_group(Role::Viewer)
                .page()
                .gives::<List<ChildView>>(),
            versions::children,
        )
}
