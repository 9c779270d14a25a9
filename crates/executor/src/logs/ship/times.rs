//! When bytes arrived, as the shim has noted it ([`AttemptDir::times`]), for pieces that are shipped one after the other.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use tidemill_model::Timestamp;

use crate::attempt_dir::{AttemptDir, TIMES_MAX, TIMES_RECORD_BYTES};
use crate::plain_file;

/// The most times of a piece.
pub(super) const MAX_TIMES: usize = 1_000;
/// Records read at once.
const CHUNK: usize = 1_000;

/// How far the times of a stream were read.
#[derive(Debug, Default)]
pub(super) struct TimesRead {
    /// Records of both streams that are not behind the last piece.
    count: u64,
    /// The last of them that is of this stream.
    last: Option<(u64, i64)>,
}

/// The times of the bytes of a range of stdout (0) or stderr (1), and where the range has to end so that they are not too many.
/// Nothing, where nothing is known of its first byte.
pub(super) fn of_range(
    dir: &AttemptDir,
    stream: u8,
    range: Range<u64>,
    read: &mut TimesRead,
) -> io::Result<(Vec<(u64, i64)>, u64)> {
    if read.last.is_some_and(|(offset, _)| offset > range.start) {
        *read = TimesRead::default();
    }
    let mut times: Vec<(u64, i64)> = Vec::new();
    let mut end = range.end;
    match plain_file::open(&dir.times()) {
        Ok(file) => end = read.pass(&file, stream, &range, &mut times)?,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => {}
        Err(error) => return Err(error),
    }
    Ok((times, end))
}

impl TimesRead {
    /// Reads on as far as the range goes.
    fn pass(
        &mut self,
        file: &File,
        stream: u8,
        range: &Range<u64>,
        times: &mut Vec<(u64, i64)>,
    ) -> io::Result<u64> {
        let mut begun_at = self.last;
        let mut chunk = vec![0; CHUNK * TIMES_RECORD_BYTES];
        let end = 'pass: loop {
            let count = file.read_at(&mut chunk, self.count * TIMES_RECORD_BYTES as u64)?;
            let (records, _) = chunk[..count].as_chunks::<TIMES_RECORD_BYTES>();
            for record in records {
                let (of, offset, ms) = parse(record);
                // What a job of the worker's account has put there may say anything.
                if of == stream && self.last.is_none_or(|(last, _)| offset >= last) {
                    if offset >= range.end {
                        break 'pass range.end;
                    }
                    if offset > range.start {
                        if times.len() + 1 >= MAX_TIMES {
                            break 'pass offset;
                        }
                        times.push((offset, ms));
                    } else {
                        begun_at = Some((offset, ms));
                    }
                    self.last = Some((offset, ms));
                }
                self.count += 1;
            }
            if records.is_empty() || self.count >= TIMES_MAX {
                break range.end;
            }
        };
        // Behind the last of all that can be noted, nothing is known.
        let is_known = self.count < TIMES_MAX || !times.is_empty();
        let first = begun_at.filter(|_| is_known).map(|(_, ms)| (range.start, ms));
        times.splice(0..0, first);
        Ok(end)
    }
}

fn parse(record: &[u8; TIMES_RECORD_BYTES]) -> (u8, u64, i64) {
    let [of, rest @ ..] = record;
    let (offset, ms) = rest.split_at(8);
    let eight = |bytes: &[u8]| <[u8; 8]>::try_from(bytes).expect("a record is of 1, 8 and 8 bytes");
    (*of, u64::from_le_bytes(eight(offset)), i64::from_le_bytes(eight(ms)))
}

/// The times of lines that begin with theirs, as the worker's do.
pub(super) fn of_lines(bytes: &[u8], offset: u64) -> Vec<(u64, i64)> {
    let mut begin = offset;
    let times = bytes.split_inclusive(|byte| *byte == b'\n').map(|line| {
        let of = begin;
        begin += line.len() as u64;
        let time = std::str::from_utf8(line).ok()?.split(' ').next()?.parse::<Timestamp>().ok()?;
        Some((of, time.as_millisecond()))
    });
    times.flatten().take(MAX_TIMES - 1).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn record((of, offset, ms): (u8, u64, i64)) -> Vec<u8> {
        [&[of][..], &offset.to_le_bytes(), &ms.to_le_bytes()].concat()
    }

    fn write(dir: &AttemptDir, records: impl IntoIterator<Item = (u8, u64, i64)>) {
        fs::write(dir.times(), records.into_iter().flat_map(record).collect::<Vec<u8>>()).unwrap();
    }

    /// LOG-2: each piece has the times of its bytes, whichever pieces came before, and no more than fit.
    #[test]
    fn pieces_have_the_times_of_their_bytes() {
        let below = tempfile::tempdir().unwrap();
        let dir = AttemptDir::new(below.path());
        let mut read = TimesRead::default();
        let mut times = |range| of_range(&dir, 0, range, &mut read).unwrap();
        assert_eq!(times(0..5), (vec![], 5), "there are none");
        write(&dir, [(0, 0, 100), (1, 0, 110), (0, 10, 200), (1, 3, 250), (0, 20, 300)]);
        assert_eq!(times(0..5), (vec![(0, 100)], 5));
        assert_eq!(times(5..15), (vec![(5, 100), (10, 200)], 15));
        assert_eq!(times(15..20), (vec![(15, 200)], 20));
        assert_eq!(times(20..30), (vec![(20, 300)], 30));
        assert_eq!(times(3..30), (vec![(3, 100), (10, 200), (20, 300)], 30), "from an earlier byte again");
        let mut read = TimesRead::default();
        assert_eq!(of_range(&dir, 1, 1..9, &mut read).unwrap(), (vec![(1, 110), (3, 250)], 9));
        // Many, and what is no record behind them.
        let many: Vec<_> = (0..2_500).map(|number| (0, number * 2, 1_000 + number as i64)).collect();
        write(&dir, many.clone());
        let mut file = fs::OpenOptions::new().append(true).open(dir.times()).unwrap();
        std::io::Write::write_all(&mut file, &[0; 9]).unwrap();
        let (mut at, mut all, mut read) = (0, Vec::new(), TimesRead::default());
        while at < 5_000 {
            let (times, end) = of_range(&dir, 0, at..5_000, &mut read).unwrap();
            assert!(times.len() <= MAX_TIMES && times[0].0 == at && end > at);
            all.extend(times);
            at = end;
        }
        assert_eq!(all, many.iter().map(|(_, offset, ms)| (*offset, *ms)).collect::<Vec<_>>());
    }

    /// LOG-1: whatever a job has put in place of the times, pieces go on, with none of them or with some.
    #[test]
    fn times_may_say_anything() {
        let below = tempfile::tempdir().unwrap();
        let dir = AttemptDir::new(below.path());
        write(&dir, [(9, 3, 0), (0, 7, i64::MIN), (0, 2, 5), (0, u64::MAX, i64::MAX)]);
        let mut read = TimesRead::default();
        assert_eq!(of_range(&dir, 0, 0..10, &mut read).unwrap(), (vec![(7, i64::MIN)], 10));
        assert_eq!(of_range(&dir, 0, 10..20, &mut read).unwrap(), (vec![(10, i64::MIN)], 20));
        fs::remove_file(dir.times()).unwrap();
        nix::unistd::mkfifo(&dir.times(), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(of_range(&dir, 0, 0..10, &mut TimesRead::default()).unwrap(), (vec![], 10));
    }

    /// LOG-2: lines of the worker say themselves when they were written.
    #[test]
    fn lines_of_the_worker_have_their_own_times() {
        let text = b"1970-01-01T00:00:00.005Z a\nnone b\n1970-01-01T00:00:01.000Z c\n";
        assert_eq!(of_lines(text, 7), [(7, 5), (41, 1_000)]);
    }
}
