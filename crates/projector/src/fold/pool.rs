//! Pools.

use tidemill_model::{CatalogueEvent, Event};
use tidemill_store::rows::PoolRow;

use super::{Caches, Place};

impl Caches {
    pub(super) fn apply_pool(&mut self, at: Place, event: &Event) {
        match event {
            Event::Catalogue(CatalogueEvent::PoolDefined { pool }) => {
                let spec = &pool.spec;
                self.pools.put(PoolRow {
                    name: spec.name.as_str().into(),
                    version: i64::from(pool.version),
                    slots: i64::from(spec.slots),
                    rate_starts: spec.rate.map(|rate| i64::from(rate.starts)),
                    rate_interval_s: spec.rate.map(|rate| i64::from(rate.interval_s)),
                    group_name: spec.group.as_ref().map(|group| group.as_str().into()),
                    comment: spec.comment.as_str().into(),
                    changed_at: at.now,
                });
            }
            Event::Catalogue(CatalogueEvent::PoolDeleted { name }) => {
                self.pools.remove((name.as_str().into(),))
            }
            other => unreachable!("{} is not about pools", other.kind()),
        }
    }
}
