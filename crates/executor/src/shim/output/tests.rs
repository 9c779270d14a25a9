//! What a log holds of a stream, whatever is lost on the way, without processes.

use std::fs;
use std::path::Path;

use super::gap::{Cause, Gap};
use super::log::{Log, Place};
use super::times::Times;

/// What a log says of itself once its stream has ended, and how much of the stream it holds.
fn kept(max_bytes: Option<u64>, feed: impl FnOnce(&mut Log)) -> (String, u64) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut log = Log::new(Place::Path(path.clone()), max_bytes);
    feed(&mut log);
    log.end();
    (fs::read_to_string(path).unwrap_or_default(), log.written())
}

fn line(offset: u64, bytes: u64, cause: Cause) -> String {
    format!("{}\n", Gap { offset, bytes, cause })
}

/// LOG-1: a stream up to its limit is whole, however it is cut; one byte more, and a line says which one is missing.
#[test]
fn stream_is_whole_up_to_its_limit() {
    for piece in [1, 3, 8, 100] {
        let feed = |text: &'static str| {
            kept(Some(8), move |log| text.as_bytes().chunks(piece).for_each(|piece| log.take(piece)))
        };
        assert_eq!(feed("abcdefgh"), ("abcdefgh".to_owned(), 8));
        let gap = line(4, 1, Cause::Limit(8));
        assert_eq!(feed("abcdXfghi"), (format!("abcd\n{gap}fghi"), 8));
        let gap = line(4, 12, Cause::Limit(8));
        assert_eq!(feed("abc\nXXXXXXXXXXXXwxyz"), (format!("abc\n{gap}wxyz"), 8));
    }
    assert_eq!(kept(Some(0), |log| log.take(b"ab")), (line(0, 2, Cause::Limit(0)), 0));
    let long = "x".repeat(1 << 20);
    let (log, written) = kept(None, |log| log.take(long.as_bytes()));
    assert!(log == long && written == 1 << 20);
    assert_eq!(kept(None, |_| {}), (String::new(), 0));
}

/// LOG-1: what was dropped before it reached the log is missing where it was, also where the limit is near.
#[test]
fn what_was_dropped_is_missing_where_it_was() {
    let slow = || Cause::SlowWrite(10_000);
    let (log, written) = kept(None, |log| {
        log.take(b"ab\n");
        log.skip(5, slow());
        log.skip(2, slow());
        log.take(b"cd");
        log.skip(1, slow());
    });
    assert_eq!(log, format!("ab\n{}cd\n{}", line(3, 7, slow()), line(12, 1, slow())));
    assert_eq!(written, 5);
    // What waits for the end is behind the head, and what is dropped behind it takes it along.
    let (log, written) = kept(Some(8), |log| {
        log.take(b"abcdef");
        log.skip(100, slow());
        log.take(b"ghi");
    });
    assert_eq!(log, format!("abcd\n{}ghi", line(4, 102, slow())));
    assert_eq!(written, 7);
}

/// LOG-1: a log that takes nothing holds nothing up, and what it lacks is counted.
#[test]
fn log_that_takes_nothing_counts_what_it_lacks() {
    let mut log = Log::new(Place::Path(Path::new("/does/not/exist").to_owned()), Some(64));
    for _ in 0..100 {
        log.take(b"0123456789");
    }
    assert!(log.has_to_mark());
    log.end();
    assert_eq!(log.written(), 0);
    let full = fs::OpenOptions::new().append(true).open("/dev/full").unwrap();
    let mut log = Log::new(Place::Open(full), None);
    log.take(b"0123456789");
    log.end();
    assert_eq!(log.written(), 0);
}

/// LOG-2: the first time of each stream waits in memory for a second one, and times that cannot be written keep nobody from printing.
#[test]
fn times_are_written_with_the_second_of_a_stream() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("times");
    let mut times = Times::new(path.clone());
    let mut nowhere = Times::new(dir.path().join("none").join("times"));
    let mut note = |stream, offset| {
        times.note(stream, offset);
        nowhere.note(stream, offset);
        fs::read(&path).map_or(0, |times| times.len())
    };
    assert_eq!([note(0, 0), note(1, 0), note(0, 5)], [0; 3]);
    std::thread::sleep(std::time::Duration::from_millis(110));
    assert_eq!([note(0, 7), note(0, 8), note(1, 9)], [3 * 17, 3 * 17, 4 * 17]);
    let written = fs::read(&path).unwrap();
    let offsets: Vec<_> = written.chunks(17).map(|record| (record[0], record[1])).collect();
    assert_eq!(offsets, [(0, 0), (1, 0), (0, 7), (1, 9)]);
}
