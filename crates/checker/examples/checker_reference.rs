//! Writes `docs/reference/checker.md` anew.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/checker.md");
    std::fs::write(page, tidemill_checker::reference())
}
