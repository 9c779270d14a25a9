//! What a message says, equal on both sides.

use tidemill_model::{
    BatchEvent, CatalogueEvent, DeletionEvent, Event, FreezeScope, JobEvent, JobId, Json as _, LevelEvent,
    ObservationEvent, PermitEvent, ReplicationEvent, RerunEvent, Timestamp, TransferEvent,
};

use crate::requests::fingerprint;
use crate::user_groups::released;

/// What an event sent, or what its receiver noted of it; `None`: it is no message, or nothing to note.
pub(super) fn says(event: &Event) -> Option<u64> {
    of_job(event).or_else(|| of_group(event)).or_else(|| of_pull(event)).or_else(|| of_run(event))
}

/// Definitions of jobs, and where they run.
fn of_job(event: &Event) -> Option<u64> {
    Some(match event {
        Event::Job(JobEvent::Defined { definition, enabled, .. })
        | Event::Replication(ReplicationEvent::JobReplicated { definition, enabled, .. }) => {
            fingerprint(&("job", definition.to_json(), enabled))
        }
        Event::Job(JobEvent::MoveRequested { job, .. })
        | Event::Transfer(
            TransferEvent::JobDetached { job, .. } | TransferEvent::JobDetachRejected { job, .. },
        ) => fingerprint(&("release job", job)),
        Event::Job(JobEvent::Moved { definition, enabled, moved, .. })
        | Event::Transfer(TransferEvent::JobAttached { definition, enabled, moved, .. }) => {
            fingerprint(&("take job", definition.to_json(), enabled, moved.to_json()))
        }
        Event::Replication(ReplicationEvent::ParentsReplicated { parents }) => {
            fingerprint(&("parents", serde_json::to_string(parents).ok()))
        }
        Event::Job(JobEvent::Enabled { job }) => fingerprint(&("switch", job, true)),
        Event::Job(JobEvent::Disabled { job }) => fingerprint(&("switch", job, false)),
        Event::Replication(ReplicationEvent::JobSwitchReplicated { job, enabled, .. }) => {
            fingerprint(&("switch", job, enabled))
        }
        Event::Job(JobEvent::Deleted { job })
        | Event::Replication(ReplicationEvent::JobDropped { job, .. }) => fingerprint(&("remove", job)),
        Event::Job(JobEvent::ParentDeleted { parent, name, .. })
        | Event::Replication(ReplicationEvent::ParentDeletionReplicated { parent, name, .. }) => {
            parent_deleted(*parent, name)
        }
        Event::Replication(ReplicationEvent::ParentReleased { parent }) => {
            fingerprint(&("parent released", parent))
        }
        Event::Job(JobEvent::Cancelled { job, .. })
        | Event::Replication(ReplicationEvent::CancellationReplicated { job, .. }) => {
            fingerprint(&("cancel", job))
        }
        _ => return None,
    })
}

/// Groups, and what they share.
fn of_group(event: &Event) -> Option<u64> {
    Some(match event {
        Event::Catalogue(CatalogueEvent::GroupDefined { group, name, worker_key, .. })
        | Event::Replication(ReplicationEvent::GroupReplicated { group, name, worker_key, .. }) => {
            fingerprint(&("group", group, name, worker_key))
        }
        Event::Level(LevelEvent::Raised { level })
        | Event::Replication(ReplicationEvent::LevelReplicated { level }) => fingerprint(&("level", level)),
        Event::Catalogue(CatalogueEvent::FreezeSet { group, freeze }) => {
            fingerprint(&("freeze", group.is_none(), Some(freeze.latest)))
        }
        Event::Catalogue(CatalogueEvent::FreezeLifted { group, .. }) => {
            fingerprint(&("freeze", group.is_none(), None::<Timestamp>))
        }
        Event::Replication(ReplicationEvent::FreezeReplicated { scope, freeze }) => {
            let latest = freeze.as_ref().map(|freeze| freeze.latest);
            fingerprint(&("freeze", *scope == FreezeScope::Everything, latest))
        }
        Event::Catalogue(CatalogueEvent::PoolDefined { pool })
        | Event::Replication(ReplicationEvent::PoolReplicated { pool }) => {
            fingerprint(&("pool", serde_json::to_string(pool).ok()))
        }
        Event::Catalogue(CatalogueEvent::PoolDeleted { name })
        | Event::Replication(ReplicationEvent::PoolDropped { name }) => fingerprint(&("forget pool", name)),
        Event::Permit(
            PermitEvent::Granted { pools, permits, .. } | PermitEvent::Received { pools, permits },
        ) => fingerprint(&("permits", serde_json::to_string(pools).ok(), permits)),
        Event::Catalogue(CatalogueEvent::CalendarDefined { calendar })
        | Event::Replication(ReplicationEvent::CalendarReplicated { calendar }) => {
            fingerprint(&("calendar", serde_json::to_string(calendar).ok()))
        }
        Event::Catalogue(CatalogueEvent::CalendarDeleted { name })
        | Event::Replication(ReplicationEvent::CalendarDropped { name }) => {
            fingerprint(&("forget calendar", name))
        }
        _ => return None,
    })
}

/// What clients pull.
fn of_pull(event: &Event) -> Option<u64> {
    Some(match event {
        Event::Catalogue(CatalogueEvent::TemplateDefined { template })
        | Event::Replication(ReplicationEvent::TemplateReplicated { template }) => {
            fingerprint(&("template", serde_json::to_string(template).ok()))
        }
        Event::Catalogue(CatalogueEvent::TemplateDeleted { name })
        | Event::Replication(ReplicationEvent::TemplateDropped { name }) => {
            fingerprint(&("forget template", name))
        }
        Event::Catalogue(CatalogueEvent::UsersAssigned { users, .. })
        | Event::Replication(ReplicationEvent::UsersReplicated { users }) => fingerprint(&("users", users)),
        Event::Catalogue(CatalogueEvent::UserMoveRequested { user, .. })
        | Event::Transfer(
            TransferEvent::UserDetached { user, .. } | TransferEvent::UserDetachRejected { user, .. },
        ) => fingerprint(&("release user", user)),
        Event::Catalogue(CatalogueEvent::UserMoved { .. })
        | Event::Transfer(TransferEvent::UserAttached { .. }) => fingerprint(&("user", released(event))),
        _ => return None,
    })
}

/// Runs of jobs: what is asked and said of them.
fn of_run(event: &Event) -> Option<u64> {
    Some(match event {
        Event::Deletion(
            DeletionEvent::UnfinishedQueried { question, .. }
            | DeletionEvent::UnfinishedReported { question, .. },
        ) => fingerprint(&("unfinished", question)),
        Event::Observation(ObservationEvent::ProbesRequested { batch: None, .. }) => {
            fingerprint(&"probe_now")
        }
        Event::Rerun(
            RerunEvent::RunsQueried { rerun, part, .. } | RerunEvent::RunsReported { rerun, part, .. },
        ) => fingerprint(&("runs", rerun, part)),
        Event::Batch(BatchEvent::Generated { rerun: Some(place), job, logical_time, .. })
        | Event::Rerun(RerunEvent::RunSkipped { place, job, logical_time, .. }) => {
            fingerprint(&("turn", place.rerun, place.number, job, logical_time))
        }
        _ => return None,
    })
}

pub(super) fn parent_deleted(parent: JobId, name: &str) -> u64 {
    fingerprint(&("parent deleted", parent, name))
}
