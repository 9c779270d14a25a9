//! What is read of the journal and the read tables, whatever the sink.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::kit::{Fixture, Running, until};
use tidemill_journal::Shutdown;
use tidemill_log::Head;
use tidemill_projector::{Config, purge, rebuild};
use tidemill_sinks::{Batch, Error, Opener, Sink, Stored};
use tidemill_store::rows::PullGrantRow;

/// Where a partition of the sink stands, and the grants whose changes came.
type Stand = (Option<Head>, BTreeSet<i64>);

/// What the sink has, by partition.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<u32, Stand>>>);

struct Seeing {
    seen: Seen,
    partition: u32,
}

impl Seen {
    fn opener(&self) -> Opener {
        let seen = self.clone();
        let open = move |partition| Ok(Box::new(Seeing { seen: seen.clone(), partition }) as Box<dyn Sink>);
        Opener { name: "seen", open: Box::new(open) }
    }

    fn all(&self) -> BTreeSet<i64> {
        self.0.lock().unwrap().values().flat_map(|(_, grants)| grants).copied().collect()
    }
}

impl Sink for Seeing {
    fn position(&mut self) -> Result<Option<Head>, Error> {
        Ok(self.seen.0.lock().unwrap().entry(self.partition).or_default().0.clone())
    }

    fn write(&mut self, batch: Batch) -> Result<Stored, Error> {
        let (offset, changes) = (batch.head.offset, batch.changes.len());
        let mut seen = self.seen.0.lock().unwrap();
        let (head, grants) = seen.entry(self.partition).or_default();
        grants.extend(batch.changes.iter().map(|change| change.given.grant));
        *head = Some(batch.head);
        Ok(Stored { offset: Some(offset), changes })
    }

    fn rest(&mut self, _: bool) -> Result<Stored, Error> {
        Ok(Stored::default())
    }
}

fn stopped(running: &Running, partition: u32) -> String {
    let stopped = || running.partitions().into_iter().find(|it| it.partition == partition && it.stopped);
    until("the partition stops", || stopped().is_some());
    stopped().unwrap().error.unwrap()
}

/// PUL-12, PUL-14: what has left the tables by age is passed over; a younger grant that is missing stops its partition,
/// however far it has ended, and is named. Tables that are rebuilt have it again.
#[test]
fn younger_grant_that_is_missing_stops_the_partition() {
    let mut fixture = Fixture::new(41);
    fixture.works(40);
    let whole = fixture.grants();
    let middle = {
        let mut times: Vec<_> = whole.values().map(|grant| grant.granted_at).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    let tables = Arc::clone(&fixture.database.tables);
    let tables = &*tables;
    let before = tidemill_model::Timestamp::from_millisecond(middle).unwrap();
    let purged = purge(tables, before, &Shutdown::new()).unwrap();
    let kept = fixture.grants();
    assert!(purged > 0 && kept.len() < whole.len());
    let seen = Seen::default();
    let running = fixture.start(vec![seen.opener()]);
    running.catch_up(&fixture);
    running.stop().unwrap();
    assert!(seen.all().iter().eq(kept.keys()));

    // Not older than the horizon, and live as far as the sink has read: its end finds no row, which is not by age.
    let young = |grant: &&PullGrantRow| grant.granted_at >= middle && &*grant.state == "live";
    let lost = kept.values().find(young).unwrap();
    while &*fixture.grants()[&lost.id].state == "live" {
        fixture.works(1);
    }
    let generation = tables.active().unwrap().unwrap().number;
    fixture.database.by_hand(&format!("DELETE FROM g{generation}_pull_grants WHERE id = {}", lost.id));
    let running = fixture.start(vec![seen.opener()]);
    let told = stopped(&running, u32::try_from(lost.shard).unwrap() - 1);
    assert!(told.contains(&format!("lack grant {}", lost.id)) && told.contains("tidemill rebuild"), "{told}");
    running.stop().unwrap_err();
    rebuild(&Config::default(), &*fixture.log, tables, &Shutdown::new(), &mut |_| {}).unwrap();
    let running = fixture.start(vec![seen.opener()]);
    running.catch_up(&fixture);
    running.stop().unwrap();
    assert!(fixture.grants().contains_key(&lost.id));
    assert!(fixture.grants().into_keys().all(|grant| seen.all().contains(&grant)));
}
