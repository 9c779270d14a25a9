use std::pin::pin;
use std::time::Duration;

use tidemill_model::{LogLines, LogPlace, LogStream, whole_lines};
use tokio::time::{Instant, timeout_at};

use super::{MAX_BYTES, Reader};
use crate::Error;

/// Lines of a stream from a place on, at most so many; waits where there is none yet.
pub(crate) async fn lines(
    reader: &Reader,
    stream: LogStream,
    place: LogPlace,
    lines: usize,
    wait: Duration,
) -> Result<LogLines, Error> {
    let begin = begin(reader, stream, place).await?;
    let deadline = Instant::now() + wait;
    loop {
        let mut changed = pin!(reader.log.changed());
        // From here on no change is missed.
        changed.as_mut().enable();
        let found = from(reader, stream, begin, lines).await?;
        let is_enough = !found.content.is_empty() || found.is_end;
        if is_enough || timeout_at(deadline, changed).await.is_err() {
            return Ok(found);
        }
    }
}

async fn begin(reader: &Reader, stream: LogStream, place: LogPlace) -> Result<u64, Error> {
    let (end, is_open) = reader.end(stream);
    match place {
        // One that was read from another life of the store may be ahead of this one.
        LogPlace::Offset(offset) if is_open => Ok(offset),
        LogPlace::Offset(offset) => Ok(offset.min(end)),
        LogPlace::Line(line) => Ok(reader.line_begin(stream, line).await?.unwrap_or(end)),
        LogPlace::Last(lines) => {
            let all = reader.lines(stream).await?.lines;
            let first = all.saturating_sub(lines) + 1;
            Ok(reader.line_begin(stream, first).await?.unwrap_or(end))
        }
    }
}

async fn from(reader: &Reader, stream: LogStream, begin: u64, lines: usize) -> Result<LogLines, Error> {
    // Looked at before the bytes: what comes between the two is then still to come.
    let (end, is_open) = reader.end(stream);
    let stop = end.min(begin.saturating_add(MAX_BYTES as u64));
    let mut bytes = reader.read_all(stream, begin..stop).await?;
    let is_last = !is_open && begin + bytes.len() as u64 >= end;
    let taken = whole_lines(&bytes, lines, MAX_BYTES, is_last);
    bytes.truncate(taken);
    let offset = begin + taken as u64;
    Ok(LogLines {
        content: String::from_utf8_lossy(&bytes).into_owned(),
        begin,
        line: reader.lines_before(stream, begin).await? + 1,
        offset,
        is_end: !is_open && offset >= end,
    })
}
