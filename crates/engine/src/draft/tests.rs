use super::*;
use tidemill_model::{BatchId, Token};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Rule 12: a timer that asks for nothing, or on which the rules panic, suspends its entity on record; the
/// partition and its other timers go on, and replay leaves the same behind.
#[test]
fn a_timer_that_cannot_be_decided_suspends_its_entity() {
    let shard = ShardId(1);
    let (asks_nothing, panics) = (Timer::StartBy(Token(7)), Timer::Planted);
    let fine = Timer::Retry(BatchId(9));
    let planted = || {
        let mut partition = Partition::new(0, 1);
        // The shard begins to be with its first event.
        let event =
            Event::Partition(PartitionEvent::CommandDeadLettered { offset: 0, reason: String::new() });
        partition.apply_event(at(0), &Recorded { shard, event });
        let timers = [(at(1), asks_nothing), (at(2), panics), (at(3), fine), (at(50), panics)];
        let shard = partition.group_mut(shard).unwrap();
        timers.into_iter().for_each(|(at, timer)| shard.timers.set(at, timer));
        partition
    };
    let mut partition = planted();
    let mut draft = Draft::new(&mut partition, at(10), None);
    draft.due(at(2), &());
    let envelope = draft.finish(false).envelope.unwrap();
    let told: Vec<(&str, bool)> = envelope
        .events
        .iter()
        .map(|recorded| match &recorded.event {
            Event::Partition(PartitionEvent::TimerSuspended { entity, reason }) => {
                (entity.as_str(), reason.contains("asks for nothing") || reason == "planted")
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(told, [("token/7", true), ("planted", true)]);
    assert_eq!(envelope.causes.len(), 1);
    let left: Vec<Timer> = partition.group(shard).unwrap().timers.all().collect();
    assert_eq!(left, [fine], "every timer of a suspended entity is gone, and no other");
    let mut folded = planted();
    folded.apply(&envelope);
    assert_eq!(partition, folded);
}
