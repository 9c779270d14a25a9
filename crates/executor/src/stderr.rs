//! What a process of the executor says to whoever reads its standard error, if anybody does.

use std::fmt::Arguments;
use std::io::{self, Write as _};

/// One line. Its reader may be gone, or its disk full: that ends nothing here, as it would with `eprintln`.
pub(crate) fn say(text: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}
