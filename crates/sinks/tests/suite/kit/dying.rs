//! A sink that is lost now and then, before it did what it was told, or after.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_log::Head;
use tidemill_sinks::{Batch, Error, Opener, Sink, Stored};

/// The sinks of `inner`, which die at every third or so of their first calls; each death is counted.
pub(crate) fn dying(inner: Opener, deaths: u64) -> (Opener, Arc<AtomicU64>) {
    let died = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&died);
    let calls = Arc::new(AtomicU64::new(0));
    let (name, open) = (inner.name, inner.open);
    let open = move |partition| {
        let sink = open(partition)?;
        let (died, calls) = (Arc::clone(&counted), Arc::clone(&calls));
        Ok(Box::new(Dying { sink, died, calls, deaths }) as Box<dyn Sink>)
    };
    (Opener { name, open: Box::new(open) }, died)
}

struct Dying {
    sink: Box<dyn Sink>,
    died: Arc<AtomicU64>,
    calls: Arc<AtomicU64>,
    deaths: u64,
}

impl Dying {
    /// 0: lives; 1: dies before; 2: dies after.
    fn fate(&self) -> u64 {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let fate = [0, 2, 0, 1, 2, 0, 0][(call % 7) as usize];
        if fate > 0 && self.died.fetch_add(1, Ordering::SeqCst) < self.deaths { fate } else { 0 }
    }

    fn lives(&mut self, act: impl FnOnce(&mut dyn Sink) -> Result<Stored, Error>) -> Result<Stored, Error> {
        let killed = || Error::Outage { what: "live", place: "here".to_owned(), source: "killed".into() };
        match self.fate() {
            0 => act(&mut *self.sink),
            1 => Err(killed()),
            _ => act(&mut *self.sink).and_then(|_| Err(killed())),
        }
    }
}

impl Sink for Dying {
    fn position(&mut self) -> Result<Option<Head>, Error> {
        self.sink.position()
    }

    fn write(&mut self, batch: Batch) -> Result<Stored, Error> {
        self.lives(|sink| sink.write(batch))
    }

    fn rest(&mut self, last: bool) -> Result<Stored, Error> {
        self.lives(|sink| sink.rest(last))
    }
}
