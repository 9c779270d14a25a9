//! Calendars and their versions.

use tidemill_model::{CalendarSpec, Role};

use crate::call::{Call, Calls};
use crate::routes::{calendars, defined};
use crate::view::{CalendarDetail, CalendarVersionDetail, CalendarVersionView, CalendarView, List, Written};

pub(super) fn calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::get(
                "/api/calendars/{name}/versions",
                "The versions of a calendar, the newest first; those of a removed one, too",
            )
            .everybody(Role::Viewer)
            .page()
            .gives::<List<CalendarVersionView>>(),
            calendars::versions,
        )
        .add(
            Call::get("/api/calendars/{name}/versions/{version}", "One version of a calendar")
                .everybody(Role::Viewer)
                .fresh()
                .gives::<CalendarVersionDetail>(),
            calendars::version,
        )
        .add(
            Call::get("/api/calendars", "Calendars, by name")
                .everybody(Role::Viewer)
                .page()
                .gives::<List<CalendarView>>(),
            calendars::list,
        )
        .add(
            Call::post("/api/calendars", "Adds or changes a calendar")
                .settles()
                .of_site(Role::Administrator)
                .takes::<CalendarSpec>()
                .gives::<defined::Defined>(),
            calendars::define,
        )
        .add(
            Call::get("/api/calendars/{name}", "A calendar with its days, as it could have been written")
                .everybody(Role::Viewer)
                .fresh()
                .gives::<CalendarDetail>(),
            calendars::get,
        )
        .add(
            Call::delete("/api/calendars/{name}", "Removes a calendar that no job uses")
                .of_site(Role::Administrator)
                .gives::<Written>(),
            calendars::remove,
        )
}
