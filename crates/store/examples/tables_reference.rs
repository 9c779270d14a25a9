//! Writes `docs/reference/tables.md` anew.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/tables.md");
    std::fs::create_dir_all(page.parent().expect("the page is in a directory"))?;
    std::fs::write(page, tidemill_store::reference())
}
