//! Where tests plant bugs: without the feature `planted`, which only `make planted` switches on, there are none.
//!
//! Every crate with such a place has this file as its module `planted`, so that its own feature decides.

/// `planted!(Bug)` tells whether a bug is switched on; `planted!(Bug => what)` does what it does wrong.
#[cfg(feature = "planted")]
macro_rules! planted {
    ($bug:ident) => {
        tidemill_planted::is(tidemill_planted::Bug::$bug)
    };
    ($bug:ident => $wrong:expr) => {
        if tidemill_planted::is(tidemill_planted::Bug::$bug) {
            $wrong
        }
    };
}
#[cfg(not(feature = "planted"))]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
    ($bug:ident => $wrong:expr) => {};
}
