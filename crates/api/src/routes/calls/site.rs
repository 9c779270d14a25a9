//! What is of the whole site: keys, the public feed, the state of the service, dead letters, and what needs no key.

use tidemill_model::Role;

use crate::call::{Call, Calls};
use crate::ports::OperationStatus;
use crate::routes::{admin, codes, dead_letters, events, keys, open, status};
use crate::view::{DeadLetterDetail, DeadLetterView, KeyView, List, Redriven, Written};

pub(super) fn calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::get("/api/keys", "Application keys, by name")
                .of_site(Role::SuperAdministrator)
                .fresh()
                .gives::<List<KeyView>>(),
            keys::list,
        )
        .add(
            Call::post("/api/keys", "Creates or replaces an application key")
                .of_site(Role::SuperAdministrator)
                .takes::<keys::KeyRequest>()
                .gives::<keys::KeyDefined>(),
            keys::define,
        )
        .add(
            Call::delete("/api/keys/{app}", "Ends an application key")
                .of_site(Role::SuperAdministrator)
                .gives::<Written>(),
            keys::revoke,
        )
        .add(
            Call::get("/api/events", "The public feed, as server-sent events")
                .of_group(Role::Viewer)
                .with(events::AFTER)
                .with(events::FROM)
                .with(events::TYPE)
                .with(events::SUBJECT)
                .with(events::EVENTS)
                .gives_media("text/event-stream"),
            events::stream,
        )
        .add(
            Call::get("/api/status", "The partitions and how far each is")
                .everybody(Role::Viewer)
                .gives::<status::StatusView>(),
            status::status,
        )
}

pub(super) fn dead_letter_calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::get(
                "/api/dead-letters",
                "Commands that were set aside and timers that were suspended, in the order of the journal",
            )
            .of_site(Role::SuperAdministrator)
            .page()
            .with(dead_letters::KIND)
            .with(dead_letters::OPEN)
            .gives::<List<DeadLetterView>>(),
            dead_letters::list,
        )
        .add(
            Call::get("/api/dead-letters/{id}", "A dead letter, with the command as it was sent")
                .of_site(Role::SuperAdministrator)
                .fresh()
                .gives::<DeadLetterDetail>(),
            dead_letters::get,
        )
        .add(
            Call::post(
                "/api/dead-letters/{id}/redrive",
                "Sends the command again as a new one, or lets the job go on whose timer was suspended",
            )
            .of_site(Role::SuperAdministrator)
            .gives::<Redriven>(),
            dead_letters::redrive,
        )
}

/// The calls of operators: an unbound super administrator's key, or the operator's secret.
pub(crate) fn admin_calls() -> Calls {
    Calls::new()
        .add(
            Call::get("/api/admin", "What goes on, or went on last, in this instance")
                .of_site(Role::SuperAdministrator)
                .gives::<Option<OperationStatus>>(),
            admin::status,
        )
        .add(
            Call::post("/api/admin/rebuild", "Begins to rebuild the read tables; one at a time")
                .of_site(Role::SuperAdministrator)
                .gives::<OperationStatus>(),
            admin::rebuild,
        )
        .add(
            Call::post("/api/admin/verify", "Begins to compare the read tables; one at a time")
                .of_site(Role::SuperAdministrator)
                .gives::<OperationStatus>(),
            admin::verify,
        )
        .add(
            Call::post("/api/admin/keys", "Creates or replaces an application key, where all are lost")
                .of_site(Role::SuperAdministrator)
                .takes::<keys::KeyRequest>()
                .gives::<keys::KeyDefined>(),
            keys::define,
        )
        .add(
            Call::post("/api/admin/partitions/{partition}/set-time", "Sets a partition's clock")
                .of_site(Role::SuperAdministrator)
                .takes::<admin::SetTimeRequest>()
                .gives::<Written>(),
            admin::set_time,
        )
}

/// The calls of programs that run, with the key of their attempt.
pub(crate) fn attempt_calls() -> Calls {
    let summary = "The program of a running attempt says whether it has succeeded";
    Calls::new().add(
        Call::post("/api/attempts/{id}/code", summary)
            .attempt_key()
            .takes::<codes::CodeRequest>()
            .gives::<Written>(),
        codes::report,
    )
}

/// The calls that need no key.
pub(crate) fn open_calls() -> Calls {
    Calls::new()
        .add(Call::get("/healthz", "Whether the process lives"), open::healthz)
        .add(Call::get("/readyz", "Whether it can do its work"), open::readyz)
        .add(Call::get("/api/openapi.json", "This document"), open::openapi)
}
