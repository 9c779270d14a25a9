//! New records become segments.

use tidemill_log::{Head, Topic};

use super::{Archiver, Begun, Cycle, Lane, Own, When, now_ms};
use crate::segment::Build;
use crate::{Catalog, Error, Footer};

impl Archiver {
    /// Copies all of a journal but its last record, which always stays in the log.
    pub(super) fn copy(
        &self,
        partition: u32,
        lane: &mut Lane,
        when: When,
        is_stopped: &dyn Fn() -> bool,
        cycle: &mut Cycle,
    ) -> Result<(), Error> {
        let range = self.log.range(Topic::Journal, partition).map_err(Error::log(partition))?;
        let end = range.end.saturating_sub(1);
        let mut begun = match lane.begun.take() {
            Some(begun) => begun,
            None => self.begin(partition, range.start)?,
        };
        loop {
            self.fill(&mut begun, end, is_stopped)?;
            let footer = begun.build.footer();
            let age_ms = now_ms().saturating_sub(footer.first_at_ms);
            let is_full = footer.record_bytes >= self.bounds.segment_bytes;
            let is_due = when == When::Now || age_ms >= self.bounds.segment_age_ms.cast_signed();
            if footer.records == 0 || !(is_full || is_due) {
                lane.begun = Some(begun);
                return Ok(());
            }
            let Begun { build, own } = begun;
            let footer = self.close(build, is_stopped, cycle)?;
            begun = Begun { build: self.build(partition, footer.next, footer.after), own };
        }
    }

    /// Where the segments that are there end.
    fn begin(&self, partition: u32, first: u64) -> Result<Begun, Error> {
        let catalog = self.archive.catalog(partition)?;
        let next = catalog.reaches(first);
        let before = self.chain_before(&catalog, partition, next)?;
        let own = Own::open(&*self.log, partition, next)?;
        Ok(Begun { build: self.build(partition, next, before), own })
    }

    fn build(&self, partition: u32, first: u64, before: Option<Head>) -> Build {
        Build::new(self.log.log_id().clone(), partition, first, before)
    }

    /// Where the chain stands before an offset, as the segment before it says.
    fn chain_before(&self, catalog: &Catalog, partition: u32, next: u64) -> Result<Option<Head>, Error> {
        if next == 0 {
            return Ok(None);
        }
        let found = catalog.before(next).ok_or_else(|| Error::Missing {
            place: self.archive.place(),
            log_id: self.archive.log_id().to_string(),
            partition,
            offset: next - 1,
        })?;
        Ok(self.archive.footer(found)?.after)
    }

    /// Adds records until the segment is full or there are no more.
    fn fill(&self, begun: &mut Begun, end: u64, is_stopped: &dyn Fn() -> bool) -> Result<(), Error> {
        loop {
            let Footer { partition, next, record_bytes, .. } = *begun.build.footer();
            if next >= end || record_bytes >= self.bounds.segment_bytes {
                return Ok(());
            }
            if is_stopped() {
                return Err(Error::Interrupted);
            }
            let Some(record) = begun.own.next()? else {
                let source = format!("it does not give the records from {next} to {end}").into();
                let source = tidemill_log::Error::Read { topic: Topic::Journal, partition, source };
                return Err(Error::Log { partition, source });
            };
            begun.build.push(&record);
        }
    }

    /// Writes the segment, and believes only what it then reads.
    fn close(&self, build: Build, is_stopped: &dyn Fn() -> bool, cycle: &mut Cycle) -> Result<Footer, Error> {
        let (footer, bytes) = build.finish();
        let name = footer.name();
        let object = format!("{}/{name}", self.archive.place());
        let written = self.archive.store().write(&name.to_string(), &bytes);
        written.map_err(|source| Error::store("write", object.clone(), source))?;
        let catalog = self.archive.catalog(footer.partition)?;
        let found = catalog.segments().find(|found| found.name == name);
        let found = found.ok_or_else(|| Error::Damaged {
            object,
            reason: "it was written, and the archive does not list it".to_owned(),
        })?;
        self.compare(&self.archive.open(found)?, is_stopped)?;
        cycle.segments += 1;
        cycle.bytes += found.bytes;
        tracing::info!(
            partition = footer.partition,
            first = footer.first,
            next = footer.next,
            "records {} to {} of the journal of partition {} are archived",
            footer.first,
            footer.next - 1,
            footer.partition
        );
        Ok(footer)
    }
}
