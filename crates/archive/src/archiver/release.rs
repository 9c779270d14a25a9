//! Segments that are old, or behind which too much lies, leave the log.

use tidemill_log::Topic;

use super::{Archiver, Cycle, Known, Lane, now_ms};
use crate::{Catalog, Error, Found};

impl Archiver {
    /// Removes segment after segment, each only once it was read back and compared once more.
    pub(super) fn release(
        &self,
        partition: u32,
        lane: &mut Lane,
        is_stopped: &dyn Fn() -> bool,
        cycle: &mut Cycle,
    ) -> Result<(), Error> {
        if !self.bounds.releases {
            return Ok(());
        }
        let range = self.log.range(Topic::Journal, partition).map_err(Error::log(partition))?;
        let catalog = self.archive.catalog(partition)?;
        lane.known.retain(|first, _| *first >= range.start);
        let segments = self.still_in_log(&catalog, lane, range.start)?;
        let begun = lane.begun.as_ref().map_or(0, |begun| begun.build.footer().record_bytes);
        let mut behind: u64 = segments.iter().map(|(_, known)| known.record_bytes).sum::<u64>() + begun;
        let oldest_ms = now_ms().saturating_sub_unsigned(self.bounds.keep_ms);
        for (found, known) in segments {
            behind -= known.record_bytes;
            let leaves = known.last_at_ms <= oldest_ms || behind >= self.bounds.keep_bytes;
            let Some(head) = known.after.filter(|_| leaves && known.next < range.end) else { break };
            self.compare(&self.archive.open(&found)?, is_stopped)?;
            self.log.release_archived(known.next, &head).map_err(Error::log(partition))?;
            cycle.released.insert(partition, known.next);
            tracing::info!(
                partition,
                first = known.next,
                "the journal of partition {partition} begins with record {} in the log; those before it are archived",
                known.next
            );
        }
        Ok(())
    }

    /// The segments from the log's first record on, as far as there is no gap.
    fn still_in_log(
        &self,
        catalog: &Catalog,
        lane: &mut Lane,
        first: u64,
    ) -> Result<Vec<(Found, Known)>, Error> {
        let (mut next, mut segments) = (first, Vec::new());
        // One that begins earlier is not of one piece with the log any more.
        while let Some(found) = catalog.find(next).filter(|found| found.name.first == next) {
            let known = match lane.known.get(&next).filter(|known| known.next == found.name.next) {
                Some(known) => known.clone(),
                None => {
                    let footer = self.archive.footer(found)?;
                    let (last_at_ms, record_bytes) = (footer.last_at_ms, footer.record_bytes);
                    Known { next: footer.next, last_at_ms, record_bytes, after: footer.after }
                }
            };
            lane.known.insert(next, known.clone());
            next = known.next;
            segments.push((found.clone(), known));
        }
        Ok(segments)
    }
}
