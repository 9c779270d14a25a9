//! Application keys while the tables of this version are being built: as the catalogue's journal has them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidemill_journal::{Error, Journal, Start};
use tidemill_log::{Log, Topic};
use tidemill_model::{CatalogueEvent, Event};
use tidemill_store::rows::AppKeyRow;

use crate::ports::Keys;

/// The journal that all definitions are in.
const CATALOGUE: u32 = 0;
/// Records of one poll.
const RECORDS: usize = 128;
/// How long one caller reads; the next one goes on from there.
const PATIENCE: Duration = Duration::from_secs(5);

/// Keys of this log. Nothing is read until the first is asked for; then all that there is, once.
pub struct JournalKeys {
    log: Arc<dyn Log>,
    followed: Mutex<Option<Followed>>,
}

struct Followed {
    journal: Journal,
    next: u64,
    keys: HashMap<String, AppKeyRow>,
}

impl JournalKeys {
    /// Of this log.
    pub fn new(log: Arc<dyn Log>) -> Self {
        Self { log, followed: Mutex::default() }
    }
}

impl Keys for JournalKeys {
    fn key(&self, app: &str) -> Result<Option<AppKeyRow>, String> {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ours = match followed.take() {
            Some(ours) => ours,
            None => Followed::open(&*self.log).map_err(|error| error.to_string())?,
        };
        let range = self.log.range(Topic::Journal, CATALOGUE).map_err(|error| error.to_string())?;
        // What fails is read anew by the next caller.
        ours.read(range.end).map_err(|error| error.to_string())?;
        let (next, found) = (ours.next, ours.keys.get(app).cloned());
        *followed = Some(ours);
        match next < range.end {
            true => Err(format!(
                "the keys are being read from the journal: {next} of {} records so far",
                range.end
            )),
            false => Ok(found),
        }
    }
}

impl Followed {
    fn open(log: &dyn Log) -> Result<Self, Error> {
        let journal = Journal::open(log, CATALOGUE, "the keys", Start::Beginning)?;
        Ok(Self { journal, next: 0, keys: HashMap::new() })
    }

    /// Up to this end, if that does not take too long.
    fn read(&mut self, end: u64) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        while self.next < end && Instant::now() < deadline {
            let read = self.journal.poll(RECORDS, Duration::from_millis(100))?;
            for entry in read.entries {
                let now_ms = entry.envelope.now.as_millisecond();
                entry.envelope.events.iter().for_each(|recorded| self.apply(now_ms, &recorded.event));
            }
            self.next = read.last.map_or(self.next, |last| last + 1);
        }
        Ok(())
    }

    fn apply(&mut self, now_ms: i64, event: &Event) {
        match event {
            Event::Catalogue(CatalogueEvent::KeyDefined { app, hash, role, groups, run_as }) => {
                let json =
                    |list: serde_json::Result<String>| list.expect("a list of names is plain data").into();
                let row = AppKeyRow {
                    app: app.as_str().into(),
                    hash: hash.as_str().into(),
                    role: role.as_str().into(),
                    groups: json(serde_json::to_string(groups)),
                    accounts: json(serde_json::to_string(run_as)),
                    defined_at: now_ms,
                };
                self.keys.insert(app.clone(), row);
            }
            Event::Catalogue(CatalogueEvent::KeyRevoked { app }) => {
                self.keys.remove(app);
            }
            _ => {}
        }
    }
}
