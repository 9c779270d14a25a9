//! A guest of each interface beside the clients that mean harm: it asks for little, and has to have it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::conduct::{Conduct, Watching};
use crate::rest::{Answer, Rest};
use crate::socket::{End, Ended};

/// An answer that takes longer is none.
const BOUND: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(300);

/// Asks this interface, which this role serves, until told to stop.
pub(crate) fn run(interface: &Rest, role: &str, conduct: &Conduct, is_over: &AtomicBool) {
    let calls = [("guest-health", "/healthz"), ("guest-read", "/api/groups")];
    for (act, path) in calls.iter().cycle() {
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        let (begun_at, begun) = (Timestamp::now(), Instant::now());
        let answer = interface.get(path);
        let took = begun.elapsed();
        let refused = match answer {
            Answer::Ok(_) if took <= BOUND => None,
            Answer::Ok(_) => Some(format!("answered after {took:.1?}")),
            Answer::Refused(why) | Answer::Unknown(why) => Some(why),
        };
        let end = if refused.is_none() { End::Answered(200) } else { End::Open };
        let ended = Ended { end, begun_at, ended_at: Timestamp::now() };
        conduct.note_guest(&Watching { role, act, needs_tables: true }, &ended, refused);
        thread::sleep(PAUSE);
    }
}
