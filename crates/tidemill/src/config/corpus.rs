//! Configuration files and variables as people write them, and worse.

use std::path::Path;

use tidemill_corpus::corpus;

use super::{Loaded, Settings, as_json, as_table, load, settings};

/// The settings are in effect as they are told, and survive being written; of secrets nothing is shown.
fn is_sound(loaded: &Loaded) {
    let written = serde_json::to_value(&loaded.settings).unwrap();
    assert_eq!(serde_json::from_value::<Settings>(written).unwrap(), loaded.settings);
    let (json, table) = (as_json(loaded), as_table(loaded));
    assert_eq!(json.as_object().map(|fields| fields.len()), Some(loaded.values.len()));
    assert!(table.lines().count() > loaded.values.len());
    for secret in settings::SECRET {
        let (value, _) = &loaded.values[*secret];
        let shown = &json[*secret]["value"];
        assert!(value.is_null() && shown.is_null() || shown == "(hidden)", "{secret} is shown as {shown}");
    }
}

/// OPS-1: a file is refused by its name, or every setting of it is in effect.
#[test]
fn configuration_files_are_refused_by_name_or_in_force() {
    corpus!("config").fuzz(150, |input| {
        let text = String::from_utf8_lossy(input);
        match load(Some((Path::new("t.toml"), &text)), &[], &[]) {
            Ok(loaded) => is_sound(&loaded),
            Err(failure) => {
                let told = failure.to_string();
                // What is wrong between two settings names them, not where they stand.
                assert!(told.contains("t.toml") || told.starts_with("error: "), "{told}");
            }
        }
    });
}

/// OPS-1: so are variables, one on each line.
#[test]
fn variables_are_refused_by_name_or_in_force() {
    corpus!("variable").fuzz(150, |input| {
        let text = String::from_utf8_lossy(input);
        let variable = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let vars: Vec<_> = text.lines().filter_map(|line| line.split_once('=')).map(variable).collect();
        match load(None, &vars, &[]) {
            Ok(loaded) => is_sound(&loaded),
            Err(failure) => assert!(failure.to_string().starts_with("error: "), "{failure}"),
        }
    });
}
