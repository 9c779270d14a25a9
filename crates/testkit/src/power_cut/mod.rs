//! What the embedded log has after a power cut, whenever it comes.
//!
//! ```text
//!  writer ─► system calls ─► strace ─► Trace ─► files as any cut may leave them ─► opened, compared with what was told
//!   ends now and then as it syncs, and is begun again
//! ```
//! A file keeps what it had when it was last synced. Of what was written since, each write is there or not, or in part; so
//! are its length, and the names in its directory since that was synced. What was to be synced when a sync failed may be lost for
//! good, whatever is synced later.
//!
//! What this does not test: disks that lie about a sync.

mod cut;
mod trace;
mod writer;

pub use trace::{Trace, told_after_a_failed_sync};
pub use writer::write;

use crate::Rng;
use trace::Happened;

/// In order. A third of them where something was told just before, and a third where that was what an earlier life left.
fn moments(trace: &Trace, rng: &mut Rng, cuts: usize) -> Result<Vec<usize>, String> {
    let is_told = |at: usize| matches!(trace.happened.get(at), Some(Happened::Told(_)));
    let (mut any, mut told, mut found) = (Vec::new(), Vec::new(), Vec::new());
    let mut begins = false;
    for at in 1..=trace.happened.len() {
        begins |= matches!(trace.happened[at - 1], Happened::Began);
        if is_told(at) {
            continue;
        }
        any.push(at);
        if is_told(at - 1) {
            told.push(at);
            if std::mem::take(&mut begins) {
                found.push(at);
            }
        }
    }
    let sets = [any, told, found];
    if sets.iter().any(Vec::is_empty) {
        return Err("nothing was told".to_owned());
    }
    let picked = (0..cuts).filter_map(|number| rng.pick(&sets[number % sets.len()]).copied());
    let mut moments: Vec<usize> = picked.collect();
    moments.sort_unstable();
    Ok(moments)
}

/// Cuts the power at so many moments of what was traced; gives what is missing after the first that loses anything.
///
/// # Errors
/// That, or no file can be written.
pub fn cut(trace: &Trace, seed: u64, cuts: usize) -> Result<(), String> {
    let mut rng = Rng::new(seed, "power cuts", 0);
    let moments = moments(trace, &mut rng, cuts)?;
    let ground = trace::ground()?;
    let mut disk = cut::Disk::default();
    let mut done = 0;
    for (number, moment) in (0_u64..).zip(moments) {
        for happened in &trace.happened[done..moment] {
            disk.take(happened)?;
        }
        done = moment;
        let directory = ground.path().join(number.to_string());
        disk.lie(&directory, &mut rng).map_err(|error| error.to_string())?;
        disk.compare(&directory).map_err(|what| {
            format!("after a cut at {moment} of {} (seed {seed}): {what}", trace.happened.len())
        })?;
        std::fs::remove_dir_all(&directory).map_err(|error| error.to_string())?;
    }
    Ok(())
}
