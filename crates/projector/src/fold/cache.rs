//! Rows of one table, those that are known not to be there, and which of them changed.

use rustc_hash::FxHashMap;
use tidemill_store::{Error, Row, TableChanges, Value};

struct Slot<R> {
    row: Option<R>,
    changed: bool,
}

/// The known rows of one table.
pub(super) struct Cache<R: Row> {
    slots: FxHashMap<R::Key, Slot<R>>,
    changed: Vec<R::Key>,
    missing: Vec<R::Key>,
    /// What came in or changed since the last [`Cache::settle`].
    recent: Vec<R::Key>,
    /// Which rows [`Cache::settle`] leaves.
    pub(super) stays: fn(&R) -> bool,
}

impl<R: Row> Default for Cache<R> {
    fn default() -> Self {
        let (changed, missing, recent) = Default::default();
        Self { slots: FxHashMap::default(), changed, missing, recent, stays: |_| false }
    }
}

impl<R: Row> Cache<R> {
    /// Notes that this row will be changed or read.
    pub(super) fn need(&mut self, key: R::Key) {
        if !self.slots.contains_key(&key) {
            self.missing.push(key.clone());
            self.expect_new(key);
        }
    }

    /// Notes that this row comes into being now, so that it need not be asked for.
    pub(super) fn expect_new(&mut self, key: R::Key) {
        if !self.slots.contains_key(&key) {
            self.slots.insert(key.clone(), Slot { row: None, changed: false });
            self.recent.push(key);
        }
    }

    pub(super) fn take_missing(&mut self) -> Vec<Vec<Value>> {
        let mut missing = std::mem::take(&mut self.missing);
        missing.sort();
        missing.iter().map(R::key_values).collect()
    }

    pub(super) fn provide(&mut self, rows: Vec<Vec<Value>>) -> Result<(), Error> {
        for values in rows {
            let row = R::from_values(values)?;
            self.slots.insert(row.key(), Slot { row: Some(row), changed: false });
        }
        Ok(())
    }

    pub(super) fn get(&self, key: &R::Key) -> Option<&R> {
        self.slots.get(key).and_then(|slot| slot.row.as_ref())
    }

    /// Changes a row, where it is there.
    pub(super) fn change(&mut self, key: R::Key, change: impl FnOnce(&mut R)) {
        let Some(slot) = self.slots.get_mut(&key) else { return };
        let Some(row) = &mut slot.row else { return };
        change(row);
        if !std::mem::replace(&mut slot.changed, true) {
            self.changed.push(key);
        }
    }

    /// Makes a row, or replaces it.
    pub(super) fn put(&mut self, row: R) {
        self.set(row.key(), Some(row));
    }

    /// Removes a row, whether it is there or not.
    pub(super) fn remove(&mut self, key: R::Key) {
        self.set(key, None);
    }

    fn set(&mut self, key: R::Key, row: Option<R>) {
        let slot = self.slots.entry(key.clone()).or_insert(Slot { row: None, changed: false });
        slot.row = row;
        if !std::mem::replace(&mut slot.changed, true) {
            self.changed.push(key);
        }
    }

    pub(super) fn take_changes(&mut self) -> Option<TableChanges> {
        let mut changed = std::mem::take(&mut self.changed);
        if changed.is_empty() {
            return None;
        }
        changed.sort();
        let mut changes = TableChanges { table: R::TABLE, upserts: Vec::new(), deletes: Vec::new() };
        for key in changed {
            let slot = self.slots.get_mut(&key).expect("what changed stays until it is taken");
            slot.changed = false;
            match &slot.row {
                Some(row) => changes.upserts.push(row.values()),
                None => changes.deletes.push(R::key_values(&key)),
            }
            self.recent.push(key);
        }
        Some(changes)
    }

    /// Of the rows that came in or changed since the last call: drops those that do not stay, and all that are known not
    /// to be there. The changes have to be taken before.
    pub(super) fn settle(&mut self) {
        for key in std::mem::take(&mut self.recent) {
            if self.slots.get(&key).is_some_and(|slot| !slot.row.as_ref().is_some_and(self.stays)) {
                self.slots.remove(&key);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }
}
