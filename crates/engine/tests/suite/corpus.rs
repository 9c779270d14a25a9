//! Commands that anybody may append, and journals that nobody should have written: neither makes the engine
//! panic, and what it decides folds to what it holds.

use crate::kit::GROUP;
use crate::kit::refusal::{decided, lived, refusal_changes_nothing};
use serde_json::Value;
use tidemill_corpus::corpus;
use tidemill_engine::{Partition, effects};
use tidemill_model::{CommandRecord, Envelope, LiveAnswer, LiveQuery, ShardId};

/// EVT-2: any command is decided or refused; the envelope fits its frame and folds to the state that was drafted. What is
/// refused changes nothing.
#[test]
fn any_command_is_decided() {
    let world = lived();
    corpus!("command").fuzz(1_500, |input| {
        let Ok(record) = serde_json::from_slice::<CommandRecord>(input) else { return };
        refusal_changes_nothing(&world, record.clone());
        let mut drafted = world.partition.clone();
        let Some(envelope) = decided(&world, &mut drafted, record, true) else { return };
        let body = serde_json::to_vec(&envelope).unwrap();
        assert!(body.len() < 512 * 1024 - 256, "an envelope of {} bytes", body.len());
        let mut folded = world.partition.clone();
        folded.apply(&serde_json::from_slice(&body).unwrap());
        assert!(folded == drafted, "the fold differs from the draft");
        effects(&folded, &envelope, 1_000);
    });
}

/// What an owner lists has a bound of its own, whatever is asked for.
const MOST_LISTED: usize = 1_000;

fn listed(answer: &LiveAnswer) -> usize {
    match answer {
        LiveAnswer::Wanted { external_dependencies, .. } => external_dependencies.len(),
        LiveAnswer::WantedQuality { asks, .. } => asks.len(),
        LiveAnswer::Pool { holders } => holders.len(),
        LiveAnswer::TaskLedger(ledger) => ledger.occurrences.len(),
        LiveAnswer::Level(state) => state.processes.len(),
        LiveAnswer::Why(_)
        | LiveAnswer::NewestBatch { .. }
        | LiveAnswer::User(_)
        | LiveAnswer::Worker(_)
        | LiveAnswer::Planned(_)
        | LiveAnswer::Refused(_)
        | LiveAnswer::Notified { .. }
        | LiveAnswer::Mailboxes { .. }
        | LiveAnswer::Acceptable
        | LiveAnswer::NotFound => 0,
    }
}

/// Any question to an owner is answered, whichever shard it is put to, within the bounds of its lists; the answer survives
/// its way over the live port.
#[test]
fn any_question_is_answered() {
    let world = lived();
    corpus!("question").fuzz(1_000, |input| {
        let Ok(query) = serde_json::from_slice::<LiveQuery>(input) else { return };
        for shard in [GROUP, ShardId::CATALOGUE, query.shard(None), query.shard(Some(GROUP))] {
            let answer = world.partition.answer(shard, &query);
            assert!(listed(&answer) <= MOST_LISTED, "{} of {query:?}", listed(&answer));
            let text = serde_json::to_vec(&answer).unwrap();
            assert_eq!(serde_json::from_slice::<LiveAnswer>(&text).unwrap(), answer);
        }
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
