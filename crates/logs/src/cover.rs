//! Which segment has which byte of a log.
//!
//! Two stores may have written the same bytes for a moment, one of which does not know yet that the attempt is another's now. Both
//! had them from one spool, so what overlaps is equal, and which of them is read makes no difference.

use std::ops::Range;
use std::sync::Arc;

use tidemill_model::LogStream;

use crate::Error;
use crate::segment::{Close, Segment};

/// A part of a stream, and the segment that has it.
#[derive(Clone)]
pub(crate) struct Extent {
    pub(crate) range: Range<u64>,
    pub(crate) segment: Arc<Segment>,
}

/// The segments of a log, and what they have of it.
#[derive(Clone, Default)]
pub(crate) struct Cover {
    pub(crate) segments: Vec<Arc<Segment>>,
    extents: [Vec<Extent>; 3],
}

impl Cover {
    pub(crate) fn new(mut segments: Vec<Arc<Segment>>) -> Self {
        segments.sort_by_key(|segment| {
            let ranges = &segment.name.ranges;
            (ranges.each_ref().map(|range| range.end), ranges.each_ref().map(|range| range.start))
        });
        let extents = LogStream::ALL.map(|stream| extents(&segments, stream));
        Self { segments, extents }
    }

    /// The same, without those that are not as they were written.
    ///
    /// # Errors
    /// A place does not say how they are.
    pub(crate) async fn of_good(segments: Vec<Arc<Segment>>) -> Result<Self, Error> {
        let mut good = Vec::with_capacity(segments.len());
        for segment in segments {
            match segment.footer().await {
                Ok(_) => good.push(segment),
                Err(error @ (Error::Damaged { .. } | Error::Gone { .. })) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "a segment does not count");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Self::new(good))
    }

    /// Up to where each stream is there without a gap.
    pub(crate) fn ends(&self) -> [u64; 3] {
        self.extents.each_ref().map(|extents| extents.last().map_or(0, |extent| extent.range.end))
    }

    /// Whether all is there that there will be.
    pub(crate) fn close(&self) -> Close {
        let ends = self.ends();
        let is_last = |segment: &&Arc<Segment>| segment.name.ranges.each_ref().map(|range| range.end) == ends;
        self.segments.iter().filter(is_last).map(|segment| segment.name.close).max().unwrap_or_default()
    }

    pub(crate) fn extents(&self, stream: LogStream) -> &[Extent] {
        &self.extents[stream.index()]
    }

    /// The extent of a byte.
    pub(crate) fn find(&self, stream: LogStream, offset: u64) -> Option<&Extent> {
        let extents = self.extents(stream);
        let after = extents.partition_point(|extent| extent.range.end <= offset);
        extents.get(after).filter(|extent| extent.range.start <= offset)
    }
}

fn extents(segments: &[Arc<Segment>], stream: LogStream) -> Vec<Extent> {
    let mut of: Vec<_> = segments.iter().filter(|segment| !segment.range(stream).is_empty()).collect();
    of.sort_by_key(|segment| segment.range(stream).start);
    let (mut found, mut end): (Vec<Extent>, u64) = (Vec::new(), 0);
    let mut rest = of.into_iter().peekable();
    let mut longest: Option<&Arc<Segment>> = None;
    loop {
        while let Some(segment) = rest.next_if(|segment| segment.range(stream).start <= end) {
            let reach = |segment: &Arc<Segment>| segment.range(stream).end;
            if longest.is_none_or(|longest| reach(longest) < reach(segment)) {
                longest = Some(segment);
            }
        }
        let Some(segment) = longest.filter(|longest| longest.range(stream).end > end) else { return found };
        found.push(Extent { range: end..segment.range(stream).end, segment: Arc::clone(segment) });
        end = segment.range(stream).end;
    }
}
