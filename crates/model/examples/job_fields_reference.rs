//! Writes `docs/reference/job-fields.md` again.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/job-fields.md");
    std::fs::write(page, tidemill_model::JobSpec::reference())
}
