//! The memory log does what every log does, and its faults do what they say.

use std::sync::{Arc, mpsc};

use crate::conformance::fixture::{Fixture, PARTITIONS, PATIENCE, append};
use tidemill_log::memory::{Fault, Gate};
use tidemill_log::{AppendError, Log, MemoryLog, QueueBound, Readers, Topic};

fn memory(queue: QueueBound) -> Fixture {
    Fixture { log: Arc::new(MemoryLog::with_queue(PARTITIONS, queue)), _ground: Box::new(()) }
}

suite!(memory);

/// The log's end after one append under this fault, and what the append was told.
fn after(fault: &Fault) -> (MemoryLog, Result<u64, AppendError>) {
    let log = MemoryLog::new(1);
    let fault = fault.clone();
    log.set_faults(move |_| fault.clone());
    let outcome = append(log.producer().unwrap().as_ref(), Topic::Commands, 0, "x");
    (log, outcome)
}

fn end(log: &MemoryLog) -> u64 {
    log.range(Topic::Commands, 0).unwrap().end
}

#[test]
fn unknown_outcome_may_mean_dropped_landed_or_landing_later() {
    for (fault, ends) in
        [(Fault::DropUnknown, [0, 0]), (Fault::LandUnknown, [1, 1]), (Fault::LandLate, [0, 1])]
    {
        let (log, outcome) = after(&fault);
        assert!(matches!(outcome, Err(AppendError::Unknown(_))), "{fault:?}: {outcome:?}");
        assert_eq!(end(&log), ends[0], "{fault:?}");
        log.land_late();
        assert_eq!(end(&log), ends[1], "{fault:?}");
    }
}

#[test]
fn delayed_producer_holds_back_its_own_records_only() {
    let log = MemoryLog::new(1);
    let gate = Gate::default();
    let shut = gate.clone();
    log.set_faults(move |append| if append.producer == 1 { Fault::Delay(shut.clone()) } else { Fault::None });
    let [zombie, other] = [log.producer().unwrap(), log.producer().unwrap()];
    let (told, outcomes) = mpsc::channel();
    let done = Box::new(move |outcome| told.send(outcome).unwrap());
    zombie.append(Topic::Commands, 0, b"", b"late".to_vec(), done);
    assert_eq!(append(other.as_ref(), Topic::Commands, 0, "first"), Ok(0));
    assert!(outcomes.try_recv().is_err(), "the gate is shut");
    gate.open();
    assert_eq!(outcomes.recv_timeout(PATIENCE).unwrap(), Ok(1));
}

#[test]
fn suggestion_can_be_given() {
    let log = MemoryLog::new(3);
    log.suggest("a", vec![0, 2]);
    let suggested = |member: &str| log.membership(member).unwrap().suggested(PATIENCE).unwrap();
    assert_eq!((suggested("a"), suggested("b")), (vec![0, 2], vec![0, 1, 2]));
}

#[test]
fn records_carry_the_time_that_was_given() {
    let log = MemoryLog::new(1);
    let mut now_ms = 41;
    log.set_clock(move || {
        now_ms += 1;
        now_ms
    });
    append(log.producer().unwrap().as_ref(), Topic::Commands, 0, "x").unwrap();
    let fixture = Fixture { log: Arc::new(log), _ground: Box::new(()) };
    assert_eq!(fixture.read_all(Topic::Commands, 0)[0].timestamp_ms, 42);
}
