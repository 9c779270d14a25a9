//! Cursors that no feed gave: they are followed, or it is said why not.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tidemill_corpus::corpus;
use tidemill_journal::{FeedCursor, FeedReader};
use tidemill_store::Cursor;

use crate::support::{Owner, catalogue, log};

/// A cursor is taken or refused; where it is taken it reads the same again, and the feed goes on from it or
/// says that it cannot.
#[test]
fn any_cursor_is_refused_or_followed() {
    let (_, log) = log(2);
    let mut owner = Owner::claim(&*log, 0);
    owner.decide(catalogue());
    corpus!("cursor").fuzz(1_500, |input| {
        let text = String::from_utf8_lossy(input).replace("LOG", log.log_id().as_str());
        for text in [URL_SAFE_NO_PAD.encode(&text), text] {
            if let Ok(cursor) = Cursor::parse(&text) {
                assert_eq!(Cursor::parse(&cursor.to_string()).unwrap(), cursor);
            }
            let Ok(cursor) = FeedCursor::parse(&text) else { continue };
            assert_eq!(FeedCursor::parse(&cursor.to_string()).unwrap(), cursor);
            let follow = || FeedReader::new(&*log, cursor)?.next(Duration::ZERO);
            if let Err(error) = follow() {
                assert!(!error.to_string().is_empty());
            }
        }
    });
}
