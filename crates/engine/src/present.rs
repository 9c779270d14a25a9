//! Questions about the present, which the state answers and no table does.

use tidemill_model::{LiveAnswer, LiveQuery, ShardId};

use crate::catalogue::Catalogue;
use crate::partition::Partition;

impl Partition {
    /// Answers a question about the present.
    pub fn answer(&self, shard: ShardId, query: &LiveQuery) -> LiveAnswer {
        match query {
            LiveQuery::PlanApply { .. } if !self.has(shard) => LiveAnswer::NotFound,
            LiveQuery::PlanApply { jobs, prune, by, orphan_children } => {
                let terms = (by.as_ref(), *orphan_children);
                let plan = |catalogue: &Catalogue| catalogue.plan(jobs, prune, terms, self.now());
                self.catalogue().map_or_else(|| plan(&Catalogue::default()), plan)
            }
            LiveQuery::CheckDirectory { revision, changes } if self.has(shard) => {
                let check = |catalogue: &Catalogue| match catalogue.check_directory(*revision, changes) {
                    Ok(_) => LiveAnswer::Acceptable,
                    Err(rejection) => LiveAnswer::Refused(rejection),
                };
                self.catalogue().map_or_else(|| check(&Catalogue::default()), check)
            }
            LiveQuery::CheckDirectory { .. } => LiveAnswer::NotFound,
            LiveQuery::Pool { name } if shard == ShardId::CATALOGUE => {
                self.catalogue().map_or(LiveAnswer::NotFound, |catalogue| catalogue.pool_holders(name))
            }
            LiveQuery::Notified { concerned, .. } => {
                self.catalogue().map_or(LiveAnswer::NotFound, |catalogue| catalogue.told(concerned))
            }
            LiveQuery::Level if !self.has(shard) => LiveAnswer::NotFound,
            LiveQuery::Level => {
                let state = self
                    .catalogue()
                    .map_or_else(|| Catalogue::default().level_state(), Catalogue::level_state);
                LiveAnswer::Level(Box::new(state))
            }
            LiveQuery::Why { .. }
            | LiveQuery::Mailboxes { .. }
            | LiveQuery::Pool { .. }
            | LiveQuery::TaskLedger { .. }
            | LiveQuery::User { .. }
            | LiveQuery::Worker { .. }
            | LiveQuery::NewestBatch { .. }
            | LiveQuery::WantedExternalDependencies { .. }
            | LiveQuery::WantedQuality { .. } => {
                self.group(shard).map_or(LiveAnswer::NotFound, |group| group.answer(query))
            }
        }
    }
}
