//! What the catalogue sends, and whether the group shards got exactly that. A message is not an event of its
//! own: what the catalogue decides about a group or a job *is* the message to that group's shard.

mod says;
mod sends;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tidemill_model::{
    Calendar, CalendarName, GroupName, JobId, Pool, PoolName, Recorded, RerunId, ShardId, Template,
    TemplateName, Timestamp,
};

use self::says::says;
use crate::Invariant;
use crate::answers::{Answers, Kind};
use crate::findings::{At, Findings, Place};
use crate::foreign::Foreign;
use crate::moves::{self, Moves};
use crate::parents::Parents;
use crate::user_groups::{self, UserGroups};

/// What groups' shards tell of their permits.
pub(crate) const PERMITS: Kind = Kind { rule: Invariant::PermitsAccountedFor, what: "report", on: "permits" };

#[derive(Debug, Default)]
pub(crate) struct Messages {
    lanes: BTreeMap<(ShardId, ShardId), Lane>,
    groups: HashMap<GroupName, ShardId>,
    /// What a new group is told of the freeze of everything.
    frozen: Option<u64>,
    /// What a new group is told of the level.
    level: Option<u64>,
    jobs: HashMap<JobId, ShardId>,
    reports: Reports,
    parents: Parents,
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
        self.parents.finish(found);
        self.foreign.finish(at_rest, found);
        self.permits.finish(PERMITS, at_rest, found);
        self.user_groups.answers.finish(user_groups::KIND, at_rest, found);
        self.moves.answers.finish(moves::KIND, at_rest, found);
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

#[derive(Debug, Default)]
struct Lane {
    sent: u64,
    received: u64,
    acknowledged: u64,
    acknowledged_in: Option<Place>,
    /// Number → what was sent and where, until it is received; or the other way round.
    open: BTreeMap<u64, Half>,
}

#[derive(Debug, Clone, Copy)]
struct Half {
    /// What it says; `None`: the receiver had nothing to note.
    says: Option<u64>,
    place: Place,
}

impl Lane {
    /// The second of the two halves of a message must say what the first said.
    fn pair(&mut self, number: u64, half: Half, at: &At<'_>) {
        match self.open.remove(&number) {
            None => {
                self.open.insert(number, half);
            }
            Some(other) => {
                if let (Some(one), Some(two)) = (half.says, other.says)
                    && one != two
                {
                    let (partition, offset, event) = other.place;
                    let why = format!(
                        "message {number} differs from what stands at {partition}:{offset} event {event}"
                    );
                    at.breaks(Invariant::MessagesBetweenShardsOnceInOrder, why);
                }
            }
        }
    }
}

/// Reports in one message to a group.
const REPORTS_AT_ONCE: usize = 200;

/// Third parties' reports as the catalogue keeps them, and which groups hear of which codes.
#[derive(Debug, Default)]
struct Reports {
    ready: BTreeMap<(Arc<str>, Timestamp), Timestamp>,
    listeners: BTreeMap<Arc<str>, BTreeSet<ShardId>>,
}

impl Reports {
    /// How many messages tell a group of a code that it has not heard of yet.
    fn told_to(&mut self, code: &Arc<str>, to: ShardId) -> usize {
        if !self.listeners.entry(Arc::clone(code)).or_default().insert(to) {
            return 0;
        }
        let all = (Arc::clone(code), Timestamp::MIN)..=(Arc::clone(code), Timestamp::MAX);
        self.ready.range(all).count().div_ceil(REPORTS_AT_ONCE)
    }
}
