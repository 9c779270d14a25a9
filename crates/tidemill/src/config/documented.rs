//! Every documented setting is one: it is taken from the file and from the environment, and it is shown.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Flag, as_json, defaults, env, layers, load, schema, settings};

fn known() -> BTreeMap<String, Value> {
    let mut known = BTreeMap::new();
    layers::leaves("", &defaults(), &mut |path, value| {
        known.insert(path.to_owned(), value.clone());
    });
    known
}

/// The settings that the schema documents.
fn in_schema(schema: &Value, at: &Value, path: &str, found: &mut BTreeSet<String>) {
    let at = match at["$ref"].as_str() {
        Some(reference) => schema.pointer(reference.trim_start_matches('#')).unwrap(),
        None => at,
    };
    match at["properties"].as_object().filter(|_| !settings::OPEN.contains(&path)) {
        Some(fields) => {
            for (name, field) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                in_schema(schema, field, &path, found);
            }
        }
        None => {
            found.insert(path.to_owned());
        }
    }
}

/// Another value than the default, that a text can give, too.
fn sample(path: &str, default: &Value) -> Value {
    let odd = match path {
        "api.default_zone" => json!("Europe/Berlin"),
        "api.listen" | "executor.listen" | "logs.listen" => json!("127.0.0.1:8999"),
        "api.trusted_proxies" => json!(["10.0.7.0/28", "::1"]),
        "api.log_stores" => json!(["one:1", "two:2"]),
        "logs.place" => json!("/data/logs"),
        "logs.earlier_places" => json!(["/data/before"]),
        "logs.groups" => json!({"etl": {"keep_days": 7}}),
        "api.key_cache_ms" => json!(999),
        "dispatcher.address" => json!("127.0.0.1:8998"),
        "api.internal_key" | "internal_key" => json!("sixteen letters and more"),
        "api.logs_key" | "logs_key" => json!("other sixteen letters"),
        "api.operator_key" | "operator_key" => json!("sixteen more letters"),
        "api.sign_in.oidc" => json!({
            "issuer": "https://sso.example.org", "client_id": "tidemill",
            "redirect_url": "https://tidemill.example.org/api/sign-in/oidc/done",
        }),
        "archive.place" => json!("/data/archive"),
        "snapshots.place" => json!("/data/snapshots"),
        "executor.keep_jobs_on_stop" => json!(true),
        "executor.memory_mb" => json!(4096),
        "executor.cgroup" => json!("/tidemill"),
        "executor.sweep_at" => json!("03:30"),
        "executor.sweep_zone" => json!("Europe/Berlin"),
        "process.reads" => json!(1),
        "executor.reserved" => json!({"shell": {"slots": 1, "priority": 2}}),
        "executor.slots" => json!({"shell": 3}),
        "executor.types" => json!({"r": {"command": ["Rscript", "{script}", "{arguments}"]}}),
        "log.backend" => json!("kafka"),
        "log.security.mechanism" => json!("PLAIN"),
        "log.security.protocol" => json!("ssl"),
        "prober.local_roots" => json!(["/data"]),
        "archive.s3.endpoint"
        | "logs.s3.endpoint"
        | "prober.paths.s3.endpoint"
        | "quality.url"
        | "sinks.elasticsearch.url"
        | "sinks.parquet.s3.endpoint"
        | "snapshots.s3.endpoint" => {
            json!("http://localhost:9000")
        }
        "quality.answer_url" => json!("http://localhost:9001"),
        "redis.url" => json!("redis://localhost:6379"),
        "sinks.mysql.url" | "store.url" => json!("mysql://u:p@localhost:3306/d"),
        "sinks.parquet.root" => json!("/data/parquet"),
        _ => Value::Null,
    };
    match default {
        _ if !odd.is_null() => odd,
        Value::Bool(oracle) => json!(!oracle),
        Value::Number(number) => json!(number.as_u64().unwrap() + 1),
        Value::Null | Value::String(_) => json!("other"),
        Value::Array(_) => json!(["one", "two"]),
        Value::Object(_) => json!({"name": "value"}),
    }
}

const SASL: (&str, &str) = ("log.security.protocol", "sasl_ssl");
const SSL: (&str, &str) = ("log.security.protocol", "ssl");

/// What has to be set with it.
fn beside(path: &str) -> &'static [(&'static str, &'static str)] {
    match path {
        "log.backend" => &[("log.brokers", "localhost:9092")],
        "log.security.user" => &[SASL, ("log.security.password", "x")],
        "log.security.password" | "log.security.password_file" => &[SASL, ("log.security.user", "x")],
        "log.security.ca_file" => &[SASL, ("log.security.user", "x"), ("log.security.password", "x")],
        "log.security.certificate_file" => &[SSL, ("log.security.key_file", "x")],
        "log.security.key_file" => &[SSL, ("log.security.certificate_file", "x")],
        "third_party.topic" => &[("log.backend", "kafka"), ("log.brokers", "localhost:9092")],
        "archive.s3.access_key_id" => &[("archive.s3.secret_access_key", "x")],
        "archive.s3.secret_access_key" => &[("archive.s3.access_key_id", "x")],
        "logs.s3.access_key_id" => &[("logs.s3.secret_access_key", "x")],
        "logs.s3.secret_access_key" => &[("logs.s3.access_key_id", "x")],
        "snapshots.s3.access_key_id" => {
            &[("snapshots.place", "s3://b/c"), ("snapshots.s3.secret_access_key", "x")]
        }
        "snapshots.s3.secret_access_key" => {
            &[("snapshots.place", "s3://b/c"), ("snapshots.s3.access_key_id", "x")]
        }
        "prober.paths.s3.access_key_id" => &[("prober.paths.s3.secret_access_key", "x")],
        "prober.paths.s3.secret_access_key" => &[("prober.paths.s3.access_key_id", "x")],
        "sinks.parquet.s3.access_key_id" => &[("sinks.parquet.s3.secret_access_key", "x")],
        "sinks.parquet.s3.secret_access_key" => &[("sinks.parquet.s3.access_key_id", "x")],
        "quality.answer_url" | "quality.token_env" => &[("quality.url", "http://localhost:1")],
        "redis.ca_file" => &[("redis.url", "rediss://localhost:6379")],
        "sinks.elasticsearch.ca_file" => &[("sinks.elasticsearch.url", "https://localhost:9200")],
        "tls.api.certificate_file" => &[("tls.api.key_file", "/k")],
        "tls.api.key_file" => &[("tls.api.certificate_file", "/c")],
        "tls.roles.certificate_file" => &[("tls.roles.key_file", "/k"), ("tls.ca_file", "/a")],
        "tls.roles.key_file" => &[("tls.roles.certificate_file", "/c"), ("tls.ca_file", "/a")],
        "sinks.elasticsearch.user" => &[("sinks.elasticsearch.password", "x")],
        "sinks.elasticsearch.password" => &[("sinks.elasticsearch.user", "x")],
        _ => &[],
    }
}

/// As TOML has it, its path as one dotted key.
fn toml_of(path: &str, value: &Value) -> String {
    let mut whole = value.clone();
    for name in path.rsplit('.') {
        whole = json!({ name: whole });
    }
    toml::to_string(&whole).unwrap()
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(|item| item.as_str().unwrap()).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// OPS-1: what the schema documents is what there is, no more and no less.
#[test]
fn schema_and_settings_name_the_same() {
    let schema = schema();
    let mut documented = BTreeSet::new();
    in_schema(&schema, &schema, "", &mut documented);
    assert_eq!(documented, known().into_keys().collect::<BTreeSet<_>>());
}

/// OPS-1: each setting is taken from the file and from the environment, and shown with where it came from; a secret
/// one without its value.
#[test]
fn every_setting_is_taken_from_file_and_environment() {
    let mut faults = Vec::new();
    for (path, default) in known() {
        let value = sample(&path, &default);
        assert_ne!(value, default, "{path}: its sample is its default");
        let flags: Vec<Flag> =
            beside(&path).iter().map(|(path, text)| Flag::new(path, *text, "--test")).collect();
        let file = toml_of(&path, &value);
        let variable = (env::variable(&path), text_of(&value));
        let tries = [
            ("t.toml", load(Some((Path::new("t.toml"), &file)), &[], &flags)),
            (variable.0.as_str(), load(None, std::slice::from_ref(&variable), &flags)),
        ];
        for (from, loaded) in tries {
            let shown = if settings::SECRET.contains(&&*path) { json!("(hidden)") } else { value.clone() };
            let expected = json!({ "value": shown, "from": from });
            match loaded {
                Ok(loaded) if as_json(&loaded)[&path] == expected => {}
                Ok(loaded) => {
                    faults.push(format!("{path} from {from} is shown as {}", as_json(&loaded)[&path]))
                }
                Err(failure) => faults.push(format!("{path} from {from}: {failure}")),
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// OPS-1: a setting that the documentation names is one, and its examples of a configuration can be loaded.
#[test]
fn settings_in_the_documentation_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files: Vec<PathBuf> = ["docs", "docs/adr", "docs/reference"]
        .iter()
        .flat_map(|dir| fs::read_dir(root.join(dir)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "md"))
        // Its kinds of events look like settings.
        .filter(|file| !file.ends_with("reference/events.md"))
        .collect();
    files.push(root.join("README.md"));
    let known = known();
    let sections: BTreeSet<&str> = known.keys().filter_map(|path| path.split('.').next()).collect();
    let is_known = |path: &str| {
        let below = format!("{path}.");
        known.contains_key(path)
            || known.keys().any(|known| known.starts_with(&below))
            || tidemill_model::EventKind::all().any(|kind| kind.name == path)
            || settings::OPEN.iter().any(|open| path.starts_with(&format!("{open}.")))
    };
    let on_kafka =
        [Flag::new("log.backend", "kafka", "--test"), Flag::new("log.brokers", "localhost:1", "--test")];
    let mut seen = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for word in text.split('`').skip(1).step_by(2) {
            let name = word.split([' ', '=']).next().unwrap_or_default();
            // Files of keys have names like that of a section's setting.
            let is_name = !name.ends_with(".key")
                && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._".contains(c));
            let section = name.split_once('.').map_or("", |(section, _)| section);
            if is_name && sections.contains(section) {
                seen += 1;
                assert!(is_known(name), "{} names the setting {name}, and there is none", file.display());
            }
        }
        for block in text.split("```toml\n").skip(1) {
            let block = block.split("```").next().unwrap();
            let loaded = load(Some((&file, block)), &[], &on_kafka);
            assert!(loaded.is_ok(), "{}: {}", file.display(), loaded.unwrap_err());
            seen += 1;
        }
    }
    assert!(seen > 100, "only {seen} settings were found in the documentation");
}
