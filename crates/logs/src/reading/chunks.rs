use std::pin::pin;
use std::time::Duration;

use tidemill_model::{LogChunk, LogChunks, LogOffsets, LogStream, Timestamp, whole_lines};
use tokio::time::{Instant, timeout_at};

use super::Reader;
use crate::Error;
use crate::segment::Close;

/// The most of one stream in one answer, bytes.
const STREAM_BYTES: usize = 256 << 10;

/// What follows of one stream.
struct Following {
    stream: LogStream,
    begin: u64,
    bytes: Vec<u8>,
    times: Vec<(u64, i64)>,
    /// There is more of it.
    is_more: bool,
    is_end: bool,
}

/// What follows of all streams, in the order in which it arrived; waits where nothing does yet.
pub(crate) async fn chunks(reader: &Reader, from: LogOffsets, wait: Duration) -> Result<LogChunks, Error> {
    let deadline = Instant::now() + wait;
    loop {
        let mut changed = pin!(reader.log.changed());
        // From here on no change is missed.
        changed.as_mut().enable();
        let found = now(reader, from).await?;
        let is_enough = !found.chunks.is_empty() || found.is_end;
        if is_enough || timeout_at(deadline, changed).await.is_err() {
            return Ok(found);
        }
    }
}

async fn now(reader: &Reader, mut from: LogOffsets) -> Result<LogChunks, Error> {
    let mut chunks = Vec::new();
    let (mut until, mut is_end) = (i64::MAX, true);
    for stream in LogStream::ALL {
        let following = following(reader, stream, *from.of(stream)).await?;
        let of = split(&following);
        if following.is_more
            && let Some((at, _)) = of.last()
        {
            // What arrived later elsewhere comes after what follows here.
            until = until.min(*at);
        }
        is_end &= following.is_end;
        chunks.extend(of);
    }
    let all = chunks.len();
    chunks.retain(|(at, _)| *at <= until);
    is_end &= chunks.len() == all;
    // Those of one stream stay as they are.
    chunks.sort_by_key(|(at, _)| *at);
    let mut offsets = from;
    for (_, chunk) in &chunks {
        *offsets.of(chunk.stream) = chunk.offset + chunk.length;
    }
    let chunks = chunks.into_iter().map(|(_, chunk)| chunk.shown()).collect();
    let is_cut = is_end && reader.log.state().close == Close::Cut;
    Ok(LogChunks { chunks, offsets, is_end, is_cut })
}

async fn following(reader: &Reader, stream: LogStream, begin: u64) -> Result<Following, Error> {
    let (end, is_open) = reader.end(stream);
    let stop = end.min(begin.saturating_add(STREAM_BYTES as u64));
    let mut bytes = if begin < stop { reader.read_all(stream, begin..stop).await? } else { Vec::new() };
    let is_last = !is_open && begin + bytes.len() as u64 >= end;
    bytes.truncate(whole_lines(&bytes, usize::MAX, STREAM_BYTES, is_last));
    let next = begin + bytes.len() as u64;
    let times = if bytes.is_empty() { Vec::new() } else { times(reader, stream, begin, next).await? };
    Ok(Following { stream, begin, bytes, times, is_more: stop < end, is_end: !is_open && next >= end })
}

/// When bytes of a range arrived, with the last time before it.
async fn times(reader: &Reader, stream: LogStream, begin: u64, end: u64) -> Result<Vec<(u64, i64)>, Error> {
    let (extents, tail) = {
        let state = reader.log.state();
        let concerns = |range: &std::ops::Range<u64>| range.start < end && begin < range.end;
        let extents = state.cover.extents(stream).iter().filter(|extent| concerns(&extent.range)).cloned();
        (extents.collect::<Vec<_>>(), state.tail(stream).times.clone())
    };
    let mut all = Vec::new();
    for extent in extents {
        all.extend_from_slice(&extent.segment.footer().await?.of(stream).times);
    }
    all.extend(tail);
    all.sort_unstable();
    all.dedup_by_key(|(at, _)| *at);
    let first = all.partition_point(|(at, _)| *at <= begin).saturating_sub(1);
    let last = all.partition_point(|(at, _)| *at < end);
    Ok(all.get(first..last).unwrap_or_default().to_vec())
}

struct Chunk {
    stream: LogStream,
    offset: u64,
    at: i64,
    length: u64,
    content: String,
}

impl Chunk {
    fn shown(self) -> LogChunk {
        let Self { stream, offset, at, content, .. } = self;
        let at = Timestamp::from_millisecond(at).unwrap_or(Timestamp::UNIX_EPOCH);
        LogChunk { stream, offset, at, content }
    }
}

/// Pieces of whole lines, each with the time at which its first byte arrived; no earlier than the one before.
fn split(following: &Following) -> Vec<(i64, Chunk)> {
    let Following { stream, begin, bytes, times, .. } = following;
    let mut chunks = Vec::new();
    let (mut done, mut latest) = (0, i64::MIN);
    while done < bytes.len() {
        let offset = begin + done as u64;
        let after = times.partition_point(|(at, _)| *at <= offset);
        let own = times.get(after.saturating_sub(1)).map_or(0, |(_, ms)| *ms);
        let next = times.get(after).and_then(|(at, _)| usize::try_from(at - begin).ok());
        let stop = next.filter(|next| *next < bytes.len()).map_or(bytes.len(), |next| {
            // A line belongs to the time of its beginning.
            let from = next - 1;
            memchr::memchr(b'\n', &bytes[from..]).map_or(bytes.len(), |end| from + end + 1)
        });
        latest = latest.max(own);
        let content = String::from_utf8_lossy(&bytes[done..stop]).into_owned();
        let length = (stop - done) as u64;
        chunks.push((latest, Chunk { stream: *stream, offset, at: latest, length, content }));
        done = stop;
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-2: what arrived together is one chunk; a line that arrived in two pieces belongs to the first.
    #[test]
    fn chunks_are_whole_lines_with_the_time_of_their_first_byte() {
        let following = Following {
            stream: LogStream::Stdout,
            begin: 10,
            bytes: b"a\nbc\nd\n".to_vec(),
            times: vec![(4, 1), (13, 2), (15, 3), (16, 9)],
            is_more: false,
            is_end: true,
        };
        let chunks: Vec<_> =
            split(&following).into_iter().map(|(at, chunk)| (at, chunk.offset, chunk.content)).collect();
        let chunk = |at, offset, text: &str| (at, offset, text.to_owned());
        assert_eq!(chunks, [chunk(1, 10, "a\nbc\n"), chunk(3, 15, "d\n")]);
    }
}
