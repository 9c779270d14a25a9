//! What is read of the journal and the read tables, whatever the sink.

#![allow(clippy::unwrap_used, reason = "a test panics where it fails")]

mod kit;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use kit::{Running, Site, until};
use tidemill_log::Head;
use tidemill_projector::{Config, Shutdown, purge, rebuild};
use tidemill_sinks::{Batch, Error, Opener, Sink, Stored};

/// The grants whose changes came, by partition. It begins anew with every session.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<u32, BTreeSet<i64>>>>);

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
        self.0.lock().unwrap().values().flatten().copied().collect()
    }
}

impl Sink for Seeing {
    fn position(&mut self) -> Result<Option<Head>, Error> {
        self.seen.0.lock().unwrap().insert(self.partition, BTreeSet::new());
        Ok(None)
    }

    fn write(&mut self, batch: Batch) -> Result<Stored, Error> {
        let grants = batch.changes.iter().map(|change| change.given.grant);
        self.seen.0.lock().unwrap().entry(self.partition).or_default().extend(grants);
        Ok(Stored { offset: Some(batch.head.offset), changes: batch.changes.len() })
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
/// however far it has ended, and is named. Tables that are made anew have it again.
#[test]
fn younger_grant_that_is_missing_stops_the_partition() {
    let mut site = Site::new(41);
    site.works(40);
    let whole = site.grants();
    let middle = {
        let mut times: Vec<_> = whole.values().map(|grant| grant.granted_at).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    let tables = &*site.database.tables;
    let before = jiff::Timestamp::from_millisecond(middle).unwrap();
    let purged = purge(tables, before, &Shutdown::new()).unwrap();
    let kept = site.grants();
    assert!(purged > 0 && kept.len() < whole.len());
    let seen = Seen::default();
    let running = site.start(vec![seen.opener()]);
    running.catch_up(&site);
    running.stop().unwrap();
    assert!(seen.all().iter().eq(kept.keys()));

    // The first that is not older than the horizon and is over, and the last: by hand, and not by age.
    let young = |grant: &&tidemill_store::rows::PullGrantRow| {
        grant.granted_at >= middle && &*grant.state == "completed"
    };
    for lost in [kept.values().find(young).unwrap(), kept.values().rfind(young).unwrap()] {
        let generation = tables.active().unwrap().unwrap().number;
        site.database.by_hand(&format!("DELETE FROM g{generation}_pull_grants WHERE id = {}", lost.id));
        let running = site.start(vec![seen.opener()]);
        let told = stopped(&running, u32::try_from(lost.shard).unwrap() - 1);
        assert!(
            told.contains(&format!("lack grant {}", lost.id)) && told.contains("tidemill rebuild"),
            "{told}"
        );
        running.stop().unwrap_err();
        rebuild(&Config::default(), &*site.log, tables, &Shutdown::new(), &mut |_| {}).unwrap();
        let running = site.start(vec![seen.opener()]);
        running.catch_up(&site);
        running.stop().unwrap();
        assert!(seen.all().iter().eq(kept.keys()));
    }
}
