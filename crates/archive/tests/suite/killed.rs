//! An archiver that fails, or is killed, at any step loses nothing, and the next one goes on.

use std::sync::{Arc, Mutex};

use tidemill_archive::{Archiver, Bounds, Error, When};
use tidemill_log::Topic;

use crate::kit::{ALL, Call, Fault, Step, World, journal, read_all};

const STEPS: &[Step] =
    &[Step::Claim, Step::Envelope(10), Step::Garbage(3), Step::Envelope(20), Step::Stale, Step::Envelope(30)];

/// Two segments and a bit.
const BOUNDS: Bounds = Bounds { segment_bytes: 150, ..ALL };

/// Everything that was in the log can be read, and of what the log does not have the archive has a whole copy.
fn nothing_is_lost(world: &World, before: &[tidemill_log::Record], what: &str) {
    world.store.clear_hook();
    let through = world.through();
    assert_eq!(read_all(&through, 1), before, "{what}");
}

/// OPS-8: each call to the store fails in its turn, in each of the ways in which it can; then the process is another one.
#[test]
fn archiver_that_fails_at_any_step_loses_nothing_and_the_next_one_goes_on() {
    for fault in [Fault::Fails, Fault::FailsAfterwards, Fault::Forgets, Fault::WritesAnother] {
        let mut reached = true;
        let mut step = 0;
        while reached {
            let world = journal(STEPS);
            let before = read_all(&*world.log, 1);
            let calls = Arc::new(Mutex::new(0));
            let count = Arc::clone(&calls);
            world.store.set_hook(move |call, _| {
                let mut count = count.lock().unwrap();
                // Only a write can go wrong unheard.
                if fault != Fault::Fails && call != Call::Write {
                    return None;
                }
                *count += 1;
                (*count == step + 1).then_some(fault)
            });
            let outcome = world.cycle(BOUNDS, When::Now);
            reached = *calls.lock().unwrap() > step;
            assert_eq!(outcome.is_err(), reached, "{fault:?} at {step}: {outcome:?}");
            // A copy that is damaged is not believed, so it has released nothing.
            if let (Fault::WritesAnother, true) = (fault, reached) {
                let released = world.log.range(Topic::Journal, 1).unwrap().start;
                assert!(matches!(outcome, Err(Error::Damaged { .. } | Error::Differs { .. })), "{outcome:?}");
                assert!(released < before.len() as u64 - 1);
                // Somebody removes it, as the error says.
                let Err(error) = outcome else { unreachable!() };
                let name = world.store.names().into_iter().find(|name| error.to_string().contains(name));
                world.store.objects.lock().unwrap().remove(&name.expect("the object is named"));
            }
            nothing_is_lost(&world, &before, &format!("{fault:?} at {step}"));
            world.cycle(BOUNDS, When::Now).unwrap();
            assert_eq!(world.log.range(Topic::Journal, 1).unwrap().start, before.len() as u64 - 1);
            nothing_is_lost(&world, &before, &format!("after {fault:?} at {step}"));
            step += 1;
        }
        assert!(step > 2, "{fault:?} was tried {step} times");
    }
}

/// Told to stop between any two records it ends, and what it began is done by the next one.
#[test]
fn archiver_that_is_stopped_anywhere_loses_nothing() {
    let mut asked = 1;
    for stop_at in 0.. {
        if asked < stop_at {
            break;
        }
        let world = journal(STEPS);
        let before = read_all(&*world.log, 1);
        let count = Mutex::new(0);
        let is_stopped = || {
            let mut count = count.lock().unwrap();
            *count += 1;
            *count > stop_at
        };
        let mut archiver = Archiver::new(Arc::clone(&world.log), Arc::clone(&world.archive), BOUNDS);
        let outcome = archiver.cycle(&[0, 1], When::Now, &is_stopped);
        assert!(matches!(outcome, Ok(_) | Err(Error::Interrupted)), "{outcome:?}");
        asked = *count.lock().unwrap();
        nothing_is_lost(&world, &before, &format!("stopped at {stop_at}"));
        world.cycle(BOUNDS, When::Now).unwrap();
        assert_eq!(world.log.range(Topic::Journal, 1).unwrap().start, before.len() as u64 - 1);
    }
}

/// The log lets go of a segment only after the store gave back what was written, at that time and not only when it was written.
#[test]
fn copy_that_is_damaged_later_keeps_its_records_in_the_log() {
    let world = journal(STEPS);
    let before = read_all(&*world.log, 1);
    world.cycle(Bounds { releases: false, ..BOUNDS }, When::Now).unwrap();
    let name = world.store.names().into_iter().rfind(|name| name.contains("journal-00001")).unwrap();
    let whole = world.store.objects.lock().unwrap().get(&name).unwrap().clone();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        world.store.objects.lock().unwrap().insert(name.clone(), damaged);
        let error = world.cycle(BOUNDS, When::Now).unwrap_err().to_string();
        assert!(error.contains(&name), "byte {at}: {error}");
        let start = world.log.range(Topic::Journal, 1).unwrap().start;
        let first: u64 = name.rsplit('/').next().unwrap()[..20].parse().unwrap();
        assert!(start <= first, "byte {at}: it was released up to {start}");
    }
    world.store.objects.lock().unwrap().insert(name, whole);
    world.cycle(BOUNDS, When::Now).unwrap();
    assert_eq!(read_all(&world.through(), 1), before);
}

/// What is begun is read once, however many cycles come before it is full.
#[test]
fn segment_that_is_not_full_goes_on_in_the_next_cycle() {
    let world = journal(STEPS);
    let before = read_all(&*world.log, 1);
    let bounds = Bounds { segment_bytes: 1 << 20, segment_age_ms: u64::MAX / 4, ..ALL };
    let mut archiver = Archiver::new(Arc::clone(&world.log), Arc::clone(&world.archive), bounds);
    for _ in 0..3 {
        assert_eq!(archiver.cycle(&[1], When::Due, &|| false).unwrap().segments, 0);
        crate::kit::write(&*world.log, 1, &[Step::Envelope(100)]);
    }
    assert_eq!(archiver.cycle(&[1], When::Now, &|| false).unwrap().segments, 1);
    let start = world.log.range(Topic::Journal, 1).unwrap().start;
    assert_eq!(start, before.len() as u64 + 2);
    assert_eq!(read_all(&world.through(), 1).len(), before.len() + 3);
}
