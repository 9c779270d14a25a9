//! The page of the reference, as Markdown.

use std::fmt::Write as _;

use crate::{Invariant, Void};

/// What stands in `docs/reference/checker.md`.
#[must_use]
pub fn reference() -> String {
    let mut page = String::from(
        "# What the checker checks\n\nGenerated from the crate `checker`; a test compares.\n\n\
         `tidemill verify --journal [SOURCE]` holds a journal against every rule below: a cluster's on Kafka, a data\n\
         directory's, also while a process serves it, or that of a file which `tidemill journal export FILE` has\n\
         written. The simulator and the tests of whole clusters use the same rules. They are written a second time,\n\
         from commands and journals alone, and share no code with the program that they judge.\n\n\
         A finding names the place of the record, `partition:offset`, the rule, what was found, and the earlier\n\
         records that it contradicts. Exit code 12: there are findings. Rules *at quiescence* need `--at-rest`.\n\n\
         | invariant | what holds |\n|---|---|\n",
    );
    for rule in Invariant::ALL {
        writeln!(page, "| `{}` | {} |", rule.name(), rule.sentence()).expect("texts take what is written");
    }
    page.push_str(
        "\n## Void records\n\nRecords that do not count, and are no findings where a sound log can have them: the late\n\
         append of a deposed owner is what the chain is for.\n\n| why | |\n|---|---|\n",
    );
    for void in Void::ALL {
        let name = serde_json::to_value(void).expect("a name is JSON");
        writeln!(page, "| `{}` | {void} |", name.as_str().unwrap_or_default())
            .expect("texts take what is written");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_what_the_crate_says() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/checker.md");
        let written = std::fs::read_to_string(page).unwrap_or_default();
        assert!(
            written == reference(),
            "docs/reference/checker.md is not what the crate says; `make schemas` writes it"
        );
    }
}
