//! What batches wait for outside: paths, the quality service, third parties.

use tidemill_model::Role;

use crate::call::{Call, Calls};
use crate::routes::external_dependencies;
use crate::view::{LateProbeView, List, ThirdPartyView, Written};

pub(super) fn calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::post("/api/batches/{id}/override",
                "Lets a batch run without some of its unmet conditions",
            )
            .of_group(Role::User)
            .takes::<external_dependencies::OverrideRequest>()
            .gives::<Written>(),
            external_dependencies::waive,
        )
        .add(
            Call::post("/api/batches/{id}/quality", "The quality service's word on a batch")
                .of_group(Role::User)
                .takes::<external_dependencies::QualityRequest>()
                .gives::<Written>(),
            external_dependencies::quality,
        )
        .add(
            Call::post("/api/third-party",
                "A third party says that something is ready, or is so no longer; kept for batches to come",
            )
            .of_site(Role::User)
            .takes::<tidemill_model::ThirdPartyReport>()
            .gives::<Written>(),
            external_dependencies::report,
        )
        .add(
            Call::get("/api/third-party",
                "What third parties said last, by code and logical time",
            )
            .everybody(Role::Viewer)
            .page().with(external_dependencies::CODE)
            .gives::<List<ThirdPartyView>>(),
            external_dependencies::reports,
        )
        .add(
            Call::post("/api/probes",
                "Probes the paths that a batch waits for at once; everything, with an administrator's key that is bound to no group",
            )
            .of_group(Role::User)
            .takes::<external_dependencies::ProbeRequest>()
            .gives::<Written>(),
            external_dependencies::probe_now,
        )
        .add(
            Call::get("/api/probes/late", "Checks of paths that fail or are late")
                .of_site(Role::Viewer)
                .fresh()
                .gives::<List<LateProbeView>>(),
            external_dependencies::late_probes,
        )
}
