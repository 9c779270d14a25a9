//! Journals that nobody should have written: tables and feed take them or say why not.

use crate::support::{Database, Owner, log};
use serde_json::Value;
use tidemill_corpus::corpus;
use tidemill_journal::{Shutdown, cloud_events};
use tidemill_model::Envelope;
use tidemill_projector::{Config, rebuild};

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
                for event in cloud_events(log.log_id(), 0, offset, 0, &envelope) {
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
