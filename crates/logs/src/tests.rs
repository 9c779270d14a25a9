//! A store on a real directory, and workers as their frames show them.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tidemill_cluster::Parts;
use tidemill_model::{
    KeptLog, KeptStream, LogOffsets, LogPlace, LogStream, ShardId, ShipFrame, ShipFrom, Shipped, Timestamp,
    Token,
};

use crate::Config;
use crate::cover::Cover;
use crate::flush::{flush_log, sync_once};
use crate::log::Key;
use crate::reading::{Reader, Wanted, chunks, lines, search};
use crate::segment::Close;
use crate::store::{Answer, Store};
use crate::sweep::{Swept, sweep_once};
use crate::worker::{WorkerPlace, WorkerState};

const SHARD: ShardId = ShardId(3);

fn token(counter: u64) -> Token {
    Token::mint(counter, SHARD)
}

fn config(place: &Path) -> Config {
    Config { place: place.to_str().unwrap().to_owned(), segment_mb: 1, ..Config::default() }
}

fn store(place: &Path) -> Arc<Store> {
    Arc::new(Store::new(config(place)).unwrap())
}

fn worker(name: &str) -> WorkerPlace {
    let groups = vec![(SHARD, "g".try_into().unwrap())];
    let address = "127.0.0.1:1".into();
    WorkerPlace { worker: name.into(), shard: SHARD, groups, address, state: WorkerState::There }
}

fn key(counter: u64) -> Key {
    Key { group: "g".try_into().unwrap(), token: token(counter) }
}

async fn reader(store: &Arc<Store>, counter: u64) -> Option<Reader> {
    let log = store.find(&key(counter)).await.unwrap()?;
    Some(Reader { store: Arc::clone(store), log })
}

fn piece(counter: u64, stream: LogStream, offset: u64, bytes: &[u8]) -> ShipFrame {
    let ms = 1_000 + i64::try_from(offset).unwrap();
    let shipped = Shipped::Piece { stream, offset, times: vec![(offset, ms)], bytes: bytes.to_vec() };
    ShipFrame::new(token(counter), shipped)
}

async fn tell(store: &Store, counter: u64, shipped: Shipped) -> Answer {
    store.take(&worker("w"), ShipFrame::new(token(counter), shipped)).await
}

/// Ships a whole log of one stream, and closes it.
async fn keep(store: &Arc<Store>, counter: u64, bytes: &[u8]) {
    tell(store, counter, Shipped::Begun).await;
    let mut offset = 0;
    for bytes in bytes.chunks(100 << 10) {
        store.take(&worker("w"), piece(counter, LogStream::Stdout, offset, bytes)).await;
        offset += bytes.len() as u64;
        flush(store, counter).await;
    }
    tell(store, counter, Shipped::Ended { bytes: [offset, 0, 0] }).await;
    flush(store, counter).await;
}

async fn flush(store: &Arc<Store>, counter: u64) {
    if let Some(reader) = reader(store, counter).await {
        flush_log(store, &reader.log).await.unwrap();
    }
}

/// What the worker is told, once what was written is durable.
async fn done(store: &Store) -> Vec<Token> {
    sync_once(store, &mut HashSet::new()).await;
    store.take_done(&"w".into())
}

async fn whole(reader: &Reader, stream: LogStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let more = reader.read(stream, bytes.len() as u64, 70_001).await.unwrap();
        if more.is_empty() {
            return bytes;
        }
        bytes.extend_from_slice(&more);
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(work)
}

/// What happens between two pieces.
#[derive(Debug, Clone)]
enum Step {
    /// The next bytes of a stream arrive.
    Send(usize, usize),
    /// They are lost on the way.
    Lose(usize, usize),
    /// Some come again, from so far before.
    Repeat(usize, usize),
    /// They come before those that precede them.
    Early(usize, usize),
    Flush,
    /// The store dies, and another life of it begins.
    Kill,
    /// Another store takes over; the old one flushes what it still has, and does not know.
    TakeOver,
}

fn step() -> impl Strategy<Value = Step> {
    let of = (0..3_usize, 1..60_000_usize);
    prop_oneof![
        6 => of.clone().prop_map(|(stream, length)| Step::Send(stream, length)),
        1 => of.clone().prop_map(|(stream, length)| Step::Lose(stream, length)),
        1 => of.clone().prop_map(|(stream, length)| Step::Repeat(stream, length)),
        1 => of.prop_map(|(stream, length)| Step::Early(stream, length)),
        3 => Just(Step::Flush),
        1 => Just(Step::Kill),
        1 => Just(Step::TakeOver),
    ]
}

/// The spool of one attempt, and what its worker believes the store has.
struct Spool {
    files: [Vec<u8>; 3],
    cursors: [usize; 3],
}

impl Spool {
    fn hear(&mut self, answer: Answer) {
        if let Answer::From(ShipFrom { offsets, .. }) = answer {
            self.cursors = offsets.map(|offset| usize::try_from(offset).unwrap());
        }
    }

    /// A piece from there on.
    fn piece(&self, stream: usize, from: usize, length: usize) -> ShipFrame {
        let file = &self.files[stream];
        let from = from.min(file.len());
        let bytes = &file[from..(from + length).min(file.len())];
        piece(1, LogStream::ALL[stream], from as u64, bytes)
    }
}

async fn play(place: &Path, files: [Vec<u8>; 3], steps: Vec<Step>) {
    let mut store = self::store(place);
    let mut old = Vec::new();
    let mut spool = Spool { files, cursors: [0; 3] };
    tell(&store, 1, Shipped::Begun).await;
    for step in steps {
        match step {
            Step::Send(stream, length) => {
                let frame = spool.piece(stream, spool.cursors[stream], length);
                spool.cursors[stream] = (spool.cursors[stream] + length).min(spool.files[stream].len());
                spool.hear(store.take(&worker("w"), frame).await);
            }
            Step::Lose(stream, length) => {
                spool.cursors[stream] = (spool.cursors[stream] + length).min(spool.files[stream].len());
            }
            Step::Repeat(stream, length) => {
                let frame = spool.piece(stream, spool.cursors[stream].saturating_sub(length), length);
                spool.hear(store.take(&worker("w"), frame).await);
            }
            Step::Early(stream, length) => {
                let frame = spool.piece(stream, spool.cursors[stream] + length, length);
                spool.hear(store.take(&worker("w"), frame).await);
            }
            Step::Flush => flush(&store, 1).await,
            Step::Kill | Step::TakeOver => {
                let before = std::mem::replace(&mut store, self::store(place));
                spool.hear(tell(&store, 1, Shipped::Known).await);
                if matches!(step, Step::TakeOver) {
                    old.push(before);
                }
            }
        }
        for old in &old {
            flush(old, 1).await;
        }
    }
    let bytes = spool.files.each_ref().map(|file| file.len() as u64);
    let mut is_done = false;
    for _ in 0..200 {
        is_done |= done(&store).await.contains(&token(1));
        if is_done {
            break;
        }
        for stream in 0..3 {
            let frame = spool.piece(stream, spool.cursors[stream], 200_000);
            spool.cursors[stream] = (spool.cursors[stream] + 200_000).min(spool.files[stream].len());
            spool.hear(store.take(&worker("w"), frame).await);
        }
        let answer = tell(&store, 1, Shipped::Ended { bytes }).await;
        is_done |= matches!(answer, Answer::Done(_));
        spool.hear(answer);
        flush(&store, 1).await;
    }
    assert!(is_done, "it is closed in the end");
    check(place, &spool.files).await;
}

/// A life of the store that has seen nothing of it reads what was in the files, in every way.
async fn check(place: &Path, files: &[Vec<u8>; 3]) {
    let Some(reader) = reader(&store(place), 1).await else {
        assert!(files.iter().all(Vec::is_empty));
        return;
    };
    let summary = reader.summary().await.unwrap();
    assert!(summary.is_end && !summary.is_cut);
    for (stream, kept) in LogStream::ALL.into_iter().zip([summary.stdout, summary.stderr, summary.worker]) {
        let file = &files[stream.index()];
        assert!(whole(&reader, stream).await == *file, "{stream:?} is what it was");
        let count = file.split_inclusive(|byte| *byte == b'\n').count() as u64;
        assert_eq!(kept, KeptStream { bytes: file.len() as u64, lines: count });
        let mut shown = String::new();
        let mut offset = 0;
        loop {
            let place = LogPlace::Offset(offset);
            let part = lines(&reader, stream, place, 37, Duration::ZERO).await.unwrap();
            assert_eq!(part.line, file[..offset as usize].iter().filter(|b| **b == b'\n').count() as u64 + 1);
            shown += &part.content;
            offset = part.offset;
            if part.is_end {
                break;
            }
        }
        assert!(shown == String::from_utf8_lossy(file), "{stream:?} is shown as it was");
        for line in [1, 2, count / 2 + 1, count, count + 1] {
            let begin = file.split_inclusive(|b| *b == b'\n').take(line.max(1) as usize - 1);
            let begin: usize = begin.map(<[u8]>::len).sum();
            let part = lines(&reader, stream, LogPlace::Line(line.max(1)), 1, Duration::ZERO).await.unwrap();
            assert_eq!(part.begin, begin as u64, "line {line} of {count}");
        }
    }
    followed(&reader, files).await;
}

/// Following all streams shows each byte once.
async fn followed(reader: &Reader, files: &[Vec<u8>; 3]) {
    let (mut offsets, mut shown) = (LogOffsets::default(), [const { String::new() }; 3]);
    loop {
        let found = chunks(reader, offsets, Duration::ZERO).await.unwrap();
        assert!(found.chunks.is_sorted_by_key(|chunk| chunk.at));
        found.chunks.iter().for_each(|chunk| shown[chunk.stream.index()] += &chunk.content);
        offsets = found.offsets;
        if found.is_end {
            break;
        }
    }
    assert!(shown == files.each_ref().map(|file| String::from_utf8_lossy(file).into_owned()));
}

fn file() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        8 => "[a-z ]{0,80}\n".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..200),
        1 => (1..90_000_usize).prop_map(|length| vec![b'x'; length]),
    ];
    proptest::collection::vec(line, 0..60).prop_map(|lines| lines.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// LOG-1, LOG-2, EXE-6: whatever is lost, comes twice or too early, and however often the store dies or another one takes over
    /// while the old one goes on: what is kept in the end is what was in the spool, byte for byte and in every way of reading.
    #[test]
    fn what_is_kept_is_what_was_in_the_spool(
        files in [file(), file(), file()],
        steps in proptest::collection::vec(step(), 0..40),
    ) {
        let place = tempfile::tempdir().unwrap();
        run(play(place.path(), files, steps));
    }
}

/// LOG-1: a slow log has few segments, and what small ones held is removed once larger ones have it.
#[test]
fn small_segments_become_large_ones() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let store = store(place.path());
        tell(&store, 1, Shipped::Begun).await;
        let mut offset = 0;
        for number in 0..400_u32 {
            let line = format!("{number} {}\n", "x".repeat(9_000));
            store.take(&worker("w"), piece(1, LogStream::Stdout, offset, line.as_bytes())).await;
            offset += line.len() as u64;
            flush(&store, 1).await;
        }
        let objects = store.places.current.list("").await.unwrap();
        assert!(objects.len() <= 16, "{} segments of {offset} bytes", objects.len());
        let kept: u64 = objects.iter().map(|object| object.bytes).sum();
        assert!(kept < offset + (offset / 10), "{kept} bytes for {offset}");
        assert_eq!(store.memory.available_permits() as u64, store.config.memory_bytes());
    });
}

/// LOG-1: an attempt that has printed nothing costs no object, and its worker is told at once.
#[test]
fn empty_log_is_done_without_an_object() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let store = store(place.path());
        tell(&store, 1, Shipped::Begun).await;
        assert_eq!(tell(&store, 1, Shipped::Ended { bytes: [0; 3] }).await, Answer::Done(token(1)));
        assert_eq!(store.places.current.list("").await.unwrap(), []);
        let summary = reader(&store, 1).await.unwrap().summary().await.unwrap();
        assert_eq!(summary, KeptLog { is_end: true, ..KeptLog::default() });
        assert!(reader(&self::store(place.path()), 1).await.is_none(), "another life does not know");
    });
}

/// LOG-1: a log whose rest its worker has lost is kept as far as it was shipped, and says so.
#[test]
fn log_whose_rest_is_lost_says_so() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let store = store(place.path());
        tell(&store, 1, Shipped::Begun).await;
        store.take(&worker("w"), piece(1, LogStream::Stderr, 0, b"half")).await;
        tell(&store, 1, Shipped::Gone).await;
        flush(&store, 1).await;
        let summary = reader(&self::store(place.path()), 1).await.unwrap().summary().await.unwrap();
        assert!(summary.is_end && summary.is_cut);
        assert_eq!(summary.stderr, KeptStream { bytes: 4, lines: 1 });
    });
}

/// LOG-1: a life of the store before this one has closed a log, and may have died before it was durable: the worker is told once it
/// is. A segment that is cut, as after a loss of power, does not count: what it had is shipped again.
#[test]
fn log_is_done_only_when_it_is_durable_and_as_it_was_written() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let (first, second) = (b"x\n".repeat(500_000), b"y\n".repeat(10_000));
        let ship = async |store: &Arc<Store>, from: usize| {
            let whole = [first.clone(), second.clone()].concat();
            for (number, bytes) in whole[from..].chunks(250_000).enumerate() {
                let offset = (from + number * 250_000) as u64;
                store.take(&worker("w"), piece(1, LogStream::Stdout, offset, bytes)).await;
                flush(store, 1).await;
            }
            tell(store, 1, Shipped::Ended { bytes: [whole.len() as u64, 0, 0] }).await;
            flush(store, 1).await;
        };
        let store = store(place.path());
        tell(&store, 1, Shipped::Begun).await;
        ship(&store, 0).await;
        let again = self::store(place.path());
        assert_eq!(tell(&again, 1, Shipped::Known).await, Answer::Nothing);
        assert_eq!(again.take_done(&"w".into()), []);
        assert_eq!(done(&again).await, [token(1)]);

        let objects = again.places.current.list("").await.unwrap();
        let last = objects.iter().find(|object| object.path.as_ref().ends_with(".end")).unwrap();
        std::fs::write(place.path().join(last.path.to_string()), "").unwrap();
        let after = self::store(place.path());
        let Answer::From(from) = tell(&after, 1, Shipped::Known).await else {
            panic!("it has to come again")
        };
        assert!(from.offsets[0] < 1_020_000);
        ship(&after, usize::try_from(from.offsets[0]).unwrap()).await;
        assert_eq!(done(&after).await, [token(1)]);
        let reader = reader(&after, 1).await.unwrap();
        assert!(whole(&reader, LogStream::Stdout).await == [first.clone(), second.clone()].concat());
    });
}

/// LOG-1: a disk that says that it could not keep what was written is not believed afterwards: what was written since is removed, and
/// comes again.
#[test]
fn what_may_not_be_durable_is_fetched_again() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let store = store(place.path());
        keep(&store, 1, b"whole\n").await;
        tell(&store, 2, Shipped::Begun).await;
        store.take(&worker("w"), piece(2, LogStream::Stdout, 0, b"grows\nand")).await;
        flush(&store, 2).await;
        let before = store.agreement();
        // As after an error of the disk.
        let mut doubtful = store.unsynced.take().logs;
        store.unsynced.closed(("w".into(), token(1)));
        assert_eq!(doubtful.len(), 2);
        sync_once(&store, &mut doubtful).await;
        assert!(doubtful.is_empty() && store.agreement() > before);
        assert_eq!(store.take_done(&"w".into()), [], "nobody is told that it is done");
        assert_eq!(store.places.current.list("").await.unwrap(), []);
        assert_eq!(store.memory.available_permits() as u64, store.config.memory_bytes());
        for counter in 1..=2 {
            let anew = Answer::From(ShipFrom { token: token(counter), offsets: [0; 3] });
            assert_eq!(tell(&store, counter, Shipped::Known).await, anew);
        }
    });
}

/// LOG-1: many unfinished lines do not fill the memory for ever.
#[test]
fn unfinished_lines_leave_memory_when_it_is_wanted() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let mut config = config(place.path());
        config.memory_mb = 16;
        let store = Arc::new(Store::new(config).unwrap());
        let line = vec![b'.'; 60 << 10];
        for counter in 1..=250 {
            tell(&store, counter, Shipped::Begun).await;
            store.take(&worker("w"), piece(counter, LogStream::Stdout, 0, &line)).await;
        }
        assert!(store.memory.available_permits() < 2 << 20);
        for counter in 1..=250 {
            flush(&store, counter).await;
        }
        assert!(store.memory.available_permits() > 7 << 20, "{}", store.memory.available_permits());
    });
}

/// LOG-1: a log that is another store's meanwhile, and comes back while its last flush is under way, is not closed by that flush, and
/// no memory is lost.
#[test]
fn flush_of_a_forgotten_log_closes_no_later_one() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let store = store(place.path());
        tell(&store, 1, Shipped::Begun).await;
        store.take(&worker("w"), piece(1, LogStream::Stdout, 0, b"one\n")).await;
        tell(&store, 1, Shipped::Ended { bytes: [4, 0, 0] }).await;
        let old = store.find(&key(1)).await.unwrap().unwrap();
        let batch = old.state().begin_flush(usize::MAX, false).unwrap();
        store.forget(|_| true);
        assert!(matches!(tell(&store, 1, Shipped::Known).await, Answer::From(_)));
        store.take(&worker("w"), piece(1, LogStream::Stdout, 0, b"one\ntwo\n")).await;
        assert_eq!(old.state().flushed(&batch, Cover::default()), 0);
        store.close(&old);
        assert_eq!(store.open_logs().len(), 1, "the later one goes on");
        tell(&store, 1, Shipped::Ended { bytes: [8, 0, 0] }).await;
        flush(&store, 1).await;
        assert_eq!(whole(&reader(&store, 1).await.unwrap(), LogStream::Stdout).await, b"one\ntwo\n");
        assert_eq!(store.memory.available_permits() as u64, store.config.memory_bytes());
    });
}

/// LOG-1: what came of a log before its worker's host was given up is kept, and says that it is cut; if the worker comes again after
/// all, it is whole.
#[test]
fn log_of_a_host_that_is_gone_is_kept_and_goes_on_if_it_comes_again() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let store = store(place.path());
        tell(&store, 1, Shipped::Begun).await;
        store.take(&worker("w"), piece(1, LogStream::Stdout, 0, b"one\nhalf")).await;
        store.cut_all(|worker| worker == "w");
        for early in [Shipped::Known, piece(1, LogStream::Stdout, 8, b" more\n").shipped] {
            assert_eq!(tell(&store, 1, early).await, Answer::Later(token(1)), "it is being closed");
        }
        flush(&store, 1).await;
        let summary = reader(&store, 1).await.unwrap().summary().await.unwrap();
        assert!(summary.is_end && summary.is_cut && summary.stdout.bytes == 8);
        assert_eq!(done(&store).await, [], "the worker keeps the rest");
        let on = Answer::From(ShipFrom { token: token(1), offsets: [8, 0, 0] });
        assert_eq!(tell(&store, 1, Shipped::Known).await, on);
        store.take(&worker("w"), piece(1, LogStream::Stdout, 8, b" more\n")).await;
        tell(&store, 1, Shipped::Ended { bytes: [14, 0, 0] }).await;
        flush(&store, 1).await;
        assert_eq!(done(&store).await, [token(1)]);
        let summary = reader(&self::store(place.path()), 1).await.unwrap().summary().await.unwrap();
        assert!(summary.is_end && !summary.is_cut && summary.stdout.bytes == 14);
    });
}

/// LOG-2: a reader who is ahead of another life of the store waits, and reads nothing twice.
#[test]
fn reader_ahead_of_the_store_reads_nothing_twice() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let store = store(place.path());
        tell(&store, 1, Shipped::Begun).await;
        store.take(&worker("w"), piece(1, LogStream::Stdout, 0, b"one\n")).await;
        let reader = reader(&store, 1).await.unwrap();
        let from = async |offset| {
            let place = LogPlace::Offset(offset);
            let part = lines(&reader, LogStream::Stdout, place, 9, Duration::ZERO).await.unwrap();
            (part.content, part.begin, part.offset, part.is_end)
        };
        assert_eq!(from(100).await, (String::new(), 100, 100, false));
        tell(&store, 1, Shipped::Ended { bytes: [4, 0, 0] }).await;
        assert_eq!(from(100).await, (String::new(), 4, 4, true));
    });
}

/// LOG-2: a worker cannot write into the logs of another shard's attempts, and another group's log is another log.
#[test]
fn worker_reaches_no_log_of_another_group_or_shard() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let store = store(place.path());
        keep(&store, 1, b"mine\n").await;
        let of_shard = ShipFrame::new(Token::mint(1, ShardId(4)), Shipped::Begun);
        assert_eq!(store.take(&worker("w"), of_shard).await, Answer::Nothing);
        assert_eq!(store.open_logs().len(), 0);
        let other = WorkerPlace { groups: vec![(SHARD, "other".try_into().unwrap())], ..worker("v") };
        store.take(&other, ShipFrame::new(token(1), Shipped::Begun)).await;
        store.take(&other, piece(1, LogStream::Stdout, 0, b"forged\n")).await;
        let reader = reader(&store, 1).await.unwrap();
        assert_eq!(whole(&reader, LogStream::Stdout).await, b"mine\n");
    });
}

/// LOG-2: a byte that changed in its object is not shown as if it were the log's.
#[test]
fn changed_object_is_noticed() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        keep(&store(place.path()), 1, b"as it was\n").await;
        let store = store(place.path());
        let object = store.places.current.list("").await.unwrap().remove(0);
        let file = place.path().join(object.path.to_string());
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[3] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        let reader = reader(&store, 1).await.unwrap();
        let read = reader.read(LogStream::Stdout, 0, 100).await;
        assert!(matches!(read, Err(crate::Error::Damaged { .. })), "{read:?}");
    });
}

/// LOG-2: every line that has the text, with its number and place, over the borders of what is read at once; each line once.
#[test]
fn search_finds_each_line_once() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let mut file = String::new();
        let mut expected = Vec::new();
        for number in 1..=40_000_u64 {
            if number % 7_919 == 0 {
                expected.push((number, file.len() as u64));
                file += "a Needle and a needle\n";
            } else {
                file += &format!("line {number} of many, {}\n", "y".repeat((number % 90) as usize));
            }
        }
        let store = store(place.path());
        keep(&store, 1, file.as_bytes()).await;
        let reader = reader(&store, 1).await.unwrap();
        let ask = async |text: &str, ignore_case, offset, limit| {
            let text = text.to_owned();
            let wanted = Wanted { stream: LogStream::Stdout, text, ignore_case, offset, limit };
            let found = search(&reader, &wanted).await.unwrap();
            let matches: Vec<_> = found.matches.iter().map(|line| (line.line, line.offset)).collect();
            (matches, found.offset, found.is_end)
        };
        assert_eq!(ask("needle", false, 0, 100).await, (expected.clone(), file.len() as u64, true));
        assert_eq!(ask("NEEDLE", true, 0, 100).await.0, expected);
        assert_eq!(ask("NEEDLE", false, 0, 100).await.0, []);
        // From the middle of a line, and from behind one.
        assert_eq!(ask("needle", false, expected[1].1 + 2, 1).await.0, expected[1..2]);
        assert_eq!(ask("eedle and a n", false, 0, 9).await.0, expected);
        let (first, next, is_end) = ask("needle", false, 0, 2).await;
        assert!(!is_end && first == expected[..2]);
        assert_eq!(ask("needle", false, next, 100).await.0, expected[2..]);
    });
}

/// LOG-2: of a log that grows, a search goes on where it ended, finds what was cut there, and never goes back.
#[test]
fn search_of_a_log_that_grows_goes_on() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let store = store(place.path());
        tell(&store, 1, Shipped::Begun).await;
        let reader = {
            store.take(&worker("w"), piece(1, LogStream::Stdout, 0, b"one nee")).await;
            reader(&store, 1).await.unwrap()
        };
        let ask = async |offset| {
            let text = "needle".to_owned();
            let wanted = Wanted { stream: LogStream::Stdout, text, ignore_case: false, offset, limit: 9 };
            let found = search(&reader, &wanted).await.unwrap();
            (found.matches.iter().map(|line| (line.line, line.offset)).collect::<Vec<_>>(), found.offset)
        };
        let (matches, next) = ask(0).await;
        assert!(matches.is_empty() && next <= 4, "{next}");
        assert_eq!(ask(6).await, (vec![], 6));
        store.take(&worker("w"), piece(1, LogStream::Stdout, 7, b"dle\ntwo")).await;
        let (matches, next) = ask(next).await;
        assert_eq!(matches, [(1, 0)]);
        assert!(next >= 11, "{next}");
        assert_eq!(ask(next).await.0, []);
    });
}

/// LOG-2: the first line that looks like an error, of stderr before stdout, wherever its segment is.
#[test]
fn first_error_is_of_stderr_where_there_is_one() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let store = store(place.path());
        tell(&store, 1, Shipped::Begun).await;
        let first = async |store: &Arc<Store>| {
            let summary = reader(store, 1).await.unwrap().summary().await.unwrap();
            summary.first_error.map(|error| (error.stream, error.line, error.text))
        };
        let take = async |stream, offset, text: &str| {
            store.take(&worker("w"), piece(1, stream, offset, text.as_bytes())).await;
        };
        take(LogStream::Stdout, 0, "fine\nERROR: out\n").await;
        assert_eq!(first(&store).await, Some((LogStream::Stdout, 2, "ERROR: out".to_owned())));
        flush(&store, 1).await;
        take(LogStream::Stderr, 0, "note\n").await;
        flush(&store, 1).await;
        take(LogStream::Stderr, 5, "Traceback (most recent call last):\r\n").await;
        let expected = Some((LogStream::Stderr, 2, "Traceback (most recent call last):".to_owned()));
        assert_eq!(first(&store).await, expected);
        flush(&store, 1).await;
        assert_eq!(first(&self::store(place.path())).await, expected);
    });
}

/// LOG-2: whoever waits hears of new lines when they come, and of the end.
#[test]
fn reader_who_waits_hears_of_what_comes() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let store = store(place.path());
        tell(&store, 1, Shipped::Begun).await;
        let reader = reader(&store, 1).await.unwrap();
        let waits = tokio::spawn(async move {
            let long = Duration::from_secs(60);
            let first = lines(&reader, LogStream::Stdout, LogPlace::Offset(0), 100, long).await.unwrap();
            let last =
                lines(&reader, LogStream::Stdout, LogPlace::Offset(first.offset), 100, long).await.unwrap();
            (first.content, first.is_end, last.content, last.is_end)
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        store.take(&worker("w"), piece(1, LogStream::Stdout, 0, b"one\n")).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        tell(&store, 1, Shipped::Ended { bytes: [4, 0, 0] }).await;
        let told = waits.await.unwrap();
        assert_eq!(told, ("one\n".to_owned(), false, String::new(), true));
    });
}

/// LOG-4: an earlier place that does not answer keeps no log from going on; of what only that place may have, it is not said that
/// there is none.
#[cfg(feature = "hdfs")]
#[test]
fn earlier_place_that_is_down_holds_up_nothing_new() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let mut config = config(place.path());
        config.earlier_places = vec!["hdfs://127.0.0.1:1/logs".to_owned()];
        config.call_timeout_s = 2;
        let store = Arc::new(Store::new(config).unwrap());
        let anew = Answer::From(ShipFrom { token: token(1), offsets: [0; 3] });
        assert_eq!(tell(&store, 1, Shipped::Known).await, anew);
        store.take(&worker("w"), piece(1, LogStream::Stdout, 0, b"new\n")).await;
        tell(&store, 1, Shipped::Ended { bytes: [4, 0, 0] }).await;
        flush(&store, 1).await;
        assert_eq!(whole(&reader(&store, 1).await.unwrap(), LogStream::Stdout).await, b"new\n");
        assert!(store.find(&key(2)).await.is_err());
    });
}

/// LOG-4: by age, and by size with the oldest first; each group has its own bounds, and what grows stays.
#[test]
fn old_logs_go_and_too_many_of_a_group() {
    let place = tempfile::tempdir().unwrap();
    run(async {
        let mut config = config(place.path());
        config.keep_days = 2;
        config.keep_mb = 1;
        let store = Arc::new(Store::new(config).unwrap());
        for counter in 1..=3 {
            keep(&store, counter, &vec![b'x'; 600 << 10]).await;
            // Listings tell by milliseconds which is older.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tell(&store, 4, Shipped::Begun).await;
        store.take(&worker("w"), piece(4, LogStream::Stdout, 0, b"grows\n")).await;
        flush(&store, 4).await;
        let (_parts, parts) = tokio::sync::watch::channel(Parts { mine: [0].into(), count: 1 });
        let now = Timestamp::from(jiff::Timestamp::now());
        let swept = sweep_once(&store, &parts, now).await.unwrap();
        assert_eq!(swept.logs, 2);
        for (counter, is_there) in [(1, false), (2, false), (3, true), (4, true)] {
            assert_eq!(reader(&store, counter).await.is_some(), is_there, "{counter}");
        }
        let later = now.saturating_add(Duration::from_secs(49 * 3_600)).unwrap();
        assert_eq!(sweep_once(&store, &parts, later).await.unwrap().logs, 1);
        assert!(reader(&store, 3).await.is_none() && reader(&store, 4).await.is_some());
        assert_eq!(sweep_once(&store, &parts, later).await.unwrap(), Swept::default());
    });
}

/// LOG-4: with another place, logs of before are read where they are, and one that had begun there is whole in the new one.
#[test]
fn place_is_changed_without_a_pause() {
    let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    run(async {
        let old = store(before.path());
        keep(&old, 1, b"before\n").await;
        tell(&old, 2, Shipped::Begun).await;
        old.take(&worker("w"), piece(2, LogStream::Stdout, 0, b"one\n")).await;
        flush(&old, 2).await;
        let mut config = config(after.path());
        config.earlier_places = vec![before.path().to_str().unwrap().to_owned()];
        let store = Arc::new(Store::new(config).unwrap());
        assert_eq!(tell(&store, 1, Shipped::Known).await, Answer::Nothing);
        assert_eq!(done(&store).await, [token(1)], "it is whole, and durable now");
        let anew = Answer::From(ShipFrom { token: token(2), offsets: [0; 3] });
        assert_eq!(tell(&store, 2, Shipped::Known).await, anew);
        store.take(&worker("w"), piece(2, LogStream::Stdout, 0, b"one\ntwo\n")).await;
        tell(&store, 2, Shipped::Ended { bytes: [8, 0, 0] }).await;
        flush(&store, 2).await;
        for (counter, text) in [(1, &b"before\n"[..]), (2, b"one\ntwo\n")] {
            let reader = reader(&store, counter).await.unwrap();
            assert_eq!(whole(&reader, LogStream::Stdout).await, text);
            assert_eq!(reader.log.state().close, Close::Ended);
        }
    });
}
