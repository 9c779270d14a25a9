//! What the catalogue sends, and whether the group shards got exactly that. A message is not an event of its
//! own: what the catalogue decides about a group or a job *is* the message to that group's shard.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tidemill_model::{
    ApplyEvent, BatchEvent, Calendar, CalendarName, CalendarUse, CatalogueEvent, DeletionEvent, Event,
    ForeignParent, FreezeScope, GroupName, JobDefinition, JobEvent, JobId, ObservationEvent, PermitEvent,
    Pool, PoolName, Recorded, ReplicationEvent, RerunEvent, RerunId, ShardId, Template, TemplateName,
    Timestamp, TransferEvent,
};

use crate::Invariant;
use crate::at::At;
use crate::findings::{Findings, Violation};
use crate::foreign::Foreign;
use crate::moves::Moves;
use crate::orphans::Orphans;
use crate::parents::Parents;
use crate::permits::PermitReports;
use crate::requests::fingerprint;
use crate::user_groups::{UserGroups, released};

/// Parents that one message tells of.
const PARENTS_OF_A_MESSAGE: usize = 50;

/// Where something stands: partition, offset, event.
pub(crate) type Place = (u32, u64, u32);

/// One direction between two shards.
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
    pub(crate) permits: PermitReports,
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

/// Third parties' reports as the catalogue keeps them, and which groups hear of which codes.
#[derive(Debug, Default)]
struct Reports {
    ready: BTreeMap<(Arc<str>, Timestamp), Timestamp>,
    listeners: BTreeMap<Arc<str>, BTreeSet<ShardId>>,
}

/// Reports in one message to a group.
const REPORTS_AT_ONCE: usize = 200;

impl Messages {
    /// Notes what an event of the catalogue sends. `None` of a job: it is not known where it runs.
    pub(crate) fn sends(&mut self, at: &At<'_>, event: &Event, found: &mut Findings) {
        self.moves.decided(at, event, (&self.jobs, &self.groups), found);
        match event {
            Event::Catalogue(CatalogueEvent::GroupDefined { name, shard, .. }) => {
                let is_new = self.groups.insert(name.clone(), *shard).is_none();
                self.send(at, *shard, says(event), found);
                if let Some(frozen) = self.frozen.filter(|_| is_new) {
                    self.send(at, *shard, Some(frozen), found);
                }
                let shared = self.pools.values().filter(|pool| is_new && pool.spec.group.is_none());
                for pool in shared.cloned().collect::<Vec<_>>() {
                    self.send(
                        at,
                        *shard,
                        says(&Event::Replication(ReplicationEvent::PoolReplicated { pool })),
                        found,
                    );
                }
                for template in self.templates.values().filter(|_| is_new).cloned().collect::<Vec<_>>() {
                    self.send(
                        at,
                        *shard,
                        says(&Event::Replication(ReplicationEvent::TemplateReplicated { template })),
                        found,
                    );
                }
            }
            Event::Job(JobEvent::Defined { definition, .. } | JobEvent::Moved { definition, .. }) => {
                let Some(to) = self.groups.get(&definition.spec.group).copied() else { return };
                let before = self.jobs.insert(definition.id, to);
                let is_moved = matches!(event, Event::Job(JobEvent::Moved { .. }));
                if let Some(from) = before.filter(|from| *from != to && !is_moved) {
                    self.send(at, from, says(&Event::Job(JobEvent::Deleted { job: definition.id })), found);
                }
                for parent in self.parents.of(definition.id).filter(|_| is_moved).collect::<Vec<_>>() {
                    let says =
                        self.orphans.named(parent, &self.parents).map(|name| parent_deleted(parent, name));
                    if says.is_some() {
                        self.send(at, to, says, found);
                    }
                }
                self.send_calendar_of(at, definition, to, found);
                self.parents.define(definition, to);
                if let Some(parents) = self.parents.named_by(definition.id) {
                    self.send_parents(at, to, &parents, found);
                }
                self.send(at, to, says(event), found);
                for code in &definition.spec.third_party {
                    for _ in 0..self.reports.told_to(&code.as_str().into(), to) {
                        self.send(at, to, None, found);
                    }
                }
                for (to, parents) in self.parents.changed_with(definition.id) {
                    self.send_parents(at, to, &parents, found);
                }
                for to in self.groups.values().copied().filter(|_| is_moved).collect::<BTreeSet<_>>() {
                    if let Some(parent) = self.parents.moved(definition.id, to) {
                        self.send(
                            at,
                            to,
                            says(&Event::Replication(ReplicationEvent::ParentsReplicated {
                                parents: vec![parent],
                            })),
                            found,
                        );
                    }
                }
            }
            Event::Job(JobEvent::MoveRequested { from, .. }) => self.send(at, *from, says(event), found),
            Event::Observation(ObservationEvent::ThirdPartyReported { report, .. }) => {
                let key = (Arc::clone(&report.code), report.logical_time);
                if report.ready {
                    self.reports.ready.insert(key, at.now);
                } else {
                    self.reports.ready.remove(&key);
                }
                for to in self.reports.listeners.get(&report.code).cloned().unwrap_or_default() {
                    self.send(at, to, None, found);
                }
            }
            Event::Observation(ObservationEvent::ThirdPartyEvicted { upto, .. }) => {
                self.reports.ready.retain(|_, at| *at > *upto)
            }
            Event::Observation(ObservationEvent::ProbesRequested { batch: None, .. }) => {
                let groups: BTreeSet<ShardId> = self.groups.values().copied().collect();
                for to in groups {
                    self.send(at, to, says(event), found);
                }
            }
            Event::Catalogue(CatalogueEvent::CalendarDefined { calendar }) => {
                let known = self.calendars.entry(calendar.spec.name.clone());
                let (newest, shards) = known.or_insert_with(|| (Arc::clone(calendar), BTreeSet::new()));
                *newest = Arc::clone(calendar);
                for to in shards.clone() {
                    self.send(at, to, says(event), found);
                }
            }
            Event::Catalogue(CatalogueEvent::CalendarDeleted { name }) => {
                let shards = self.calendars.remove(name).map(|(_, shards)| shards).unwrap_or_default();
                for to in shards {
                    self.send(at, to, says(event), found);
                }
            }
            Event::Catalogue(CatalogueEvent::PoolDefined { pool }) => {
                self.pools.insert(pool.spec.name.clone(), Arc::clone(pool));
                self.send_of_pool(at, pool, event, found);
            }
            Event::Catalogue(CatalogueEvent::PoolDeleted { name }) => {
                if let Some(pool) = self.pools.remove(name) {
                    self.send_of_pool(at, &pool, event, found);
                }
            }
            Event::Permit(PermitEvent::Granted { to, .. }) => self.send(at, *to, says(event), found),
            Event::Job(JobEvent::Enabled { job } | JobEvent::Disabled { job }) => {
                if let Some(to) = self.jobs.get(job).copied() {
                    self.send(at, to, says(event), found);
                }
            }
            Event::Job(JobEvent::ParentDeleted { parent, name, children }) => {
                self.orphans.recorded(at, (*parent, name, children), &self.parents, found);
                for of in children {
                    self.send(at, of.shard, says(event), found);
                }
            }
            Event::Job(JobEvent::Deleted { job }) => {
                self.orphans.deleted(at, *job);
                self.parents.forget(*job);
                if let Some(to) = self.jobs.remove(job) {
                    self.send(at, to, says(event), found);
                }
            }
            Event::Apply(ApplyEvent::Committed { .. } | ApplyEvent::Finished { .. }) => {
                self.orphans.applying(event)
            }
            Event::Deletion(DeletionEvent::UnfinishedQueried { jobs, .. }) => {
                let asked = jobs.iter().filter_map(|job| self.jobs.get(job).copied());
                for to in asked.collect::<BTreeSet<_>>() {
                    self.send(at, to, says(event), found);
                }
            }
            Event::Catalogue(
                CatalogueEvent::FreezeSet { group: Some(group), .. }
                | CatalogueEvent::FreezeLifted { group: Some(group), .. },
            ) => {
                if let Some(to) = self.groups.get(group).copied() {
                    self.send(at, to, says(event), found);
                }
            }
            Event::Catalogue(
                CatalogueEvent::FreezeSet { group: None, .. }
                | CatalogueEvent::FreezeLifted { group: None, .. },
            ) => {
                self.frozen = says(event)
                    .filter(|_| matches!(event, Event::Catalogue(CatalogueEvent::FreezeSet { .. })));
                for to in self.groups.values().copied().collect::<std::collections::BTreeSet<_>>() {
                    self.send(at, to, says(event), found);
                }
            }
            Event::Job(JobEvent::Cancelled { shard, .. }) => self.send(at, *shard, says(event), found),
            Event::Catalogue(
                CatalogueEvent::TemplateDefined { .. }
                | CatalogueEvent::TemplateDeleted { .. }
                | CatalogueEvent::UsersAssigned { .. }
                | CatalogueEvent::UserMoveRequested { .. }
                | CatalogueEvent::UserMoved { .. }
                | CatalogueEvent::UserMoveRejected { .. },
            ) => self.sends_of_pulls(at, event, found),
            event => self.sends_of_reruns(at, event, found),
        }
    }

    fn sends_of_pulls(&mut self, at: &At<'_>, event: &Event, found: &mut Findings) {
        self.user_groups.decided(at, event, &self.groups, found);
        match event {
            Event::Catalogue(CatalogueEvent::TemplateDefined { template }) => {
                self.templates.insert(template.spec.name.clone(), Arc::clone(template));
                self.send_all(at, event, found);
            }
            Event::Catalogue(CatalogueEvent::TemplateDeleted { name }) => {
                self.templates.remove(name);
                self.send_all(at, event, found);
            }
            Event::Catalogue(CatalogueEvent::UsersAssigned { shard, .. }) => {
                self.send(at, *shard, says(event), found)
            }
            Event::Catalogue(CatalogueEvent::UserMoveRequested { from, .. }) => {
                self.send(at, *from, says(event), found)
            }
            Event::Catalogue(CatalogueEvent::UserMoved { shard: Some(shard), .. }) => {
                self.send(at, *shard, says(event), found)
            }
            _ => {}
        }
    }

    fn send_all(&mut self, at: &At<'_>, event: &Event, found: &mut Findings) {
        let groups: BTreeSet<ShardId> = self.groups.values().copied().collect();
        for to in groups {
            self.send(at, to, says(event), found);
        }
    }

    fn sends_of_reruns(&mut self, at: &At<'_>, event: &Event, found: &mut Findings) {
        match event {
            Event::Rerun(RerunEvent::Requested { rerun, jobs, .. }) => {
                let shard = |job: &JobId| Some((*job, *self.jobs.get(job)?));
                let shards = jobs.iter().filter_map(|job| shard(&job.job)).collect();
                self.reruns.insert(*rerun, (shards, BTreeMap::new()));
            }
            Event::Rerun(RerunEvent::RunsQueried { shard, asked, .. }) if !asked.is_empty() => {
                self.send(at, *shard, says(event), found);
            }
            Event::Rerun(RerunEvent::RunsRequested { rerun, runs }) => {
                for run in runs {
                    let Some((shards, out)) = self.reruns.get_mut(rerun) else { return };
                    let Some(to) = shards.get(&run.job).copied() else { continue };
                    out.insert(run.number, to);
                    let turn = fingerprint(&("turn", rerun, run.number, run.job, run.logical_time));
                    self.send(at, to, Some(turn), found);
                }
            }
            Event::Rerun(RerunEvent::RunFinished { place, .. }) => {
                if let Some((_, out)) = self.reruns.get_mut(&place.rerun) {
                    out.remove(&place.number);
                }
            }
            Event::Rerun(RerunEvent::Cancelled { rerun, kill: true, .. }) => {
                let out = self.reruns.get(rerun).map(|(_, out)| out.clone()).unwrap_or_default();
                for to in out.into_values() {
                    self.send(at, to, None, found);
                }
            }
            Event::Rerun(RerunEvent::Finished { rerun, .. }) => {
                self.reruns.remove(rerun);
            }
            _ => {}
        }
    }

    fn send_parents(&mut self, at: &At<'_>, to: ShardId, parents: &[ForeignParent], found: &mut Findings) {
        for firing in parents.iter().filter_map(|parent| parent.firing.as_ref()) {
            self.send_calendar(at, firing.calendar.as_ref(), to, found);
        }
        for parents in parents.chunks(PARENTS_OF_A_MESSAGE) {
            let says =
                says(&Event::Replication(ReplicationEvent::ParentsReplicated { parents: parents.to_vec() }));
            self.send(at, to, says, found);
        }
    }

    /// A shard gets a calendar before the first job that uses it.
    fn send_calendar_of(
        &mut self,
        at: &At<'_>,
        definition: &JobDefinition,
        to: ShardId,
        found: &mut Findings,
    ) {
        self.send_calendar(at, definition.spec.calendar.as_ref(), to, found);
    }

    fn send_calendar(&mut self, at: &At<'_>, used: Option<&CalendarUse>, to: ShardId, found: &mut Findings) {
        let Some(used) = used else { return };
        let Some((calendar, shards)) = self.calendars.get_mut(&used.name) else { return };
        if shards.insert(to) {
            let calendar = Arc::clone(calendar);
            self.send(
                at,
                to,
                says(&Event::Replication(ReplicationEvent::CalendarReplicated { calendar })),
                found,
            );
        }
    }

    fn send_of_pool(&mut self, at: &At<'_>, pool: &Pool, event: &Event, found: &mut Findings) {
        let concerned =
            self.groups.iter().filter(|(name, _)| pool.spec.group.as_ref().is_none_or(|of| of == *name));
        for to in concerned.map(|(_, shard)| *shard).collect::<Vec<_>>() {
            self.send(at, to, says(event), found);
        }
    }

    fn send(&mut self, at: &At<'_>, to: ShardId, says: Option<u64>, found: &mut Findings) {
        let lane = self.lanes.entry((ShardId::CATALOGUE, to)).or_default();
        lane.sent += 1;
        let number = lane.sent;
        lane.pair(number, Half { says, place: place(at) }, at, found);
    }

    /// `messages_between_shards_once_in_order`: `fact` is what the receiver noted of the message.
    pub(crate) fn received(
        &mut self,
        at: &At<'_>,
        shard: ShardId,
        (from, number): (ShardId, u64),
        fact: Option<&Recorded>,
        found: &mut Findings,
    ) {
        let lane = self.lanes.entry((from, shard)).or_default();
        if number != lane.received + 1 {
            let why = format!("message {number} from shard {from} after message {}", lane.received);
            at.breaks(found, Invariant::MessagesBetweenShardsOnceInOrder, why);
        }
        if number > lane.received {
            lane.received = number;
            let says = fact.and_then(|fact| says(&fact.event));
            lane.pair(number, Half { says, place: place(at) }, at, found);
        }
    }

    /// An acknowledgement moves on, and never beyond what was sent.
    pub(crate) fn acknowledged(
        &mut self,
        at: &At<'_>,
        shard: ShardId,
        (to, upto): (ShardId, u64),
        found: &mut Findings,
    ) {
        let lane = self.lanes.entry((shard, to)).or_default();
        let rule = Invariant::MessagesBetweenShardsOnceInOrder;
        if upto <= lane.acknowledged {
            let why = format!("acknowledged up to {upto} by shard {to}, after {}", lane.acknowledged);
            at.breaks(found, rule, why);
        } else if shard == ShardId::CATALOGUE && upto > lane.sent {
            let why = format!("acknowledged up to {upto} by shard {to}, but only {} were sent", lane.sent);
            at.breaks(found, rule, why);
        }
        lane.acknowledged = lane.acknowledged.max(upto);
        lane.acknowledged_in = Some(place(at));
    }

    /// What only all partitions together show. `at_rest`: nothing is on its way any more.
    pub(crate) fn finish(&self, at_rest: bool, found: &mut Findings) {
        self.orphans.finish(&self.parents, found);
        self.foreign.finish(at_rest, found);
        self.permits.finish(at_rest, found);
        self.user_groups.finish(at_rest, found);
        self.moves.finish(at_rest, found);
        for ((from, to), lane) in &self.lanes {
            let rule = Invariant::MessagesBetweenShardsOnceInOrder;
            if let Some(place) = lane.acknowledged_in.filter(|_| lane.acknowledged > lane.received) {
                let why = format!(
                    "shard {to} acknowledged up to {}, and received up to {}",
                    lane.acknowledged, lane.received
                );
                found.violation(rule, violation(rule, place, why));
            }
            let Some((number, half)) = lane.open.first_key_value() else { continue };
            if lane.received > lane.sent && *from == ShardId::CATALOGUE {
                let why =
                    format!("shard {to} received message {number} from shard {from}, which was not sent");
                found.violation(rule, violation(rule, half.place, why));
            } else if at_rest && lane.sent > lane.received {
                let why = format!("message {number} of shard {from} has not reached shard {to}");
                found.violation(rule, violation(rule, half.place, why));
            }
        }
    }
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

impl Lane {
    /// The second of the two halves of a message must say what the first said.
    fn pair(&mut self, number: u64, half: Half, at: &At<'_>, found: &mut Findings) {
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
                    at.breaks(found, Invariant::MessagesBetweenShardsOnceInOrder, why);
                }
            }
        }
    }
}

/// What a message says, equal on both sides.
fn says(event: &Event) -> Option<u64> {
    let text = |definition: &tidemill_model::JobDefinition| serde_json::to_string(definition).ok();
    Some(match event {
        Event::Catalogue(CatalogueEvent::GroupDefined { group, name, worker_key, .. })
        | Event::Replication(ReplicationEvent::GroupReplicated { group, name, worker_key, .. }) => {
            fingerprint(&("group", group, name, worker_key))
        }
        Event::Job(JobEvent::Defined { definition, enabled, .. })
        | Event::Replication(ReplicationEvent::JobReplicated { definition, enabled, .. }) => {
            fingerprint(&("job", text(definition), enabled))
        }
        Event::Job(JobEvent::MoveRequested { job, .. })
        | Event::Transfer(
            TransferEvent::JobDetached { job, .. } | TransferEvent::JobDetachRejected { job, .. },
        ) => fingerprint(&("release job", job)),
        Event::Job(JobEvent::Moved { definition, enabled, moved, .. })
        | Event::Transfer(TransferEvent::JobAttached { definition, enabled, moved, .. }) => {
            fingerprint(&("take job", text(definition), enabled, serde_json::to_string(moved).ok()))
        }
        Event::Replication(ReplicationEvent::ParentsReplicated { parents }) => {
            fingerprint(&("parents", serde_json::to_string(parents).ok()))
        }
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
        Event::Job(JobEvent::Cancelled { job, .. })
        | Event::Replication(ReplicationEvent::CancellationReplicated { job, .. }) => {
            fingerprint(&("cancel", job))
        }
        _ => return None,
    })
}

fn parent_deleted(parent: JobId, name: &str) -> u64 {
    fingerprint(&("parent deleted", parent, name))
}

pub(crate) fn place(at: &At<'_>) -> Place {
    (at.partition, at.offset, at.index.unwrap_or(0))
}

pub(crate) fn violation(rule: Invariant, (partition, offset, event): Place, message: String) -> Violation {
    let (event, record) = (Some(event), String::new());
    Violation { invariant: rule.name(), partition, offset, event, message, record, contradicts: vec![] }
}
