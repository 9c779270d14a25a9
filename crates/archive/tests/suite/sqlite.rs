//! The embedded log with an archive in a directory.

use std::path::Path;
use std::sync::Arc;

use tidemill_archive::{Archive, ArchivedLog, Archiver, Bounds, DirectoryStore, When};
use tidemill_log::{Error, From, Log, Readers, SqliteConfig, SqliteLog, SqliteView, Topic};

use crate::kit::{ALL, Step, read_all, take, write};

fn open(directory: &Path) -> Arc<dyn Log> {
    let config = SqliteConfig { partitions: 2, ..SqliteConfig::new(directory) };
    Arc::new(SqliteLog::open(&config, Box::new(|reason| panic!("{reason}"))).unwrap())
}

fn archive(place: &Path, log: &dyn Log) -> Arc<Archive> {
    Arc::new(Archive::new(Arc::new(DirectoryStore::new(place)), log.log_id().clone()))
}

/// OPS-8, EVT-6: everything but the last record leaves the file, which becomes smaller; another process opens it, reads the
/// whole journal through the archive, and goes on with its chain.
#[test]
fn archived_journal_is_read_and_written_on_by_the_next_process() {
    let ground = tempfile::tempdir().unwrap();
    let (data, place) = (ground.path().join("log"), ground.path().join("archive"));
    let log = open(&data);
    write(&*log, 1, &[Step::Claim]);
    write(&*log, 1, &[Step::Envelope(20_000); 200]);
    drop(log);
    let log = open(&data);
    let before = read_all(&*log, 1);
    let full = log.usage().unwrap().bytes.unwrap();
    let archive_of = archive(&place, &*log);
    let bounds = Bounds { segment_bytes: 100_000, ..ALL };
    let cycle =
        Archiver::new(Arc::clone(&log), archive_of, bounds).cycle(&[0, 1], When::Now, &|| false).unwrap();
    assert!(cycle.segments > 30, "{cycle:?}");
    drop(log);

    let log = open(&data);
    assert_eq!(log.range(Topic::Journal, 1).unwrap().start, before.len() as u64 - 1);
    let left = log.usage().unwrap().bytes.unwrap();
    assert!(left * 3 < full, "{left} of {full} bytes are left");
    let through = ArchivedLog::new(Arc::clone(&log), Some(archive(&place, &*log))).unwrap();
    assert_eq!(read_all(&through, 1), before);
    write(&through, 1, &[Step::Claim, Step::Envelope(5), Step::Resign]);
    assert_eq!(read_all(&through, 1).len(), before.len() + 3);

    // Somebody who looks at the file beside it sees the same.
    let view: Arc<dyn Log> = Arc::new(SqliteView::open(&data).unwrap());
    let refused = ArchivedLog::new(Arc::clone(&view), None).err();
    assert!(matches!(refused, Some(Error::JournalBeginsLater { partition: 1, .. })), "{refused:?}");
    let seen = ArchivedLog::new(Arc::clone(&view), Some(archive(&place, &*view))).unwrap();
    assert_eq!(read_all(&seen, 1)[..before.len()], before);
    // While it looks, more leaves the file.
    let mut reader = seen.reader(Topic::Journal, 1, From::Offset(before.len() as u64 - 1)).unwrap();
    let first = take(reader.as_mut(), 1);
    assert_eq!(first, before[before.len() - 1..]);
    let archive_of = archive(&place, &*log);
    Archiver::new(Arc::clone(&log), archive_of, ALL).cycle(&[1], When::Now, &|| false).unwrap();
    assert_eq!(take(reader.as_mut(), 3).last().unwrap().offset, before.len() as u64 + 2);
}
