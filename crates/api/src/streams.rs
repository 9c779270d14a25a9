//! Answers that go on: how many of them are open, over all and for each key (OPS-7).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Problem;

/// The answers that go on.
pub(crate) struct Streams {
    bound: usize,
    per_key: usize,
    open: Mutex<HashMap<Arc<str>, usize>>,
}

/// A place among them, until it is dropped.
pub(crate) struct OpenStream {
    all: Arc<Streams>,
    key: Arc<str>,
}

impl Streams {
    pub(crate) fn new(bound: usize, per_key: usize) -> Arc<Self> {
        Arc::new(Self { bound, per_key, open: Mutex::default() })
    }

    /// How many are open.
    pub(crate) fn count(&self) -> u32 {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        u32::try_from(open.values().sum::<usize>()).unwrap_or(u32::MAX)
    }

    /// A place for a stream of this key.
    pub(crate) fn open(self: &Arc<Self>, key: &Arc<str>) -> Result<OpenStream, Problem> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own) = (open.values().sum::<usize>(), open.get(key).copied().unwrap_or(0));
        if own >= self.per_key {
            let detail = format!(
                "key {key} has {own} event streams and downloads open, the bound for one key (max_streams_per_key)"
            );
            return Err(Problem::overloaded(detail, 5));
        }
        if all >= self.bound {
            let detail = format!("{all} event streams and downloads are open, the bound (max_streams)");
            return Err(Problem::overloaded(detail, 5));
        }
        open.insert(Arc::clone(key), own + 1);
        Ok(OpenStream { all: Arc::clone(self), key: Arc::clone(key) })
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut open = self.all.open.lock().unwrap_or_else(PoisonError::into_inner);
        match open.get_mut(&self.key) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(open.remove(&self.key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OPS-7
    #[test]
    fn one_key_leaves_streams_for_others() {
        let streams = Streams::new(3, 2);
        let (greedy, other): (Arc<str>, Arc<str>) = ("greedy".into(), "other".into());
        let own = [streams.open(&greedy).unwrap(), streams.open(&greedy).unwrap()];
        assert_eq!(streams.open(&greedy).err().unwrap().code, "overloaded");
        let _others = streams.open(&other).unwrap();
        assert!(streams.open(&other).err().unwrap().detail.contains("max_streams)"));
        drop(own);
        assert!(streams.open(&greedy).is_ok());
    }
}
