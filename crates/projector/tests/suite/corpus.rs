//! Journals that nobody should have written, and cursors that no feed gave: tables and feed take them or say
//! why not.

use std::time::Duration;

use crate::support::{Database, Owner, catalogue, log};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use tidemill_corpus::corpus;
use tidemill_model::Envelope;
use tidemill_projector::{Config, FeedCursor, FeedReader, Shutdown, cloud_event, rebuild};
use tidemill_store::Cursor;

/// EVT-2: whatever an accepted journal says, the fold into rows comes to an end, and so do its events.
#[test]
fn any_accepted_journal_is_projected_or_stops_with_its_reason() {
    corpus!("fold").fuzz(40, |input| {
        let Ok(bodies) = serde_json::from_slice::<Vec<Value>>(input) else { return };
        let (_, log) = log(1);
        let mut owner = Owner::claim(&*log, 0);
        for body in bodies {
            let body = serde_json::to_vec(&body).unwrap();
            if body.len() < 500_000 {
                let offset = owner.write(body.clone());
                let Ok(envelope) = serde_json::from_slice::<Envelope>(&body) else { continue };
                for index in 0..envelope.events.len() {
                    let event = cloud_event(log.log_id(), 0, offset, index, &envelope);
                    let Some(event) = event else { continue };
                    assert!(serde_json::from_slice::<Value>(&event.json).is_ok());
                }
            }
        }
        let database = Database::new();
        if let Err(error) =
            rebuild(&Config::default(), &*log, &*database.tables, &Shutdown::new(), &mut |_| {})
        {
            assert!(!error.to_string().is_empty());
        }
    });
}

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
