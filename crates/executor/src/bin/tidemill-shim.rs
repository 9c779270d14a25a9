//! The server of shims by itself: `tidemill-shim DIR` is what `tidemill shim DIR` is.

use std::path::Path;

fn main() {
    let Some(dir) = std::env::args_os().nth(1) else {
        eprintln!("usage: tidemill-shim DIR");
        std::process::exit(2);
    };
    std::process::exit(tidemill_executor::shim_main(Path::new(&dir)));
}
