//! Where errors stand in a request: the catalogue names them by the change that was sent.

use tidemill_model::{DirectoryChange, DirectoryFile, FieldError, Rejection};

/// Where in a request the entry of a change stands; empty: the request is the entry.
pub(super) type Place<'p> = &'p (dyn Fn(&DirectoryChange) -> String + Sync);

/// The request is one entry.
pub(super) fn alone(_: &DirectoryChange) -> String {
    String::new()
}

/// The request is a file.
pub(super) fn in_file(file: &DirectoryFile) -> impl Fn(&DirectoryChange) -> String + Sync {
    move |change| {
        let at = |list: &str, index: Option<usize>| {
            index.map_or_else(|| list.to_owned(), |index| format!("{list}[{index}]"))
        };
        match change {
            DirectoryChange::Person(person) => {
                at("people", file.people.iter().position(|it| it.name == person.name))
            }
            DirectoryChange::Department(department) => {
                at("departments", file.departments.iter().position(|it| it.name == department.name))
            }
            DirectoryChange::DeletePerson { .. } | DirectoryChange::DeleteDepartment { .. } => {
                "prune".to_owned()
            }
        }
    }
}

/// A refusal of changes, with its fields named as in the request.
pub(super) fn placed(rejection: Rejection, changes: &[DirectoryChange], place: Place<'_>) -> Rejection {
    match rejection {
        Rejection::Invalid { fields } => {
            let fields = fields.into_iter().map(|error| {
                let field = field_of(&error.field, changes, place).unwrap_or(error.field);
                FieldError { field, ..error }
            });
            Rejection::Invalid { fields: fields.collect() }
        }
        other => other,
    }
}

/// `changes[5].person.successor`, as the request has it.
fn field_of(field: &str, changes: &[DirectoryChange], place: Place<'_>) -> Option<String> {
    let (index, rest) = field.strip_prefix("changes[")?.split_once(']')?;
    let change = changes.get(index.parse::<usize>().ok()?)?;
    let rest = rest.strip_prefix('.')?.split_once('.').map_or("", |(_, rest)| rest);
    let place = place(change);
    let parts = [place.as_str(), rest].into_iter().filter(|part| !part.is_empty());
    Some(parts.collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidemill_model::{DepartmentName, Person};

    use super::*;

    /// API-3: an error names the field as whoever wrote the request knows it.
    #[test]
    fn errors_stand_where_the_entry_stands_in_the_request() {
        let file: DirectoryFile =
            serde_json::from_value(json!({"people": [{"name": "ann"}, {"name": "bo"}]})).unwrap();
        let person = |name: &str| {
            DirectoryChange::Person(Box::new(Person::from_value(json!({ "name": name })).unwrap()))
        };
        let web = DepartmentName::try_from("web").unwrap();
        let changes = [person("bo"), DirectoryChange::DeleteDepartment { name: web }];
        for (field, in_a_file, by_itself) in [
            ("changes[0].person.departments[1]", "people[1].departments[1]", "departments[1]"),
            ("changes[1].delete_department.name", "prune.name", "name"),
            ("changes[7].person.name", "changes[7].person.name", "changes[7].person.name"),
            ("changes", "changes", "changes"),
        ] {
            let refused = |place: Place<'_>| match placed(Rejection::field(field, "x", "no"), &changes, place)
            {
                Rejection::Invalid { fields } => fields[0].field.clone(),
                other => other.to_string(),
            };
            assert_eq!(refused(&super::in_file(&file)), in_a_file);
            assert_eq!(refused(&alone), by_itself);
        }
    }
}
