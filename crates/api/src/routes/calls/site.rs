//! What is of the whole site: calendars, pools, worker groups, keys, the public feed, the state of the service, dead letters,
//! and what needs no key.

use tidemill_model::{CalendarSpec, LevelState, Permission, PoolSpec};

use crate::call::{Call, Calls};
use crate::ports::{OperationStatus, RebuildRequest};
use crate::routes::defined::{self, Defined};
use crate::routes::hosts::DrainedHostView;
use crate::routes::{codes, dead_letters, events, groups, keys, level, me, pools, site};
use crate::view::{
    CalendarDetail, CalendarVersionDetail, CalendarVersionView, CalendarView, DeadLetterDetail,
    DeadLetterView, FreezeView, GroupView, KeyView, List, PoolDetail, PoolView, Redriven, WorkerView,
    Written,
};

pub(super) fn calendars_and_pools(calls: Calls) -> Calls {
    calls
        .add(
            Call::list::<CalendarVersionView>(
                "/api/calendars/{name}/versions",
                "The versions of a calendar, the newest first; those of a removed one, too",
            )
            .everybody(Permission::View),
            defined::calendar_versions,
        )
        .add(
            Call::one::<CalendarVersionDetail>(
                "/api/calendars/{name}/versions/{version}",
                "One version of a calendar",
            )
            .everybody(Permission::View),
            defined::calendar_version,
        )
        .add(
            Call::list::<CalendarView>("/api/calendars", "Calendars, by name").everybody(Permission::View),
            defined::calendars,
        )
        .add(
            Call::act("/api/calendars", "Adds or changes a calendar")
                .settles()
                .of_site(Permission::Administer)
                .takes::<CalendarSpec>()
                .gives::<Defined>(),
            defined::define_calendar,
        )
        .add(
            Call::one::<CalendarDetail>(
                "/api/calendars/{name}",
                "A calendar with its days, as it could have been written",
            )
            .everybody(Permission::View),
            defined::calendar,
        )
        .add(
            Call::remove("/api/calendars/{name}", "Removes a calendar that no job uses")
                .of_site(Permission::Administer),
            defined::remove_calendar,
        )
        .add(
            Call::list::<PoolView>("/api/pools", "Pools that batches of several jobs share, by name")
                .everybody(Permission::View),
            pools::list,
        )
        .add(
            Call::act("/api/pools", "Adds or changes a pool; what runs goes on")
                .settles()
                .of_group(Permission::Administer)
                .takes::<PoolSpec>()
                .gives::<Defined>(),
            pools::define,
        )
        .add(Call::one::<PoolDetail>("/api/pools/{name}", "A pool, and who has slots of it now"), pools::get)
        .add(
            Call::remove("/api/pools/{name}", "Removes a pool that no job uses")
                .of_group(Permission::Administer),
            pools::remove,
        )
}

/// Worker groups: their workers, their bounds, their freezes.
pub(super) fn groups(calls: Calls) -> Calls {
    workers(calls)
        .add(Call::one::<List<GroupView>>("/api/groups", "Worker groups, by number"), groups::list)
        .add(
            Call::act("/api/groups", "Creates a group, or changes its key and bounds")
                .settles()
                .of_site(Permission::Manage)
                .takes::<groups::GroupRequest>()
                .gives::<groups::GroupDefined>(),
            groups::define,
        )
        .add(Call::one::<List<FreezeView>>("/api/freezes", "What is frozen, by group"), groups::freezes)
        .add(
            Call::put("/api/freezes/{scope}", "Lets no batch beyond a logical time be assigned")
                .settles()
                .of_group(Permission::Operate)
                .takes::<groups::FreezeRequest>()
                .gives::<Written>(),
            groups::freeze,
        )
        .add(
            Call::remove("/api/freezes/{scope}", "Lifts a freeze")
                .named("liftFreeze")
                .settles()
                .with(groups::REASON),
            groups::lift,
        )
}

fn workers(calls: Calls) -> Calls {
    calls
        .add(
            Call::list::<WorkerView>("/api/workers", "Workers, by id")
                .with(groups::GROUP)
                .with(groups::STATE),
            groups::workers,
        )
        .add(
            Call::one::<groups::WorkerDetail>("/api/workers/{id}", "A worker, and how it stands with it now"),
            groups::worker,
        )
        .add(
            Call::act(
                "/api/workers/{id}/drain",
                "The worker's host takes no new work; also by the host's name",
            )
            .with(groups::GROUP)
            .with(groups::REASON),
            groups::drain,
        )
        .add(
            Call::act(
                "/api/workers/{id}/resume",
                "The worker's host takes work again; also by the host's name",
            )
            .with(groups::GROUP),
            groups::resume,
        )
        .add(
            Call::one::<List<DrainedHostView>>(
                "/api/drained-hosts",
                "Drained hosts, and what still runs there",
            )
            .with(groups::GROUP),
            groups::drained,
        )
        .add(
            Call::act(
                "/api/workers/{id}/vouch",
                "Nothing of the lost worker runs any more: what it held ends",
            )
            .named("vouchForWorker")
            .needing(Permission::DeclareDead)
            .takes::<groups::VouchRequest>(),
            groups::vouch,
        )
        .add(
            Call::act(
                "/api/workers/{id}/end-stray",
                "Ends an attempt of a lost life of the log that runs there",
            )
            .named("endStrayAttempt")
            .needing(Permission::DeclareDead)
            .takes::<groups::EndStrayRequest>(),
            groups::end_stray,
        )
}

pub(super) fn calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::one::<List<KeyView>>("/api/keys", "Application keys, by name").of_site(Permission::Manage),
            keys::list,
        )
        .add(
            Call::act("/api/keys", "Creates or replaces an application key")
                .of_site(Permission::Manage)
                .takes::<keys::KeyRequest>()
                .gives::<keys::KeyDefined>(),
            keys::define,
        )
        .add(
            Call::remove("/api/keys/{app}", "Ends an application key").of_site(Permission::Manage),
            keys::revoke,
        )
        .add(
            Call::get("/api/me/rights", "Who asks, and which calls that one may make, with the reason")
                .named("getMyRights")
                .everybody(Permission::View)
                .gives::<me::MyRights>(),
            me::rights,
        )
        .add(
            Call::get("/api/events", "The public feed, as server-sent events")
                .named("streamEvents")
                .of_group(Permission::View)
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
                .everybody(Permission::View)
                .gives::<site::StatusView>(),
            site::status,
        )
        .add(
            Call::get("/api/level", "The level of what is written, and which processes read how much")
                .everybody(Permission::View)
                .gives::<LevelState>(),
            level::get,
        )
        .add(
            Call::put(
                "/api/level/hold",
                "Keeps the level as it is, so that the older version can be gone back to",
            )
            .named("holdLevel")
            .of_site(Permission::Manage)
            .takes::<level::HoldRequest>()
            .gives::<Written>(),
            level::hold,
        )
        .add(
            Call::remove("/api/level/hold", "Lets the level be raised once every process reads the next one")
                .named("releaseLevel")
                .of_site(Permission::Manage)
                .with(groups::REASON),
            level::release,
        )
}

pub(super) fn dead_letter_calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::list::<DeadLetterView>(
                "/api/dead-letters",
                "Commands that were set aside and timers that were suspended, in the order of the journal",
            )
            .of_site(Permission::Manage)
            .with(dead_letters::KIND)
            .with(dead_letters::OPEN),
            dead_letters::list,
        )
        .add(
            Call::one::<DeadLetterDetail>(
                "/api/dead-letters/{id}",
                "A dead letter, with the command as it was sent",
            )
            .of_site(Permission::Manage),
            dead_letters::get,
        )
        .add(
            Call::act(
                "/api/dead-letters/{id}/redrive",
                "Sends the command again as a new one, or lets the job go on whose timer was suspended",
            )
            .of_site(Permission::Manage)
            .gives::<Redriven>(),
            dead_letters::redrive,
        )
}

/// The calls of operators: an unbound super administrator's key, or the operator's secret.
pub(crate) fn admin_calls() -> Calls {
    Calls::default()
        .add(
            Call::get("/api/admin", "What goes on, or went on last, in this instance")
                .named("getAdminOperation")
                .of_site(Permission::Manage)
                .gives::<Option<OperationStatus>>(),
            site::operation,
        )
        .add(
            Call::act("/api/admin/rebuild", "Begins to rebuild read tables or hints; one at a time")
                .named("rebuildTables")
                .of_site(Permission::Manage)
                .takes::<RebuildRequest>()
                .gives::<OperationStatus>(),
            site::rebuild,
        )
        .add(
            Call::act("/api/admin/verify", "Begins to compare the read tables; one at a time")
                .named("verifyTables")
                .of_site(Permission::Manage)
                .gives::<OperationStatus>(),
            site::verify,
        )
        .add(
            Call::act("/api/admin/keys", "Creates or replaces an application key, where all are lost")
                .named("defineKeyAsOperator")
                .of_site(Permission::Manage)
                .takes::<keys::KeyRequest>()
                .gives::<keys::KeyDefined>(),
            keys::define,
        )
        .add(
            Call::act("/api/admin/partitions/{partition}/set-time", "Sets a partition's clock")
                .named("setPartitionTime")
                .of_site(Permission::Manage)
                .takes::<site::SetTimeRequest>(),
            site::set_time,
        )
}

/// The calls of programs that run, with the key of their attempt.
pub(crate) fn attempt_calls() -> Calls {
    let summary = "The program of a running attempt says whether it has succeeded";
    Calls::default().add(
        Call::post("/api/attempts/{id}/code", summary)
            .named("reportAttemptCode")
            .attempt_key()
            .takes::<codes::CodeRequest>()
            .gives::<Written>(),
        codes::report,
    )
}

/// The calls that need no key.
pub(crate) fn open_calls() -> Calls {
    Calls::default()
        .add(Call::get("/healthz", "Whether the process lives").named("getHealth"), site::healthz)
        .add(Call::get("/readyz", "Whether it can do its work").named("getReadiness"), site::readyz)
        .add(Call::get("/api/openapi.json", "This document").named("getOpenApiDocument"), site::openapi)
}
