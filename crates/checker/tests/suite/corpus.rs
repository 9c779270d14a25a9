//! Journals and exported files that nobody should have written: the checker reports, and never panics.

use serde_json::Value;
use tidemill_checker::{Checker, Options, check_file};
use tidemill_corpus::corpus;
use tidemill_log::{Chain, Genesis, Kind, LogId};

/// A journal whose chain is right, with these bodies.
fn accepted(bodies: Vec<Value>) -> Vec<Vec<u8>> {
    let log_id = LogId::try_from("corpus".to_owned()).unwrap();
    let mut chain = Chain::new();
    let mut records = vec![Genesis { log_id, partition: 0, count: 1 }.record()];
    chain.accept(0, &records[0].as_slice().into());
    let claim = chain.head().unwrap().claim("owner", "127.0.0.1:1").unwrap();
    chain.accept(1, &claim.as_slice().into());
    records.push(claim);
    let mut tip = chain.head().unwrap().tip();
    for body in bodies {
        // One that is too large for a frame is in no journal.
        let Ok((record, next)) = tip.next(Kind::Envelope, serde_json::to_vec(&body).unwrap()) else {
            continue;
        };
        tip = next;
        records.push(record);
    }
    records
}

#[test]
fn any_accepted_journal_is_checked() {
    corpus!("fold").fuzz(250, |input| {
        let Ok(bodies) = serde_json::from_slice::<Vec<Value>>(input) else { return };
        let mut checker = Checker::new(Options { at_rest: true, effects: true, ..Options::default() });
        for (offset, record) in (0..).zip(accepted(bodies)) {
            checker.push_timed(0, offset, 1_782_900_000_000, &record);
        }
        let report = checker.finish();
        assert!(report.voids.is_empty(), "the chain is right: {report}");
    });
}

#[test]
fn any_file_is_checked_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.journal");
    corpus!("export").fuzz(1_500, |input| {
        std::fs::write(&path, input).unwrap();
        match check_file(&path, Options { at_rest: true, ..Options::default() }) {
            Ok(report) => assert!(!report.to_string().is_empty()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
}
