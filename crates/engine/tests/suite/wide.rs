//! Catalogues of extreme shape drain, in records that the log takes.

use crate::kit::{GROUP, Script, World, every, job};
use jiff::SignedDuration;
use serde_json::json;
use tidemill_engine::{MAX_DECISION_BYTES, MAX_ENVELOPE_BYTES};
use tidemill_model::{BatchEvent, Command, CommandRecord, Event, JobCommand, ShardId};

fn apply_all(world: &mut World, jobs: Vec<tidemill_model::JobSpec>) {
    for part in jobs.chunks(300) {
        let command = Command::Job(JobCommand::Apply {
            jobs: part.to_vec(),
            prune: Vec::new(),
            cancel: false,
            orphan_children: false,
        });
        world.send_record(CommandRecord {
            shard: ShardId::CATALOGUE,
            request: None,
            reply_to: None,
            actor: tidemill_model::Actor::default(),
            command,
        });
        world.run();
    }
}

fn finished(world: &mut World) -> usize {
    world.events().iter().filter(|event| matches!(event, Event::Batch(BatchEvent::Finished { .. }))).count()
}

/// Rule 1: one parent with 10,000 children, and one job that waits for all of 1,000 of them.
#[test]
fn a_fan_of_ten_thousand_drains() {
    let mut world = World::new();
    let mut jobs = vec![job("top", json!({"schedule": every("hour")}))];
    jobs.extend((0..10_000).map(|n| job(&format!("c{n}"), json!({"parents": ["top"]}))));
    apply_all(&mut world, jobs);
    let parents: Vec<String> = (0..1_000).map(|n| format!("c{n}")).collect();
    apply_all(&mut world, vec![job("last", json!({"parents": parents}))]);
    world.worker("w", 500, Script::Succeed);
    world.events();
    world.until("2026-07-01T11:01:00.000Z");
    assert_eq!(finished(&mut world), 10_002);
    assert_eq!(world.unfinished(), 0);
    assert!(world.largest < MAX_ENVELOPE_BYTES + MAX_DECISION_BYTES);
}

/// Rule 1: a chain of 1,000 jobs, each triggered by the one before it.
#[test]
fn a_chain_of_a_thousand_drains() {
    let mut world = World::new();
    let mut jobs = vec![job("c0", json!({"schedule": every("hour")}))];
    jobs.extend((1..1_000).map(|n| job(&format!("c{n}"), json!({"parents": [format!("c{}", n - 1)]}))));
    apply_all(&mut world, jobs);
    world.worker("w", 5, Script::Succeed);
    world.events();
    world.until("2026-07-01T11:01:00.000Z");
    assert_eq!(finished(&mut world), 1_000);
    assert_eq!(world.unfinished(), 0);
}

/// Rule 1: a batch that waits for as many logical times as can be declared still fits into a record, with
/// all of them met.
#[test]
fn a_batch_that_waits_for_two_thousand_times_fits() {
    let mut world = World::at("2026-07-01T10:00:30.000Z");
    let minute = json!({"cron": "0 * * * * ?", "zone": "UTC"});
    let parent =
        |n: usize| job(&format!("p{n}"), json!({"type": "anchor", "schedule": minute, "max_concurrent": 99}));
    let parents: Vec<_> = (0..33).map(|n| json!({"job": format!("p{n}"), "mapping": "all"})).collect();
    let child = job("child", json!({"schedule": every("hour"), "parents": parents}));
    apply_all(&mut world, (0..33).map(parent).collect());
    world.pass(SignedDuration::from_mins(1));
    apply_all(&mut world, vec![child]);
    for _ in 0..60 {
        world.pass(SignedDuration::from_mins(1));
    }
    assert_eq!(world.unfinished(), 1);
    world.worker("w", 1, Script::Succeed);
    assert_eq!(world.unfinished(), 0, "{}", world.told());
}

/// Rule 1: an outage of two days on many jobs is caught up with in many records, each in bounds.
#[test]
fn a_long_outage_is_caught_up_with_in_bounds() {
    let mut world = World::new();
    let jobs =
        (0..200).map(|n| job(&format!("j{n}"), json!({"schedule": every("hour"), "max_concurrent": 5})));
    apply_all(&mut world, jobs.collect());
    world.worker("w", 300, Script::Succeed);
    world.events();
    world.pass_minutes(48 * 60);
    assert_eq!(finished(&mut world), 200 * 48);
    assert_eq!(world.partition.group(GROUP).unwrap().unfinished_batches(), 0);
}
