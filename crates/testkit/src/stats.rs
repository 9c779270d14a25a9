//! What a history consisted of.

use rustc_hash::FxHashMap;

/// Something that is counted: its class and its name.
pub type Counted = (&'static str, &'static str);

/// How often what happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    counts: FxHashMap<Counted, u64>,
}

impl Stats {
    pub(crate) fn add(&mut self, class: &'static str, name: &'static str) {
        *self.counts.entry((class, name)).or_default() += 1;
    }

    /// How often this happened.
    #[must_use]
    pub fn get(&self, class: &'static str, name: &'static str) -> u64 {
        self.counts.get(&(class, name)).copied().unwrap_or(0)
    }

    /// All of it, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Counted, u64)> + '_ {
        self.counts.iter().map(|(what, count)| (*what, *count))
    }

    /// How often anything of this class happened.
    #[must_use]
    pub fn of_class(&self, class: &str) -> u64 {
        self.counts.iter().filter(|((of, _), _)| *of == class).map(|(_, count)| count).sum()
    }
}
