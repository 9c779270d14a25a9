use serde_json::json;

use super::*;

fn settings() -> Settings {
    let settings: Settings = serde_json::from_value(json!({
        "issuer": "https://id.example.org",
        "client_id": "tidemill",
        "redirect_url": "https://tidemill.example.org/api/sign-in/oidc/done",
        "role_claim": "realm_access.roles",
        "roles": {
            "readers": "viewer", "staff": "user", "ops": "administrator", "root": "super_administrator", "all": "user",
        },
        "department_claim": "groups",
        "departments": {"risk": "risk", "CN=Risk,OU=Groups": "risk", "sales": "sales"},
    }))
    .unwrap();
    settings.check().unwrap();
    settings
}

fn derive(settings: &Settings, claims: Value) -> Result<SignedIn, Refusal> {
    let mut id_token = json!({"sub": "1", "preferred_username": "ann"}).as_object().unwrap().clone();
    id_token.extend(claims.as_object().unwrap().clone());
    SignedIn::derive(settings, "1".to_owned(), &Said { id_token, user_info: None })
}

/// API-5: no claim, a claim without a value that counts, and one with several are told apart; the highest role counts.
#[test]
fn role_is_the_highest_that_the_claim_gives() {
    use Admission::{As, Denied};
    for (claims, role) in [
        (json!({}), None),
        (json!({"realm_access": {}}), None),
        (json!({"realm_access": {"roles": null}}), None),
        (json!({"realm_access": "ops"}), None),
        (json!({"realm_access": {"roles": []}}), Some(Denied)),
        (json!({"realm_access": {"roles": ""}}), Some(Denied)),
        (json!({"realm_access": {"roles": ["unknown"]}}), Some(Denied)),
        (json!({"realm_access": {"roles": "Ops"}}), Some(Denied)),
        (json!({"realm_access": {"roles": "ops staff"}}), Some(Denied)),
        (json!({"realm_access": {"roles": 7}}), Some(Denied)),
        (json!({"realm_access": {"roles": {"ops": true}}}), Some(Denied)),
        (json!({"realm_access": {"roles": "ops"}}), Some(As(Role::Administrator))),
        (json!({"realm_access": {"roles": ["readers"]}}), Some(As(Role::Viewer))),
        (json!({"realm_access": {"roles": ["readers", "unknown", "staff"]}}), Some(As(Role::User))),
        (json!({"realm_access": {"roles": ["root", "readers"]}}), Some(As(Role::SuperAdministrator))),
        (json!({"realm_access": {"roles": ["readers", "root"]}}), Some(As(Role::SuperAdministrator))),
        (json!({"realm_access": {"roles": [["root"], 7, "readers"]}}), Some(As(Role::Viewer))),
        (json!({"realm_access.roles": "staff"}), Some(As(Role::User))),
    ] {
        assert_eq!(derive(&settings(), claims.clone()).unwrap().role, role, "{claims}");
    }
}

/// API-5: who is in no department that is known here is of none; who has no such claim keeps what the directory has.
#[test]
fn departments_are_all_that_the_claim_gives() {
    for (claims, departments) in [
        (json!({}), None),
        (json!({"groups": null}), None),
        (json!({"groups": []}), Some(vec![])),
        (json!({"groups": ""}), Some(vec![])),
        (json!({"groups": "marketing"}), Some(vec![])),
        (json!({"groups": false}), Some(vec![])),
        (json!({"groups": "sales"}), Some(vec!["sales"])),
        (json!({"groups": ["CN=Risk,OU=Groups", "risk"]}), Some(vec!["risk"])),
        (json!({"groups": ["sales", "marketing", "risk"]}), Some(vec!["risk", "sales"])),
    ] {
        let found = derive(&settings(), claims.clone()).unwrap().departments;
        let found = found.as_ref().map(|all| all.iter().map(DepartmentName::as_str).collect::<Vec<_>>());
        assert_eq!(found, departments, "{claims}");
    }
}

/// API-5: without a claim in the settings nothing is derived, whatever the provider says.
#[test]
fn nothing_is_derived_that_is_not_configured() {
    let mut settings = settings();
    (settings.role_claim, settings.department_claim) = (None, None);
    let person = derive(&settings, json!({"groups": ["risk"], "realm_access": {"roles": ["root"]}})).unwrap();
    assert_eq!((person.role, person.departments), (None, None));
}

/// API-5: the directory keeps at most 16 departments of a person; which ones they would be is not guessed.
#[test]
fn too_many_departments_are_refused() {
    let mut settings = settings();
    let names = (0..17).map(|number| format!("d{number}"));
    settings.departments =
        names.map(|name| (name.clone(), DepartmentName::try_from(name).unwrap())).collect();
    let groups =
        |count: usize| json!({"groups": settings.departments.keys().take(count).collect::<Vec<_>>()});
    assert_eq!(derive(&settings, groups(16)).unwrap().departments.unwrap().len(), 16);
    assert!(matches!(derive(&settings, groups(17)), Err(Refusal::Departments { count: 17 })));
}

/// API-5: who has no name that the directory can keep does not sign in.
#[test]
fn name_is_one_of_the_directory() {
    let named = |claim: &str, claims: Value| {
        let mut settings = settings();
        claim.clone_into(&mut settings.name_claim);
        derive(&settings, claims).map(|person| person.name.as_str().to_owned())
    };
    assert_eq!(named("preferred_username", json!({})).unwrap(), "ann");
    assert_eq!(named("upn", json!({"upn": "ann.o@example.org"})).unwrap(), "ann.o@example.org");
    assert_eq!(named("id.name", json!({"id": {"name": "ben"}})).unwrap(), "ben");
    for bad in [json!({}), json!({"upn": null}), json!({"upn": ["ann"]}), json!({"upn": 7})] {
        assert!(matches!(named("upn", bad), Err(Refusal::NoName { .. })));
    }
    for bad in ["", "ann o", "ann/o", "Änn", &"x".repeat(129)] {
        assert!(matches!(named("upn", json!({"upn": bad})), Err(Refusal::Name { .. })), "{bad}");
    }
    for unverified in [json!(false), json!("false")] {
        let claims = json!({"email": "ann@example.org", "email_verified": unverified});
        assert!(matches!(named("email", claims), Err(Refusal::NameUnverified)));
    }
    let claims = json!({"email": "root", "email_verified": false});
    assert_eq!(named("preferred_username", claims).unwrap(), "ann", "it is not the name");
    let claims = json!({"email": "ann@example.org", "email_verified": true});
    assert_eq!(named("email", claims).unwrap(), "ann@example.org");
}

/// API-5: what is no mail address is not kept as one.
#[test]
fn mail_is_an_address_or_none() {
    for (claims, mail) in [
        (json!({}), None),
        (json!({"email": "ann@example.org"}), Some("ann@example.org")),
        (json!({"email": "ann"}), None),
        (json!({"email": "Ann <ann@example.org>"}), None),
        (json!({"email": ["ann@example.org"]}), None),
        (json!({"email": format!("{}@example.org", "x".repeat(250))}), None),
    ] {
        assert_eq!(derive(&settings(), claims.clone()).unwrap().mail.as_deref(), mail, "{claims}");
    }
}
