//! The feed as it comes from a journal.

use std::sync::Arc;
use std::time::Duration;

use tidemill_api::JournalFeed;
use tidemill_api::ports::{Feed, FeedError, FeedEvent, FeedFrom};
use tidemill_log::MemoryLog;
use tidemill_store::SqliteTables;

const WAIT: Duration = Duration::from_millis(10);

#[test]
fn a_journal_without_facts_has_an_empty_feed_and_foreign_cursors_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let tables = Arc::new(SqliteTables::open(directory.path().join("tables.sqlite")).unwrap());
    let feed = JournalFeed::new(Arc::new(MemoryLog::new(2)), tables.clone());
    let key: Arc<str> = "app".into();
    for from in [FeedFrom::Start, FeedFrom::End] {
        let events: Vec<FeedEvent> = feed.open(&key, from).unwrap().poll(10, WAIT).unwrap();
        assert_eq!(events, []);
    }
    let other = MemoryLog::new(2);
    let foreign = tidemill_journal::FeedCursor::start(tidemill_log::Readers::log_id(&other)).to_string();
    for cursor in ["xx".to_owned(), foreign] {
        let refused = feed.open(&key, FeedFrom::Cursor(cursor.clone())).map(drop);
        assert!(
            matches!(&refused, Err(FeedError::BadCursor { cursor: named }) if *named == cursor),
            "{refused:?}"
        );
    }
}
