//! Tables of another form, beside those in use.

use crate::support::{Database, another_form_is_built_beside, version_before_goes_on_with_its_tables};

/// OPS-2, EVT-7.
#[test]
fn another_form_of_the_tables_is_built_beside_under_load() {
    let database = Database::new();

    another_form_is_built_beside(&|form| database.of_form(form), &|sql| database.by_hand(sql));
}

/// OPS-2.
#[test]
fn the_version_before_goes_on_with_its_tables() {
    let database = Database::new();
    version_before_goes_on_with_its_tables(&|form| database.of_form(form));
}
