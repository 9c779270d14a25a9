//! After the last heal: until everything works again, and until nothing is left to do.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use jiff::Timestamp;
use serde_json::{Value, json};
use tidemill_model::{
    AttemptEvent, BatchEvent, CatalogueEvent, Event, ExternalDependencyId, JobEvent, JobId, ObservationEvent,
    RerunEvent,
};

use crate::caller::Common;
use crate::fixture::Fixture;
use crate::journal::{Entry, Journal, What};
use crate::rest::Answer;
use crate::role::Part;

/// After healing, everything works again within this.
pub(crate) const BOUND: Duration = Duration::from_secs(30);
/// And nothing is left to do within this.
pub(crate) const DRAIN: Duration = Duration::from_secs(180);
/// Records that tables may be behind while clients work.
const LAG: u64 = 100;
const LOOK: Duration = Duration::from_millis(200);

/// Waits until everything works; gives how long that took, or what does not work after [`BOUND`].
pub(crate) fn recover(
    fixture: &Fixture,
    common: &Common,
    journal: &mut Journal,
) -> Result<Result<Duration, String>> {
    let begun_at = Instant::now();
    // A name that was used before would get the answer of then.
    let now = Timestamp::now().as_millisecond();
    let probes = (0..).map(|number| format!("probe-{now}-{number}"));
    for probe in probes {
        let missing = match missing(fixture, common, journal)? {
            None => probe_failed(common, journal, &probe, begun_at)?,
            missing => missing,
        };
        let Some(missing) = missing else { return Ok(Ok(begun_at.elapsed())) };
        if begun_at.elapsed() > BOUND {
            return Ok(Err(format!("{BOUND:?} after the last heal: {missing}")));
        }
        thread::sleep(LOOK);
    }
    unreachable!("there is always another probe")
}

/// What does not work, if anything.
fn missing(fixture: &Fixture, common: &Common, journal: &mut Journal) -> Result<Option<String>> {
    if let Some(role) = fixture.roles.iter().find(|role| !role.is_running()) {
        return Ok(Some(format!("{} does not run", role.name)));
    }
    journal.catch_up()?;
    for (partition, owner) in journal.owners().into_iter().enumerate() {
        let lives = |address: &String| fixture.of_part(Part::Dispatcher).any(|role| role.address == *address);
        if !owner.as_ref().is_some_and(lives) {
            return Ok(Some(format!("partition {partition} has no owner")));
        }
    }
    for (interface, role) in common.interfaces.iter().zip(fixture.of_part(Part::Api)) {
        let ready = interface.get("/readyz");
        if !matches!(ready, Answer::Ok(_)) {
            return Ok(Some(format!("{} is not ready: {ready:?}", role.name)));
        }
    }
    let Some(interface) = common.interfaces.first() else { bail!("there is no interface") };
    let Answer::Ok(workers) = interface.get("/api/workers?state=live&limit=100") else {
        return Ok(Some("workers cannot be listed".to_owned()));
    };
    let live = |name: &str| items(&workers).iter().any(|worker| worker["host"] == name);
    if let Some(role) = fixture.of_part(Part::Executor).find(|role| !live(&role.name)) {
        return Ok(Some(format!("{} is not registered, or lost", role.name)));
    }
    let status = interface.get("/api/status");
    let Answer::Ok(status) = status else { return Ok(Some(format!("there is no status: {status:?}"))) };
    let lags = status["partitions"].as_array().into_iter().flatten().map(|it| it["lag_records"].as_u64());
    let lag = lags.map(|lag| lag.unwrap_or(u64::MAX)).max().unwrap_or(u64::MAX);
    Ok((lag > LAG).then(|| format!("tables are {lag} records behind")))
}

pub(crate) fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A request is granted, and done.
fn probe_failed(
    common: &Common,
    journal: &mut Journal,
    probe: &str,
    begun_at: Instant,
) -> Result<Option<String>> {
    let Some(interface) = common.interfaces.last() else { bail!("there is no interface") };
    let job = common.jobs.get("beta/quick").copied().unwrap_or_default();
    let answer = interface.post(&format!("/api/jobs/{job}/run"), probe, &json!({"concurrent": true}));
    let Answer::Ok(answer) = answer else { return Ok(Some(format!("a request is not granted: {answer:?}"))) };
    let mut is_done = false;
    while !is_done && begun_at.elapsed() < BOUND {
        journal.catch_up()?;
        is_done = events(journal.entries())
            .any(|event| matches!(event, Event::Batch(BatchEvent::Finished { batch, .. }) if answer["batch"] == batch.0));
        thread::sleep(LOOK);
    }
    Ok((!is_done).then(|| format!("a batch is not done: {answer}")))
}

/// All events, partition by partition in order.
pub(crate) fn events(entries: &[Entry]) -> impl Iterator<Item = &Event> {
    let envelopes = entries.iter().filter_map(|entry| match &entry.what {
        What::Envelope(envelope) => Some(envelope),
        What::Claim(_) | What::Left | What::Genesis => None,
    });
    envelopes.flat_map(|envelope| &envelope.events).map(|recorded| &recorded.event)
}

/// A batch that has not ended.
struct Open {
    job: JobId,
    unmet: u32,
    /// What it waits for outside.
    external_dependencies: Vec<ExternalDependencyId>,
    /// A worker has it.
    is_held: bool,
    /// Something of it goes on, or will by itself: no batch of a job that is switched off is assigned.
    moves: bool,
}

fn open_batches(entries: &[Entry]) -> BTreeMap<i64, Open> {
    let mut open: BTreeMap<i64, Open> = BTreeMap::new();
    let (mut off, mut there) = (BTreeSet::new(), BTreeSet::new());
    for event in events(entries) {
        match event {
            Event::Job(JobEvent::Disabled { job }) => {
                off.insert(*job);
            }
            Event::Job(JobEvent::Enabled { job }) => {
                off.remove(job);
            }
            Event::Observation(ObservationEvent::ExternalDependencySatisfied {
                external_dependency, ..
            }) => {
                there.insert(*external_dependency);
            }
            Event::Observation(ObservationEvent::ExternalDependencyRevoked {
                external_dependency, ..
            }) => {
                there.remove(external_dependency);
            }
            Event::Batch(BatchEvent::Generated {
                batch, job, dependencies, external_dependencies, ..
            }) => {
                let unmet = dependencies.iter().filter(|it| !it.is_satisfied(it.met.len())).count();
                let unmet = u32::try_from(unmet).unwrap_or(u32::MAX);
                let external_dependencies = external_dependencies.clone();
                open.insert(
                    batch.0,
                    Open { job: *job, unmet, external_dependencies, is_held: false, moves: false },
                );
            }
            Event::Batch(
                BatchEvent::DependencySatisfied { batch, unmet, .. }
                | BatchEvent::DependencyRevoked { batch, unmet, .. },
            ) => {
                if let Some(open) = open.get_mut(&batch.0) {
                    open.unmet = *unmet;
                }
            }
            Event::Batch(
                BatchEvent::Assigned { batch, .. } | BatchEvent::AssignmentReturned { batch, .. },
            )
            | Event::Attempt(AttemptEvent::Finished { batch, .. }) => {
                if let Some(open) = open.get_mut(&batch.0) {
                    open.is_held = matches!(event, Event::Batch(BatchEvent::Assigned { .. }));
                }
            }
            Event::Batch(BatchEvent::Finished { batch, .. }) => {
                open.remove(&batch.0);
            }
            _ => {}
        }
    }
    for open in open.values_mut() {
        let is_met = open.unmet == 0
            && open
                .external_dependencies
                .iter()
                .all(|external_dependency| there.contains(external_dependency));
        open.moves = is_met && (open.is_held || !off.contains(&open.job));
    }
    open
}

/// Users who cannot pull within [`BOUND`].
pub(crate) fn cannot_pull(common: &Common, users: impl Iterator<Item = String>) -> Vec<String> {
    let begun_at = Instant::now();
    let refused = |user: &String| loop {
        let mut answers =
            common.interfaces.iter().map(|it| it.post("/api/pull", "pull", &json!({"user": user})));
        let refused = answers.find(|answer| !matches!(answer, Answer::Ok(_)))?;
        if begun_at.elapsed() > BOUND {
            return Some(format!("{user} cannot pull: {refused:?}"));
        }
        thread::sleep(LOOK);
    };
    users.filter_map(|user| refused(&user)).collect()
}

/// Plans and moves that have not ended.
fn under_way(entries: &[Entry]) -> BTreeSet<String> {
    let mut under_way = BTreeSet::new();
    for event in events(entries) {
        match event {
            Event::Rerun(RerunEvent::Requested { rerun, .. }) => {
                under_way.insert(format!("rerun {rerun}"));
            }
            Event::Rerun(RerunEvent::Finished { rerun, .. }) => {
                under_way.remove(&format!("rerun {rerun}"));
            }
            Event::Catalogue(CatalogueEvent::UserMoveRequested { user, .. }) => {
                under_way.insert(format!("move of {user}"));
            }
            Event::Catalogue(
                CatalogueEvent::UserMoved { user, .. } | CatalogueEvent::UserMoveRejected { user, .. },
            ) => {
                under_way.remove(&format!("move of {user}"));
            }
            _ => {}
        }
    }
    under_way
}

/// Waits until every batch, plan and move has ended. A batch that only waits for a parent that will not succeed any more, or
/// whose job is switched off, is killed. Gives how long it took, or what is left after [`DRAIN`].
pub(crate) fn drain(common: &Common, journal: &mut Journal) -> Result<Result<Duration, String>> {
    let begun_at = Instant::now();
    let mut looks_stuck = 0;
    let mut kills = 0_u32;
    loop {
        journal.catch_up()?;
        let open = open_batches(journal.entries());
        let under_way = under_way(journal.entries());
        if open.is_empty() && under_way.is_empty() {
            return Ok(Ok(begun_at.elapsed()));
        }
        if begun_at.elapsed() > DRAIN {
            let some: Vec<_> = open.keys().take(20).collect();
            return Ok(Err(format!(
                "{DRAIN:?} after the workload's end {} batches go on: {some:?}; and {under_way:?}",
                open.len()
            )));
        }
        looks_stuck = if open.values().any(|open| open.moves) { 0 } else { looks_stuck + 1 };
        // A child's word of its parent may still be on its way between two shards.
        if looks_stuck > 20 {
            looks_stuck = 0;
            for batch in open.keys() {
                kills += 1;
                let Some(interface) = common.interfaces.first() else { bail!("there is no interface") };
                let body = json!({"reason": "nothing of it goes on"});
                let key = format!("drain-{kills}");
                // Where this is refused or lost, the next round asks again.
                let _ = interface.post(&format!("/api/batches/{batch}/kill"), &key, &body);
            }
        }
        thread::sleep(LOOK);
    }
}
