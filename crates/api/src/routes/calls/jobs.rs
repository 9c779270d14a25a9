//! Jobs, their schedules and their versions.

use tidemill_model::{JobSpec, Permission};

use crate::call::{Call, Calls};
use crate::routes::{apply, apply_body, edit, jobs, run, versions};
use crate::view::{
    ChildView, JobDetail, JobVersionDetail, JobVersionView, JobView, List, PreviewView, SkippedRunsView,
    VersionDiff,
};

pub(super) fn calls(calls: Calls) -> Calls {
    versions_of(actions(definitions(calls)))
}

/// What jobs there are.
fn definitions(calls: Calls) -> Calls {
    calls
        .add(
            Call::act("/api/jobs/apply", "Adds and changes jobs, all or none")
                .needing(Permission::Edit)
                .with(apply::DRY_RUN)
                .settles()
                .takes::<apply_body::ApplyRequest>()
                .gives::<apply_body::Applied>(),
            apply::apply,
        )
        .add(
            Call::list::<JobView>("/api/jobs", "Jobs, by group and name")
                .with(jobs::GROUP)
                .with(jobs::NAME)
                .with(jobs::TYPE)
                .with(jobs::ENABLED)
                .with(jobs::SUBMITTED),
            jobs::list,
        )
        .add(
            Call::one::<apply::Exported>(
                "/api/jobs/export",
                "Jobs as they could have been written; `apply` takes them",
            )
            .named("exportJobs")
            .with(apply::GROUP),
            apply::export,
        )
        .add(Call::one::<JobDetail>("/api/jobs/{id}", "A job"), jobs::get)
        .add(
            Call::one::<JobSpec>(
                "/api/jobs/{id}/definition",
                "A job as it could have been written; the header ETag names what is written",
            )
            .tagged(),
            edit::get,
        )
        .add(
            Call::put(
                "/api/jobs/{id}/definition",
                "Changes a job, if it is still what the header If-Match names",
            )
            .of_group(Permission::Edit)
            .settles()
            .takes::<JobSpec>()
            .gives::<apply_body::Applied>(),
            edit::put,
        )
        .add(
            Call::remove("/api/jobs/{id}", "Removes a definition")
                .needing(Permission::Edit)
                .fresh()
                .with(run::CANCEL)
                .with(run::ORPHAN_CHILDREN)
                .settles(),
            run::delete,
        )
        .add(
            Call::one::<JobDetail>(
                "/api/groups/{group}/jobs/{job}",
                "A job by the names of its group and its own",
            )
            .named("getJobByName"),
            jobs::get_named,
        )
}

/// What comes of their schedules, runs by hand, and what is changed of one.
fn actions(calls: Calls) -> Calls {
    calls
        .add(
            Call::one::<PreviewView>(
                "/api/jobs/{id}/preview",
                "The next fires, or one logical time, with all templates resolved",
            )
            .named("previewJob")
            .with(jobs::N)
            .with(jobs::AFTER)
            .with(jobs::AT),
            jobs::preview,
        )
        .add(
            Call::one::<List<SkippedRunsView>>(
                "/api/jobs/{id}/skipped-runs",
                "Fires that made no batch, and why",
            ),
            jobs::skipped,
        )
        .add(
            Call::act("/api/jobs/{id}/run", "One batch by hand")
                .takes::<run::RunRequest>()
                .gives::<run::Generated>(),
            run::run,
        )
        .add(Call::act("/api/jobs/{id}/enable", "Batches are generated from now on").needing(Permission::Edit).settles(), run::enable)
        .add(Call::act("/api/jobs/{id}/disable", "No more batches are generated").needing(Permission::Edit).settles(), run::disable)
        .add(
            Call::act(
                "/api/jobs/{id}/rename",
                "Gives a job another name in its group; its id, its history and its run numbers stay",
            ).needing(Permission::Edit)
            .settles()
            .takes::<run::RenameRequest>(),
            run::rename,
        )
        .add(
            Call::act(
                "/api/jobs/{id}/move",
                "Gives a job to another group, unless something of it is unfinished; its id and its run numbers stay",
            ).needing(Permission::Edit)
            .settles()
            .takes::<run::MoveJobRequest>(),
            run::move_to,
        )
}

fn versions_of(calls: Calls) -> Calls {
    calls
        .add(
            Call::list::<JobVersionView>(
                "/api/jobs/{id}/versions",
                "The versions of a definition, the newest first",
            ),
            versions::list,
        )
        .add(
            Call::one::<JobVersionDetail>("/api/jobs/{id}/versions/{version}", "One version of a definition"),
            versions::get,
        )
        .add(
            Call::one::<VersionDiff>(
                "/api/jobs/{id}/versions/{version}/diff/{other}",
                "What differs between two versions of a definition, field by field",
            ),
            versions::diff,
        )
        .add(
            Call::list::<ChildView>("/api/jobs/{id}/children", "The jobs that name this one as a parent"),
            versions::children,
        )
}
