//! Paths as people write them, and worse.

use tidemill_corpus::corpus;

use super::{LONGEST, Path};

/// A path is refused by field, value and rule, or has one form, which is its own, and parts that lie in it.
#[test]
fn paths_are_refused_or_have_one_form() {
    corpus!("path").fuzz(1_000, |input| {
        let text = String::from_utf8_lossy(input);
        for name_node in [Some("nn1:8020"), None] {
            let path = match Path::parse("path", &text, name_node) {
                Ok(path) => path,
                Err(error) => {
                    assert!(
                        text.starts_with(&error.value) && error.field == "path" && !error.rule.is_empty()
                    );
                    continue;
                }
            };
            let form = path.as_str();
            assert!(form.len() <= LONGEST, "{} bytes", form.len());
            assert_eq!(Path::parse("path", form, None).as_ref(), Ok(&path));
            assert!(form.ends_with(path.inside()), "{form}");
            assert!(!path.authority().name().is_empty() && form.starts_with(path.directory()), "{form}");
            if let Some((directory, name)) = path.entry() {
                assert!(!name.contains('/') && path.inside().starts_with(directory), "{form}");
            }
        }
    });
}
