use serde_json::{Value, json};

use super::*;

fn least() -> Value {
    json!({
        "issuer": "https://id.example.org/realms/work",
        "client_id": "tidemill",
        "redirect_url": "https://tidemill.example.org/api/sign-in/oidc/done",
    })
}

fn with(changes: &Value) -> Settings {
    let mut all = least();
    for (field, value) in changes.as_object().unwrap() {
        all[field] = value.clone();
    }
    serde_json::from_value(all).unwrap()
}

fn many(count: usize) -> Value {
    (0..count)
        .map(|number| (format!("value {number}"), json!("user")))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// API-5: what has a default can be left out.
#[test]
fn three_fields_are_enough() {
    let settings = with(&json!({}));
    settings.check().unwrap();
    assert_eq!(settings.scopes, ["openid", "profile", "email", "groups"]);
    assert_eq!((settings.name_claim.as_str(), settings.mail_claim.as_str()), ("preferred_username", "email"));
    assert_eq!((settings.role_claim, settings.department_claim), (None, None));
    for field in ["issuer", "client_id", "redirect_url"] {
        let mut lacks = least();
        lacks.as_object_mut().unwrap().remove(field);
        assert!(serde_json::from_value::<Settings>(lacks).unwrap_err().to_string().contains(field));
    }
}

/// API-5: what is allowed is accepted.
#[test]
fn values_within_the_rules_are_accepted() {
    for good in [
        json!({"issuer": "http://127.0.0.1:19500"}),
        json!({"issuer": "http://localhost:19500/"}),
        json!({"redirect_url": "http://tidemill:7070/below/api/sign-in/oidc/done"}),
        json!({"client_secret": "x: 100%"}),
        json!({"scopes": ["openid"]}),
        json!({"role_claim": "realm_access.roles", "roles": {"ops": "administrator"}}),
        json!({"department_claim": "https://example.org/groups", "departments": {"CN=Risk,OU=x": "risk"}}),
        json!({"role_claim": "groups", "roles": many(1_000)}),
        json!({"ca_file": "/etc/ca.pem"}),
    ] {
        with(&good).check().unwrap_or_else(|error| panic!("{good}: {error}"));
    }
}

/// API-5: a wrong field is named, with its value, the rule and what to do.
#[test]
fn values_out_of_the_rules_are_refused_by_field() {
    for (bad, field) in [
        (json!({"issuer": "http://id.example.org"}), "issuer"),
        (json!({"issuer": "id.example.org"}), "issuer"),
        (json!({"issuer": "https://id.example.org?x=1"}), "issuer"),
        (json!({"issuer": "https://ann:x@id.example.org"}), "issuer"),
        (json!({"issuer": format!("https://id.example.org/{}", "x".repeat(500))}), "issuer"),
        (json!({"client_id": ""}), "client_id"),
        (json!({"client_id": "a b"}), "client_id"),
        (json!({"client_id": "x".repeat(201)}), "client_id"),
        (json!({"client_secret": ""}), "client_secret"),
        (json!({"client_secret": "a\nb"}), "client_secret"),
        (json!({"client_secret": "x".repeat(1_001)}), "client_secret"),
        (json!({"redirect_url": "https://tidemill.example.org/"}), "redirect_url"),
        (json!({"redirect_url": "/api/sign-in/oidc/done"}), "redirect_url"),
        (json!({"redirect_url": "https://t/api/sign-in/oidc/done?x"}), "redirect_url"),
        (json!({"redirect_url": "ftp://t/api/sign-in/oidc/done"}), "redirect_url"),
        (json!({"scopes": []}), "scopes"),
        (json!({"scopes": ["profile"]}), "scopes"),
        (json!({"scopes": ["openid profile"]}), "scopes"),
        (json!({"scopes": ["openid", ""]}), "scopes"),
        (json!({"scopes": vec!["openid"; 33]}), "scopes"),
        (json!({"name_claim": ""}), "name_claim"),
        (json!({"name_claim": "a..b"}), "name_claim"),
        (json!({"mail_claim": ".a"}), "mail_claim"),
        (json!({"mail_claim": "x".repeat(201)}), "mail_claim"),
        (json!({"role_claim": "groups"}), "role_claim"),
        (json!({"role_claim": "a.", "roles": {"ops": "user"}}), "role_claim"),
        (json!({"roles": {"ops": "user"}}), "roles"),
        (json!({"role_claim": "groups", "roles": {"": "user"}}), "roles"),
        (json!({"role_claim": "groups", "roles": many(1_001)}), "roles"),
        (json!({"department_claim": "groups"}), "department_claim"),
        (json!({"departments": {"risk": "risk"}}), "departments"),
        (json!({"department_claim": "groups", "departments": {"x".repeat(501): "risk"}}), "departments"),
        (json!({"ca_file": ""}), "ca_file"),
        (json!({"issuer": "http://127.0.0.1:1", "ca_file": "/etc/ca.pem"}), "ca_file"),
    ] {
        let error = with(&bad).check().expect_err(&bad.to_string());
        assert_eq!(error.field, field, "{bad}");
        assert!(!error.rule.is_empty());
    }
}

/// API-5: a secret is told nobody.
#[test]
fn secret_is_not_shown() {
    let settings = with(&json!({"client_secret": "correct-horse\u{7}"}));
    let error = settings.check().unwrap_err();
    assert!(!format!("{settings:?} {error} {error:?}").contains("horse"));
}

/// API-5: what is unknown is refused where it is read: fields, roles, names of departments that none can have.
#[test]
fn unknown_fields_and_roles_are_refused() {
    for (field, value) in
        [("isuer", json!("x")), ("roles", json!({"ops": "root"})), ("departments", json!({"ops": "no name"}))]
    {
        let mut all = least();
        all[field] = value;
        assert!(serde_json::from_value::<Settings>(all).is_err(), "{field}");
    }
}
