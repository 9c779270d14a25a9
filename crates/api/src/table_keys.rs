//! Application keys as the tables had them a moment ago: while the journal does not say what holds, each stream asks for its key several
//! times a second.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidemill_directory::Key;

/// Keys as the tables had them a moment ago, for while they are what is asked.
#[derive(Debug, Default)]
pub(crate) struct TableKeys(Mutex<HashMap<String, TableKey>>);

/// When it was read, and what there was.
type TableKey = (Instant, Option<Arc<Key>>);

/// Keys that are kept at once.
const MAX_TABLE_KEYS: usize = 10_000;

impl TableKeys {
    pub(crate) fn get(&self, app: &str, kept_for: Duration) -> Option<Option<Arc<Key>>> {
        let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.get(app).filter(|(read_at, _)| read_at.elapsed() < kept_for).map(|(_, key)| key.clone())
    }

    pub(crate) fn keep(&self, app: &str, key: Option<Arc<Key>>) {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= MAX_TABLE_KEYS {
            keys.clear();
        }
        keys.insert(app.to_owned(), (Instant::now(), key));
    }
}
