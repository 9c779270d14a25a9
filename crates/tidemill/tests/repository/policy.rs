//! Licenses, banned crates and sources of everything that is linked.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use spdx::{Expression, ParseMode};

use crate::metadata;

/// What `make deny` checks in CI with cargo-deny; here the same lists are kept wherever there is only cargo.
const DENY: &str = include_str!("../../../../deny.toml");

/// A crate that must not be linked.
struct Banned {
    name: String,
    /// What to use instead.
    reason: String,
    /// Who may link it all the same.
    wrappers: Vec<String>,
}

/// The lists of `deny.toml`.
struct Policy {
    /// Permissive licenses.
    licenses: Vec<String>,
    banned: Vec<Banned>,
    /// Crates of which an older version is known to be linked too, as `name@version`.
    skipped: Vec<String>,
}

fn policy() -> Policy {
    let deny: toml::Table = DENY.parse().unwrap();
    let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
    let list = |section: &str, name: &str| deny[section][name].as_array().unwrap().clone();
    let banned = list("bans", "deny");
    let skipped = list("bans", "skip");
    Policy {
        licenses: list("licenses", "allow").iter().map(text).collect(),
        banned: banned
            .iter()
            .map(|it| Banned {
                name: text(&it["name"]),
                reason: text(&it["reason"]),
                wrappers: it
                    .get("wrappers")
                    .map_or(Vec::new(), |names| names.as_array().unwrap().iter().map(text).collect()),
            })
            .collect(),
        skipped: skipped.iter().map(|it| text(&it["crate"])).collect(),
    }
}

/// Two versions of these would be two runtimes, two calendars, two databases in one binary.
const ONE_VERSION: &[&str] =
    &["axum", "hyper", "jiff", "libsqlite3-sys", "reqwest", "rustls", "serde", "tokio"];

/// Every breach of the policy, as a sentence.
fn breaches(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().unwrap();
    let policy = policy();
    let mut found: Vec<String> = packages
        .iter()
        .flat_map(|package| [license(package, &policy), ban(package, metadata, &policy), wildcard(package)])
        .flatten()
        .collect();
    found.extend(second_versions(packages));
    found.extend(foreign_sources(packages));
    found
}

fn label(package: &Value) -> String {
    format!("{} {}", package["name"].as_str().unwrap(), package["version"].as_str().unwrap())
}

fn license(package: &Value, policy: &Policy) -> Option<String> {
    let Some(text) = package["license"].as_str() else {
        return Some(format!("{} names no license", label(package)));
    };
    let is_allowed = Expression::parse_mode(text, ParseMode::LAX).is_ok_and(|expression| {
        expression.evaluate(|required| {
            let is_listed = |name: &str| policy.licenses.iter().any(|listed| listed == name);
            required.addition.is_none() && required.license.id().is_some_and(|id| is_listed(id.name))
        })
    });
    (!is_allowed).then(|| format!("{} is under {text}, which is not allowed", label(package)))
}

fn ban(package: &Value, metadata: &Value, policy: &Policy) -> Option<String> {
    let Banned { reason, wrappers, .. } = policy.banned.iter().find(|it| package["name"] == *it.name)?;
    let is_wrapped = !wrappers.is_empty()
        && linked_by(package, metadata).iter().all(|name| wrappers.iter().any(|wrapper| wrapper == name));
    (!is_wrapped).then(|| format!("{} is banned: {reason}", label(package)))
}

/// Who links it, by name.
fn linked_by<'a>(package: &Value, metadata: &'a Value) -> Vec<&'a str> {
    let packages = metadata["packages"].as_array().unwrap();
    let name_of =
        |id: &Value| packages.iter().find(|it| it["id"] == *id).and_then(|it| it["name"].as_str()).unwrap();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let links = |node: &&Value| node["dependencies"].as_array().unwrap().contains(&package["id"]);
    nodes.iter().filter(links).map(|node| name_of(&node["id"])).collect()
}

/// Ours name each other by path; what others publish cannot depend on any version.
fn wildcard(package: &Value) -> Option<String> {
    let mut dependencies = package["dependencies"].as_array().unwrap().iter();
    let any = dependencies.find(|dependency| dependency["req"] == "*" && dependency["path"].is_null())?;
    Some(format!("{} takes any version of {}", label(package), any["name"].as_str().unwrap()))
        .filter(|_| package["source"].is_null())
}

fn second_versions(packages: &[Value]) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        versions.entry(name).or_default().insert(package["version"].as_str().unwrap());
    }
    let is_twice = |name: &&&str| versions.get(**name).is_some_and(|versions| versions.len() > 1);
    ONE_VERSION.iter().filter(is_twice).map(|name| format!("{name} is linked in several versions")).collect()
}

/// Everything comes from this workspace or from the one public registry of crates.
fn foreign_sources(packages: &[Value]) -> Vec<String> {
    let source = |package: &Value| package["source"].as_str().map(str::to_owned);
    let registries: BTreeSet<String> = packages.iter().filter_map(source).collect();
    let is_foreign = |source: &&String| !source.starts_with("registry+") || registries.len() > 1;
    registries.iter().filter(is_foreign).map(|source| format!("{source} is one source too many")).collect()
}

#[test]
fn dependencies_keep_to_the_policy() {
    assert_eq!(breaches(&metadata()), Vec::<String>::new());
}

/// A second version of these is an error, so none may be among those that are known.
#[test]
fn no_second_version_of_a_runtime_is_let_through() {
    let skipped = policy().skipped;
    let names: Vec<_> = skipped.iter().map(|it| it.split('@').next().unwrap()).collect();
    assert!(!names.is_empty());
    assert!(ONE_VERSION.iter().all(|name| !names.contains(name)), "{names:?}");
}

#[test]
fn check_notices_each_breach() {
    let package = |name: &str, license: &str, source: &str| {
        serde_json::json!({"name": name, "version": "1.0.0", "license": license, "source": source,
            "dependencies": []})
    };
    let notices = |packages: &[Value], words: &str| {
        let found = breaches(&serde_json::json!({ "packages": packages }));
        assert!(found.len() == 1 && found[0].contains(words), "{words}: {found:?}");
    };
    let registry = "registry+one";
    assert!(
        breaches(&serde_json::json!({"packages": [package("a", "MIT OR GPL-3.0-only", registry),
        package("b", "MIT/Apache-2.0", registry)]}))
        .is_empty()
    );
    notices(&[package("a", "GPL-3.0-only", registry)], "not allowed");
    notices(&[package("a", "MIT AND MPL-2.0", registry)], "not allowed");
    notices(&[package("native-tls", "MIT", registry)], "use rustls");
    notices(&[package("a", "MIT", "git+elsewhere")], "one source too many");
    let linked = |by: &str| {
        let mut packages = [package(by, "MIT", registry), package("openssl-sys", "MIT", registry)];
        packages.iter_mut().for_each(|it| it["id"] = it["name"].clone());
        let nodes = serde_json::json!([{"id": by, "dependencies": ["openssl-sys"]},
            {"id": "openssl-sys", "dependencies": []}]);
        breaches(&serde_json::json!({"packages": packages, "resolve": {"nodes": nodes}}))
    };
    assert!(linked("rdkafka-sys").is_empty());
    assert!(linked("another")[0].contains("openssl-sys 1.0.0 is banned"));
    let mut second = package("tokio", "MIT", registry);
    second["version"] = "2.0.0".into();
    notices(&[package("tokio", "MIT", registry), second], "several versions");
    let mut ours = package("ours", "MIT", registry);
    ours["source"] = Value::Null;
    ours["dependencies"] = serde_json::json!([{"name": "b", "req": "*"}]);
    notices(&[ours], "any version of b");
    let mut unnamed = package("a", "MIT", registry);
    unnamed["license"] = Value::Null;
    notices(&[unnamed], "no license");
}
