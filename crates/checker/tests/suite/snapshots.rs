//! Snapshots, which name a record that counts.

use serde_json::json;
use tidemill_checker::Invariant;
use tidemill_log::Tip;
use tidemill_model::Event;

use crate::kit::{Case, History, case, event};

/// Genesis, claim, and the two records that bring the level: the next one has this offset.
const NEXT: u64 = 4;

pub(crate) fn cases() -> Vec<Case> {
    let rule = Invariant::SnapshotsNameAcceptedRecords;
    let named = |change: fn(&mut Named)| {
        let history = raised();
        let mut named = Named { offset: NEXT - 1, tip: history.tip() };
        change(&mut named);
        history.timer([named.event()])
    };
    let good = || named(|_| {});
    vec![
        case(rule, "its hash is another one", good(), named(|it| it.tip.hash = tidemill_log::Hash::of(b"x"))),
        case(rule, "its epoch is another one", good(), named(|it| it.tip.epoch += 1)),
        case(rule, "its number is another one", good(), named(|it| it.tip.seq += 1)),
        case(rule, "another record has that offset", good(), named(|it| it.offset -= 1)),
        case(rule, "the record is yet to come", good(), named(|it| it.offset += 2)),
        case(rule, "the record is the one that names it", good(), named(|it| it.offset += 1)),
    ]
}

struct Named {
    offset: u64,
    tip: Tip,
}

impl Named {
    fn event(&self) -> Event {
        let Tip { epoch, seq, hash } = self.tip;
        event(json!({"partition": {"snapshot_taken": {
            "offset": self.offset, "epoch": epoch, "seq": seq, "hash": hash.to_string(),
            "form": "0123456789abcdef", "digest": hash.to_string(), "bytes": 1,
        }}}))
    }
}

/// Level 2 stands.
fn raised() -> History {
    let process = json!({
        "id": "a", "host": "h", "roles": ["api"], "version": "1", "reads": 2, "expire_after_ms": 60_000,
    });
    let registered = event(json!({"level": {"process_registered": {"process": process}}}));
    let raised = event(json!({"level": {"raised": {"level": 2}}}));
    History::new().on(0, 0).timer([registered]).timer([raised])
}
