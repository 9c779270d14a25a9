//! Commands that anybody may append, and journals that nobody should have written: neither makes the engine
//! panic, and what it decides folds to what it holds.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod kit;

use kit::{GROUP, Script, World, every, job};
use serde_json::{Value, json};
use tidemill_corpus::corpus;
use tidemill_engine::{Draft, Partition, effects};
use tidemill_model::{CommandRecord, Envelope, LiveQuery};

/// A partition with jobs, a parent, a batch that runs, one that waits, and one that has failed.
fn lived() -> World {
    let mut world = World::new();
    let jobs = world.define(vec![
        job("a", json!({"schedule": every("hour"), "retries": 1})),
        job("b", json!({"parents": ["a"], "max_concurrent": 2})),
        job("c", json!({"type": "shell", "command": "echo ${yyyyMMdd}"})),
    ]);
    let worker = world.worker("w1", 2, Script::Fail);
    world.pass_minutes(61);
    world.played(&worker).script = Script::Run;
    world.batch(jobs[2], None);
    world.batch(jobs[1], Some("2026-07-01T00:00:00Z"));
    world.pass_minutes(1);
    world
}

/// EVT-2: any command is decided or refused; the envelope fits its frame and folds to the state that was drafted.
#[test]
fn any_command_is_decided() {
    let world = lived();
    let read = world.partition.resume().cloned();
    corpus!("command").fuzz(1_500, |input| {
        let Ok(record) = serde_json::from_slice::<CommandRecord>(input) else { return };
        let mut drafted = world.partition.clone();
        let mut draft = Draft::new(&mut drafted, world.wall, read.clone());
        draft.command(1_000, "hash".to_owned(), record);
        draft.due(world.wall);
        let Some(envelope) = draft.finish(true).envelope else { return };
        let body = serde_json::to_vec(&envelope).unwrap();
        assert!(body.len() < 512 * 1024 - 256, "an envelope of {} bytes", body.len());
        let mut folded = world.partition.clone();
        folded.apply(&serde_json::from_slice(&body).unwrap());
        assert!(folded == drafted, "the fold differs from the draft");
        effects(&folded, &envelope, 1_000);
    });
}

/// EVT-2: whatever an accepted journal says, its fold is total; so is what an owner says after it.
#[test]
fn any_accepted_journal_folds() {
    corpus!("fold").fuzz(250, |input| {
        let Ok(journal) = serde_json::from_slice::<Vec<Value>>(input) else { return };
        let mut partition = Partition::new(0, 1);
        for (offset, body) in (2..).zip(journal) {
            let Ok(envelope) = serde_json::from_value::<Envelope>(body) else { continue };
            partition.apply(&envelope);
            effects(&partition, &envelope, offset);
            for recorded in &envelope.events {
                let subject = recorded.event.subject();
                if let Some(batch) = subject.strip_prefix("batch/").and_then(|id| id.parse().ok()) {
                    partition.answer(GROUP, &LiveQuery::Why { batch });
                }
            }
        }
        partition.next_timer();
        partition.outstanding();
        assert!(partition.clone() == partition);
    });
}
