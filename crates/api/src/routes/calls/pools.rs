//! Pools that batches of several jobs share.

use tidemill_model::{PoolSpec, Role};

use crate::call::{Call, Calls};
use crate::routes::{defined, pools};
use crate::view::{List, PoolDetail, PoolView, Written};

pub(super) fn calls(calls: Calls) -> Calls {
    calls
        .add(
            Call::get("/api/pools", "Pools that batches of several jobs share, by name")
                .everybody(Role::Viewer)
                .page()
                .gives::<List<PoolView>>(),
            pools::list,
        )
        .add(
            Call::post("/api/pools", "Adds or changes a pool; what runs goes on")
                .settles()
                .of_group(Role::Administrator)
                .takes::<PoolSpec>()
                .gives::<defined::Defined>(),
            pools::define,
        )
        .add(
            Call::get("/api/pools/{name}", "A pool, and who has slots of it now")
                .of_group(Role::Viewer)
                .fresh()
                .gives::<PoolDetail>(),
            pools::get,
        )
        .add(
            Call::delete("/api/pools/{name}", "Removes a pool that no job uses")
                .of_group(Role::Administrator)
                .gives::<Written>(),
            pools::remove,
        )
}
