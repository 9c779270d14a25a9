//! Events of a feed, which a newer server may give another form.

use tidemill_corpus::corpus;

use super::line;

/// Any event is shown on one line, so that `grep` and `awk` see each.
#[test]
fn any_event_is_one_line() {
    corpus!("event").fuzz(1_000, |input| {
        let Ok(event) = serde_json::from_slice(input) else { return };
        let line = line(&event);
        assert!(!line.is_empty() && !line.contains('\n'), "{line:?}");
    });
}
