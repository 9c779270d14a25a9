//! Claims: what the provider says of a person.

use serde_json::{Map, Value};

/// What one answer of the provider says.
pub(crate) type Claims = Map<String, Value>;

/// The value at a path. A claim whose own name has dots is found by it; what is `null` is not there (OpenID Connect Core
/// 5.3.2: what is not returned is left out, and should not be null).
pub(crate) fn find<'a>(claims: &'a Claims, path: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(path) {
        return (!value.is_null()).then_some(value);
    }
    path.match_indices('.').find_map(|(dot, _)| {
        let (outer, inner) = (&path[..dot], &path[dot + 1..]);
        find(claims.get(outer)?.as_object()?, inner)
    })
}

/// The texts of a value: itself, or those of a list. Whatever is neither says nothing.
pub(crate) fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// The claims of the ID token, and those of userinfo, where it was asked.
pub(crate) struct Said {
    pub(crate) id_token: Claims,
    pub(crate) user_info: Option<Claims>,
}

impl Said {
    /// The claim at a path, and the answer that has it: the ID token where it does.
    pub(crate) fn find(&self, path: &str) -> Option<(&Value, &Claims)> {
        let answers = [Some(&self.id_token), self.user_info.as_ref()];
        answers.into_iter().flatten().find_map(|claims| Some((find(claims, path)?, claims)))
    }

    pub(crate) fn value(&self, path: &str) -> Option<&Value> {
        self.find(path).map(|(value, _)| value)
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.value(path)?.as_str()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// API-5: a claim is found by its name or by the path to it, and by nothing else.
    #[test]
    fn claims_are_found_by_name_or_path() {
        let claims = json!({
            "groups": "one",
            "realm_access": {"roles": ["a", "b"], "deep": {"er": "c"}},
            "https://example.org/roles": ["d"],
            "dotted.outer": {"in.ner": "e"},
            "nothing": null,
            "text": "x",
        });
        let claims = claims.as_object().unwrap();
        for (path, found) in [
            ("groups", Some(json!("one"))),
            ("realm_access.roles", Some(json!(["a", "b"]))),
            ("realm_access.deep.er", Some(json!("c"))),
            ("https://example.org/roles", Some(json!(["d"]))),
            ("dotted.outer.in.ner", Some(json!("e"))),
            ("nothing", None),
            ("nothing.inner", None),
            ("absent", None),
            ("text.inner", None),
            ("realm_access.absent", None),
        ] {
            assert_eq!(find(claims, path), found.as_ref(), "{path}");
        }
    }

    /// API-5: what the ID token says counts, and userinfo for the rest.
    #[test]
    fn id_token_comes_before_userinfo() {
        let map = |value: Value| value.as_object().unwrap().clone();
        let said = Said {
            id_token: map(json!({"groups": [], "email": null})),
            user_info: Some(map(json!({"groups": ["admins"], "email": "ann@example.org"}))),
        };
        assert_eq!(said.value("groups"), Some(&json!([])));
        assert_eq!(said.text("email"), Some("ann@example.org"));
        assert_eq!(said.text("name"), None);
    }
}
