//! What the catalogue sends, and whether the group shards got exactly that. A message is not an event of its
//! own: what the catalogue decides about a group or a job *is* the message to that group's shard.

mod lane;
mod reports;
mod says;
mod sends;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tidemill_model::{
    Calendar, CalendarName, GroupName, JobId, Pool, PoolName, Recorded, RerunId, ShardId, Template,
    TemplateName,
};

use self::lane::{Half, Lane};
use self::reports::Reports;
use self::says::says;
use crate::Invariant;
use crate::answers::{Answers, Kind};
use crate::at::At;
use crate::findings::Findings;
use crate::foreign::Foreign;
use crate::moves::Moves;
use crate::orphans::Orphans;
use crate::parents::Parents;
use crate::user_groups::UserGroups;

/// What groups' shards tell of their permits.
pub(crate) const PERMITS: Kind = Kind { rule: Invariant::PermitsAccountedFor, what: "report", on: "permits" };

/// All messages between shards.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    lanes: BTreeMap<(ShardId, ShardId), Lane>,
    groups: HashMap<GroupName, ShardId>,
    /// What a new group is told of the freeze of everything.
    frozen: Option<u64>,
    jobs: HashMap<JobId, ShardId>,
    reports: Reports,
    parents: Parents,
    orphans: Orphans,
    pub(crate) foreign: Foreign,
    pub(crate) permits: Answers,
    pub(crate) user_groups: UserGroups,
    pub(crate) moves: Moves,
    pools: BTreeMap<PoolName, Arc<Pool>>,
    templates: BTreeMap<TemplateName, Arc<Template>>,
    /// The calendars, and the shards that have them.
    calendars: HashMap<CalendarName, (Arc<Calendar>, BTreeSet<ShardId>)>,
    /// The shards of what reruns concern, and of their batches that were started and have not ended.
    reruns: HashMap<RerunId, (HashMap<JobId, ShardId>, Started)>,
}

/// Batches of a rerun that were started and have not ended, by their place in the plan.
type Started = BTreeMap<u32, ShardId>;

impl Messages {
    /// `messages_between_shards_once_in_order`: `fact` is what the receiver noted of the message.
    pub(crate) fn received(
        &mut self,
        at: &At<'_>,
        shard: ShardId,
        (from, number): (ShardId, u64),
        fact: Option<&Recorded>,
    ) {
        let lane = self.lanes.entry((from, shard)).or_default();
        if number != lane.received + 1 {
            let why = format!("message {number} from shard {from} after message {}", lane.received);
            at.breaks(Invariant::MessagesBetweenShardsOnceInOrder, why);
        }
        if number > lane.received {
            lane.received = number;
            let says = fact.and_then(|fact| says(&fact.event));
            lane.pair(number, Half { says, place: at.place() }, at);
        }
    }

    /// An acknowledgement moves on, and never beyond what was sent.
    pub(crate) fn acknowledged(&mut self, at: &At<'_>, shard: ShardId, (to, upto): (ShardId, u64)) {
        let lane = self.lanes.entry((shard, to)).or_default();
        let rule = Invariant::MessagesBetweenShardsOnceInOrder;
        if upto <= lane.acknowledged {
            at.breaks(rule, format!("acknowledged up to {upto} by shard {to}, after {}", lane.acknowledged));
        } else if shard == ShardId::CATALOGUE && upto > lane.sent {
            let why = format!("acknowledged up to {upto} by shard {to}, but only {} were sent", lane.sent);
            at.breaks(rule, why);
        }
        lane.acknowledged = lane.acknowledged.max(upto);
        lane.acknowledged_in = Some(at.place());
    }

    /// What only all partitions together show. `at_rest`: nothing is on its way any more.
    pub(crate) fn finish(&self, at_rest: bool, found: &Findings) {
        self.orphans.finish(&self.parents, found);
        self.foreign.finish(at_rest, found);
        self.permits.finish(PERMITS, at_rest, found);
        self.user_groups.finish(at_rest, found);
        self.moves.finish(at_rest, found);
        for ((from, to), lane) in &self.lanes {
            let rule = Invariant::MessagesBetweenShardsOnceInOrder;
            if let Some(place) = lane.acknowledged_in.filter(|_| lane.acknowledged > lane.received) {
                let why = format!(
                    "shard {to} acknowledged up to {}, and received up to {}",
                    lane.acknowledged, lane.received
                );
                found.breaks(rule, place, why);
            }
            let Some((number, half)) = lane.open.first_key_value() else { continue };
            if lane.received > lane.sent && *from == ShardId::CATALOGUE {
                let why =
                    format!("shard {to} received message {number} from shard {from}, which was not sent");
                found.breaks(rule, half.place, why);
            } else if at_rest && lane.sent > lane.received {
                let why = format!("message {number} of shard {from} has not reached shard {to}");
                found.breaks(rule, half.place, why);
            }
        }
    }
}
