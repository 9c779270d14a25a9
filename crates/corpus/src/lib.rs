//! What outsiders send, as files that are committed, and what they could send, as mutations of those files.
//!
//! ```text
//!  tests/corpus/cron/*  ─► each as it is ─┐
//!        │                                ├─► check(bytes): no panic, no more than a bounded time
//!        └─► mutated, seed by seed ───────┘         │
//!                                                   └─ a failure is shrunk and kept: tests/corpus/cron/crash-…
//! ```
//! A test names its target, [`Corpus::fuzz`] does the rest. The same seed gives the same inputs on every machine:
//!
//! - `TIDEMILL_FUZZ_SEED`: the first seed; without it a fixed one, so that tests are the same every time.
//! - `TIDEMILL_FUZZ_SECONDS`: seeds one after the other for so long per target; without it one seed.
//! - `TIDEMILL_FUZZ_COUNTS`: a file to which each target appends how many inputs it has tried.
//!
//! `docs/fuzzing.md` lists whose bytes are tried, and what is not.
//!
//! There is no feedback by coverage: what finds its way through a decoder does so because the corpus has an
//! example of it, and because edits know numbers, words and JSON.

mod edit;
mod json;
mod peer;
mod run;
mod watch;

pub use peer::Peer;
pub use run::Corpus;

/// The corpus `tests/corpus/NAME` of the workspace.
#[macro_export]
macro_rules! corpus {
    ($name:literal) => {
        $crate::Corpus::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/corpus/", $name))
            .of(env!("CARGO_PKG_NAME"))
    };
}
