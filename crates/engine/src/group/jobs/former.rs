//! The names that a job had: batches keep the definitions they were generated with, whose templates name parents as they
//! were called then (BYD-20, JOB-9).

/// Older names are not kept.
const MAX_NAMES: usize = 16;

/// Full names, the newest last.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FormerNames(Vec<String>);

impl FormerNames {
    /// A definition with this name replaces one with that.
    pub(crate) fn note(&mut self, old: &str, new: &str) {
        if old == new {
            return;
        }
        self.0.retain(|name| name != old && name != new);
        self.0.push(old.to_owned());
        if self.0.len() > MAX_NAMES {
            self.0.remove(0);
        }
    }

    pub(crate) fn had(&self, name: &str) -> bool {
        self.0.iter().any(|former| former == name)
    }
}
