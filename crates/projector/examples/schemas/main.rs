//! Writes what is generated below `schemas/` and docs/reference/events.md anew, and a golden file for every event that has none yet.
//! A golden file that is there is never touched: it is what older versions have written.

mod example;

use std::fs;
use std::path::Path;

use tidemill_projector::schemas;

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas");
    for generated in ["events", "commands"] {
        if root.join(generated).exists() {
            fs::remove_dir_all(root.join(generated))?;
        }
        fs::create_dir_all(root.join(generated))?;
    }
    for (path, text) in schemas::files() {
        fs::write(root.join(path), text)?;
    }
    fs::write(root.join("../docs/reference/events.md"), schemas::page())?;
    let golden = root.join("golden/v1");
    fs::create_dir_all(&golden)?;
    for event in example::events() {
        let path = golden.join(format!("{}.json", event.kind()));
        if !path.exists() {
            fs::write(path, serde_json::to_string_pretty(&event)? + "\n")?;
        }
    }
    Ok(())
}
