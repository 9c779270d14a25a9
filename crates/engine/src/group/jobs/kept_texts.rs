//! Named texts of logical times that left a job's history, parameters or values, within a bound.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_derive::Stored;
use tidemill_model::Timestamp;

use crate::group::jobs::times::Times;

/// What an entry takes beside its texts.
const ENTRY_BYTES: usize = 64;

pub(crate) type Texts = BTreeMap<String, String>;

/// What is known of the texts of one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kept<'a> {
    /// There were none.
    Nothing,
    /// These.
    These(&'a Arc<Texts>),
    /// There were some, and there was no room to keep them.
    Dropped,
}

impl<'a> Kept<'a> {
    pub(crate) fn of(texts: Option<&'a Arc<Texts>>) -> Self {
        texts.map_or(Kept::Nothing, Kept::These)
    }

    pub(crate) fn texts(self) -> Option<&'a Texts> {
        match self {
            Kept::These(texts) => Some(texts),
            Kept::Nothing | Kept::Dropped => None,
        }
    }
}

/// By time. Equal ones are kept once.
#[derive(Debug, Clone, Default, PartialEq, Stored)]
pub(crate) struct KeptTexts {
    by_time: BTreeMap<Timestamp, Arc<Texts>>,
    /// All that there are, and of how many times.
    distinct: BTreeMap<Arc<Texts>, u32>,
    bytes: usize,
    most: usize,
    /// Times that had some which are not kept.
    dropped: Times,
}

impl KeptTexts {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    pub(crate) fn get(&self, time: Timestamp) -> Kept<'_> {
        match self.by_time.get(&time) {
            Some(texts) => Kept::These(texts),
            None if self.dropped.contains(time) => Kept::Dropped,
            None => Kept::Nothing,
        }
    }

    /// What the time has from now on. Where that is too much, the oldest go.
    pub(crate) fn put(&mut self, time: Timestamp, texts: Option<&Arc<Texts>>) {
        self.take(time);
        self.dropped.remove(time);
        let Some(texts) = texts.filter(|texts| !texts.is_empty()) else { return };
        let shared = match self.distinct.get_key_value(texts) {
            Some((known, _)) => Arc::clone(known),
            None => {
                self.bytes += size(texts);
                Arc::clone(texts)
            }
        };
        *self.distinct.entry(Arc::clone(&shared)).or_default() += 1;
        self.by_time.insert(time, shared);
        self.bytes += ENTRY_BYTES;
        while self.bytes > self.most
            && let Some(oldest) = self.by_time.keys().next().copied()
        {
            self.take(oldest);
            self.dropped.insert(oldest);
        }
    }

    /// The time had some, which are not known here.
    pub(crate) fn drop_of(&mut self, time: Timestamp) {
        self.take(time);
        self.dropped.insert(time);
    }

    fn take(&mut self, time: Timestamp) {
        let Some(texts) = self.by_time.remove(&time) else { return };
        self.bytes -= ENTRY_BYTES;
        let Some(times) = self.distinct.get_mut(&texts) else { return };
        *times -= 1;
        if *times == 0 {
            self.distinct.remove(&texts);
            self.bytes -= size(&texts);
        }
    }
}

fn size(texts: &Texts) -> usize {
    texts.iter().map(|(name, text)| name.len() + text.len() + ENTRY_BYTES).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn texts(text: &str) -> Arc<Texts> {
        Arc::new(Texts::from([("x".to_owned(), text.to_owned())]))
    }

    /// Equal texts take their bytes once, and beyond the bound the oldest go, which is known of them.
    #[test]
    fn the_oldest_go_and_are_known_to_be_gone() {
        let mut kept = KeptTexts::new(2_000);
        for second in 0..20 {
            kept.put(at(second), Some(&texts("the same")));
        }
        kept.put(at(20), None);
        assert_eq!(kept.distinct.len(), 1);
        assert!((0..20).all(|second| kept.get(at(second)) == Kept::These(&texts("the same"))));
        assert_eq!(kept.get(at(20)), Kept::Nothing);
        for second in 20..30 {
            kept.put(at(second), Some(&texts(&second.to_string())));
        }
        assert!(kept.bytes <= 2_000);
        assert_eq!((kept.get(at(0)), kept.get(at(29))), (Kept::Dropped, Kept::These(&texts("29"))));
        kept.put(at(0), None);
        assert_eq!(kept.get(at(0)), Kept::Nothing);
        for second in 0..30 {
            kept.put(at(second), None);
        }
        assert_eq!(kept, KeptTexts { dropped: kept.dropped.clone(), ..KeptTexts::new(2_000) });
    }
}
