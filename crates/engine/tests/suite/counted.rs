//! DEP-3: a job with very many parents at its batches' own logical time. Neither a record nor the state lists them.

use std::collections::BTreeMap;

use crate::kit::{GROUP, START, Script, World, at, every, job, rejection};
use expect_test::expect;
use serde_json::{Value, json};
use tidemill_engine::{FaultInjection, MAX_DECISION_BYTES, MAX_ENVELOPE_BYTES};
use tidemill_model::{
    BatchCommand, BatchEvent, BatchId, Command, Event, GroupSettings, JobCommand, JobId, JobSpec,
    OverriddenResult, ShardId, Timestamp, Waiver, WorkerId,
};

const ELEVEN: &str = "2026-07-01T11:00:00.000Z";

fn listing(listed_parents: usize) -> World {
    let fault_injection =
        FaultInjection { listed_parents: Some(listed_parents), ..FaultInjection::default() };
    World::fault_injected(START, GroupSettings::default(), fault_injection)
}

/// `count` hourly parents p0 … and what waits for all of them.
fn family(count: usize, child: Value) -> (World, Vec<JobId>) {
    let mut world = World::new();
    let mut jobs: Vec<JobSpec> =
        (0..count).map(|n| job(&format!("p{n}"), json!({"schedule": every("hour")}))).collect();
    let names: Vec<String> = (0..count).map(|n| format!("p{n}")).collect();
    let mut more = json!({"schedule": every("hour"), "parents": names});
    more.as_object_mut().unwrap().extend(child.as_object().unwrap().clone());
    jobs.push(job("c", more));
    let ids = world.define(jobs);
    (world, ids)
}

fn override_(world: &mut World, batch: BatchId, what: Waiver) {
    let reason = "it is late".to_owned();
    world.ask(GROUP, Command::Batch(BatchCommand::OverrideDependency { batch, what, reason }));
}

/// DEP-3, DEP-8: 100 parents are counted; `why` names some and says how many more there are; the child runs once the last
/// has succeeded, and not before; one that runs again takes it back.
#[test]
fn many_parents_are_counted_and_all_waited_for() {
    let (mut world, ids) = family(100, json!({"host": "host-idle"}));
    let child = BatchId::mint(101, GROUP);
    let worker = world.worker("w", 99, Script::Succeed);
    world.played(&worker).script = Script::Silent;
    world.until("2026-07-01T11:01:00.000Z");
    let generated = world.events().into_iter().find_map(|event| match event {
        Event::Batch(BatchEvent::Generated { batch, dependencies, counted_parents, .. })
            if batch == child =>
        {
            Some((dependencies.len(), counted_parents.map(|it| (it.parents, it.unmet))))
        }
        _ => None,
    });
    assert_eq!(generated, Some((0, Some((100, 100)))));
    let why = world.why(child);
    assert_eq!(why.len(), 51);
    assert!(
        why[0].message.starts_with("waits for g/p0 of 2026-07-01T11:00:00.000Z: batch"),
        "{}",
        why[0].message
    );
    assert_eq!(why[50].message, "waits for 50 more of its parents of 2026-07-01T11:00:00.000Z, 100 in all");
    for (n, parent) in ids[..100].iter().enumerate() {
        world.ask(
            GROUP,
            Command::Batch(BatchCommand::OverrideResult {
                batch: BatchId::mint(n as u64 + 1, GROUP),
                job: *parent,
                logical_time: at(ELEVEN),
                result: OverriddenResult::Success,
                reason: "loaded by hand".to_owned(),
                run: None,
            }),
        );
        let is_last = n == 99;
        assert_eq!(world.why_kinds(child).contains(&"dependency".to_owned()), !is_last, "{n}");
    }
    world.events();
    world.worker("idle", 1, Script::Silent);
    assert!(world.told().contains("b101 assigned"));
    world.rerun(BatchId::mint(1, GROUP), ids[0], ELEVEN);
    let told = world.told();
    assert!(told.contains("b101 withdrawn p0 2026-07-01 11:00, unmet 1"), "{told}");
    assert!(told.contains("b101 returned"), "{told}");
    assert_eq!(world.folded(), world.partition);
}

/// DEP-7: a batch runs without all of its counted parents, on record in few bytes; or without one of them.
#[test]
fn counted_parents_are_waived() {
    let (mut world, ids) = family(100, json!({}));
    let child = BatchId::mint(101, GROUP);
    world.until("2026-07-01T11:01:00.000Z");
    world.events();
    override_(&mut world, child, Waiver::Parent { job: ids[7], logical_time: None });
    override_(&mut world, child, Waiver::All);
    expect![[r#"
        b101 runs without p7, unmet 99: it is late
        b101 runs without counted parents, unmet 0: it is late
    "#]]
    .assert_eq(&world.told());
    assert!(!world.why_kinds(child).contains(&"dependency".to_owned()));
    assert_eq!(world.folded(), world.partition);
}

/// BYD-18: a rule for failed parents holds for counted ones: the first that failed is named.
#[test]
fn rules_for_failed_parents_hold() {
    for (rule, expected) in [
        (json!({"on_parent_failure": "fail"}), "b101 finished failed"),
        (json!({"on_parent_failure": "skip"}), "b101 finished skipped"),
        (json!({"run_if": "failure"}), "b101 assigned"),
    ] {
        let (mut world, _) = family(100, rule.clone());
        world.worker("w", 200, Script::Fail);
        world.until("2026-07-01T11:01:00.000Z");
        let told = world.told();
        assert!(told.contains(expected), "{rule}: {told}");
        assert_eq!(world.folded(), world.partition);
    }
}

/// JOB-6: what every batch would have to list stays bounded, and is refused with the reason.
#[test]
fn what_batches_list_is_bounded() {
    let mut world = World::new();
    let parents: Vec<JobSpec> =
        (0..1_001).map(|n| job(&format!("p{n}"), json!({"schedule": every("hour")}))).collect();
    for part in parents.chunks(300) {
        world.define(part.to_vec());
    }
    let listed: Vec<Value> =
        (0..1_001).map(|n| json!({"job": format!("p{n}"), "mapping": "latest"})).collect();
    let refused = world.apply(vec![job("c", json!({"schedule": every("hour"), "parents": listed}))]);
    expect![[r#"invalid: jobs[0].parents[1000]: "p1000": is one more than 1000 parents that are in other groups or have another mapping than same, each of which every batch lists; put jobs between them"#]]
    .assert_eq(rejection(&refused).trim_end());
    let counted: Vec<String> = (0..1_001).map(|n| format!("p{n}")).collect();
    world.define(vec![job("c", json!({"schedule": every("hour"), "parents": counted}))]);
}

/// Rule 1, JOB-6: a job with 20,000 parents is defined, waits for all of them and runs, each record in bounds and that of
/// its batch small.
#[test]
fn a_job_with_twenty_thousand_parents_drains() {
    let mut world = World::new();
    let mut jobs = vec![job("top", json!({"type": "anchor", "schedule": every("hour")}))];
    jobs.extend((0..20_000).map(|n| job(&format!("p{n}"), json!({"type": "anchor", "parents": ["top"]}))));
    let names: Vec<String> = (0..20_000).map(|n| format!("p{n}")).collect();
    for part in jobs.chunks(300) {
        world.define(part.to_vec());
    }
    world.define(vec![job("last", json!({"type": "anchor", "parents": names}))]);
    world.until("2026-07-01T11:01:00.000Z");
    let events = world.events();
    let last = events.iter().filter(|event| match event {
        Event::Batch(BatchEvent::Generated { counted_parents: Some(counted), .. }) => {
            assert_eq!(counted.parents, 20_000);
            let bytes = serde_json::to_vec(event).unwrap().len();
            assert!(bytes < 400, "{bytes} bytes");
            true
        }
        _ => false,
    });
    assert_eq!(last.count(), 1);
    assert_eq!(
        events.iter().filter(|event| matches!(event, Event::Batch(BatchEvent::Finished { .. }))).count(),
        20_002
    );
    assert_eq!(world.unfinished(), 0);
    assert!(world.largest < MAX_ENVELOPE_BYTES + MAX_DECISION_BYTES);
}

/// A small generator of numbers (splitmix64), so that a seed means the same for ever.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

/// One history of a seed: the same requests, whatever is listed.
struct History {
    world: World,
    rng: Random,
    jobs: Vec<JobId>,
    workers: Vec<WorkerId>,
    /// Every batch so far, with its job and logical time.
    batches: Vec<(BatchId, JobId, Timestamp)>,
    told: Vec<Event>,
}

impl History {
    fn new(seed: u64, listed_parents: usize) -> Self {
        let (world, rng) = (listing(listed_parents), Random(seed));
        let mut history =
            Self { world, rng, jobs: Vec::new(), workers: Vec::new(), batches: Vec::new(), told: Vec::new() };
        history.world.define_group("h", GroupSettings::default());
        history.define();
        for name in ["v", "w"] {
            let slots = 1 + history.rng.below(4) as u32;
            history.workers.push(history.world.worker(name, slots, Script::Succeed));
        }
        history
    }

    /// Four parents, and children of some of them, by schedule and without, with every rule for failed parents.
    fn define(&mut self) {
        let hour = every("hour");
        let mut jobs: Vec<JobSpec> = (0..4)
            .map(|n| {
                let kind = ["noop", "noop", "anchor", "noop"][n];
                let overlap = ["queue", "skip"][self.rng.below(2)];
                job(
                    &format!("p{n}"),
                    json!({"type": kind, "schedule": hour, "retries": self.rng.below(2), "overlap": overlap}),
                )
            })
            .collect();
        jobs.push(job("far", json!({"group": "h", "schedule": hour})));
        let rules = [
            json!({}),
            json!({"on_parent_failure": "fail"}),
            json!({"on_parent_failure": "skip"}),
            json!({"on_parent_failure": "run"}),
            json!({"run_if": "failure"}),
        ];
        for n in 0..5 {
            let mut parents: Vec<Value> =
                (0..4).filter(|_| self.rng.below(4) > 0).map(|p| json!(format!("p{p}"))).collect();
            parents.push(json!("p0"));
            parents.dedup_by(|a, b| a == b);
            parents.sort_by_key(ToString::to_string);
            parents.dedup();
            if self.rng.below(3) == 0 {
                parents.insert(1, json!("h/far"));
            }
            let is_scheduled = self.rng.below(2) == 0;
            if is_scheduled && self.rng.below(2) == 0 {
                parents.push(json!({"job": "daily", "mapping": "latest"}));
            }
            let mut more = json!({"parents": parents, "depends_on_past": self.rng.below(4) == 0});
            if is_scheduled {
                more["schedule"] = hour.clone();
            }
            more.as_object_mut().unwrap().extend(rules[self.rng.below(5)].as_object().unwrap().clone());
            jobs.push(job(&format!("c{n}"), more));
        }
        jobs.push(job("daily", json!({"schedule": every("day")})));
        jobs.push(job("last", json!({"parents": ["c0", "c1"], "schedule": hour})));
        self.jobs = match self.world.apply(jobs) {
            tidemill_model::Outcome::Answered(tidemill_model::Answer::Applied { changes, .. }) => {
                changes.into_iter().map(|change| change.job).collect()
            }
            other => panic!("{}", rejection(&other)),
        };
    }

    fn step(&mut self) {
        let pick = self.rng.below(14);
        let (batch, job, logical_time) = match self.batches.len() {
            0 => (BatchId::mint(1, GROUP), self.jobs[0], at(ELEVEN)),
            len => self.batches[len - 1 - self.rng.below(len.min(24))],
        };
        let of_far = job.shard() != ShardId::CATALOGUE || batch.shard() != GROUP;
        match pick {
            0..=2 => self.world.pass_minutes(20),
            3 => self.world.pass_minutes(61),
            4 => {
                let worker = self.workers[self.rng.below(2)].clone();
                let scripts = [Script::Succeed, Script::Fail, Script::Run, Script::Silent];
                self.world.played(&worker).script = scripts[self.rng.below(4)];
            }
            5 | 6 if !of_far => {
                self.world.ask(
                    GROUP,
                    Command::Batch(BatchCommand::Rerun { batch, job, logical_time, recorded: None }),
                );
            }
            7 if !of_far => {
                let result = [OverriddenResult::Success, OverriddenResult::Failed, OverriddenResult::Skipped]
                    [self.rng.below(3)];
                let reason = "so it is".to_owned();
                self.world.ask(
                    GROUP,
                    Command::Batch(BatchCommand::OverrideResult {
                        batch,
                        job,
                        logical_time,
                        result,
                        reason,
                        run: None,
                    }),
                );
            }
            8 if !of_far => {
                self.world.kill(batch);
            }
            9 if !of_far => {
                let job = self.jobs[self.rng.below(4)];
                let what = match self.rng.below(3) {
                    0 => Waiver::All,
                    _ => Waiver::Parent { job, logical_time: None },
                };
                override_(&mut self.world, batch, what);
            }
            10 => {
                let job = self.jobs[self.rng.below(self.jobs.len())];
                self.world.run_job(job, None);
            }
            11 | 12 => {
                // Children wait for what a disabled parent owes; what it skipped is left out.
                let (job, enabled) = (self.jobs[self.rng.below(4)], pick == 12);
                self.world.ask(ShardId::CATALOGUE, Command::Job(JobCommand::Switch { job, enabled }));
            }
            13 => {
                let worker = self.workers[self.rng.below(2)].clone();
                self.world.lost(&worker);
            }
            _ => {}
        }
        for event in self.world.events() {
            if let Event::Batch(BatchEvent::Generated { batch, job, logical_time, .. }) = &event {
                self.batches.push((*batch, *job, *logical_time));
            }
            self.told.push(event);
        }
    }
}

/// What a batch is told to wait for, whether it is listed or counted.
fn alike(event: &Event) -> Event {
    let mut event = event.clone();
    if let Event::Batch(BatchEvent::Generated { dependencies, counted_parents, .. }) = &mut event {
        dependencies.clear();
        *counted_parents = None;
    }
    event
}

/// DEP-3: whether parents are listed or counted changes what the batch's record says, and nothing that is decided: every
/// history has the same events in the same order, and the same answers why a batch waits.
#[test]
fn listed_and_counted_parents_are_decided_alike() {
    let (mut counted, mut left_out) = (0, 0);
    let mut kinds: BTreeMap<&'static str, usize> = BTreeMap::new();
    for seed in 0..40 {
        let (mut listing, mut counting) = (History::new(seed, usize::MAX), History::new(seed, 0));
        for step in 0..120 {
            listing.step();
            counting.step();
            let (left, right) = (&listing.told, &counting.told);
            for (left, right) in left.iter().zip(right) {
                assert_eq!(alike(left), alike(right), "seed {seed}, step {step}");
                *kinds.entry(left.kind()).or_default() += 1;
                left_out += usize::from(matches!(
                    left,
                    Event::Batch(BatchEvent::DependencySatisfied { left_out: true, .. })
                ));
            }
            assert_eq!(left.len(), right.len(), "seed {seed}, step {step}");
            counted += right
                .iter()
                .filter(|event| {
                    matches!(event, Event::Batch(BatchEvent::Generated { counted_parents: Some(_), .. }))
                })
                .count();
            listing.told.clear();
            counting.told.clear();
            for (batch, ..) in
                listing.batches.iter().rev().take(12).filter(|(batch, ..)| batch.shard() == GROUP)
            {
                let why = |world: &World| {
                    let mut why: Vec<String> = match world
                        .partition
                        .answer(GROUP, &tidemill_model::LiveQuery::Why { batch: *batch })
                    {
                        tidemill_model::LiveAnswer::Why(why) => {
                            why.conditions.into_iter().map(|condition| condition.message).collect()
                        }
                        _ => Vec::new(),
                    };
                    why.sort();
                    why
                };
                assert_eq!(why(&listing.world), why(&counting.world), "seed {seed}, step {step}");
            }
        }
        assert_eq!(counting.world.folded(), counting.world.partition, "seed {seed}");
    }
    assert!(counted > 1_000 && left_out > 10, "{counted} counted, {left_out} left out");
    for kind in [
        "dependency.satisfied",
        "dependency.revoked",
        "dependency.overridden",
        "assignment.returned",
        "batch.result_overridden",
        "history.evicted",
    ] {
        assert!(kinds.contains_key(kind), "no {kind} in {kinds:?}");
    }
}
