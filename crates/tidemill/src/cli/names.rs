//! The public names: what scripts, queries and clients are written against. Once a version of them is published, a name
//! of it stays; new ones may come.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use serde_json::Value;

use super::Cli;

/// Rises where a published name has to go: its list of names then begins anew, beside the older ones.
const VERSION: u32 = 1;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn document(path: &str) -> Value {
    serde_json::from_str(&read(path)).unwrap()
}

fn keys(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

fn of_commands(command: &clap::Command, path: &str, names: &mut BTreeSet<String>) {
    names.insert(format!("cli {path}"));
    names.extend(command.get_arguments().filter_map(|it| Some(format!("cli {path} --{}", it.get_long()?))));
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        of_commands(sub, &format!("{path} {}", sub.get_name()), names);
    }
}

fn of_calls(names: &mut BTreeSet<String>) {
    let openapi = document("schemas/openapi.json");
    for (path, calls) in keys(&openapi["paths"]) {
        for (verb, call) in keys(calls) {
            let call_name = format!("rest {} {path}", verb.to_uppercase());
            let parameters = call["parameters"].as_array().into_iter().flatten();
            let query = parameters.filter(|it| it["in"] == "query").filter_map(|it| it["name"].as_str());
            names.extend(query.map(|name| format!("{call_name} ?{name}")));
            // Generated clients are made of both.
            let (id, tags) = (call["operationId"].as_str(), call["tags"].as_array().into_iter().flatten());
            names.extend(id.map(|id| format!("{call_name} = {id}")));
            names.extend(tags.filter_map(Value::as_str).map(|tag| format!("{call_name} in {tag}")));
            names.insert(call_name);
        }
    }
    for (name, schema) in keys(&openapi["components"]["schemas"]) {
        names.extend(keys(&schema["properties"]).map(|(field, _)| format!("schema {name}.{field}")));
        let values = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
        names.extend(values.map(|value| format!("schema {name} = {value}")));
    }
}

fn of_events(names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(root().join("schemas/events")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let schema = document(&format!("schemas/events/{file}"));
        let kind = file.trim_end_matches(".json");
        names.insert(format!("event {kind}"));
        let fields = keys(&schema["properties"]["data"]["properties"]);
        names.extend(fields.map(|(field, _)| format!("event {kind} {field}")));
    }
}

fn of_tables(names: &mut BTreeSet<String>) {
    let mut table = String::new();
    for line in read("docs/reference/tables.md").lines() {
        if let Some(name) = line.strip_prefix("## ") {
            table = name.to_owned();
        } else if let Some(column) = line.strip_prefix("| `").and_then(|line| line.split_once('`')) {
            names.insert(format!("table {table}.{}", column.0));
        }
    }
}

fn of_settings(schema: &Value, at: &Value, path: &str, names: &mut BTreeSet<String>) {
    let at = match at["$ref"].as_str() {
        Some(reference) => schema.pointer(reference.trim_start_matches('#')).unwrap(),
        None => at,
    };
    for (name, field) in keys(&at["properties"]) {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        names.insert(format!("config {path}"));
        of_settings(schema, field, &path, names);
    }
}

fn all() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    of_commands(&Cli::command(), "tidemill", &mut names);
    of_calls(&mut names);
    of_events(&mut names);
    of_tables(&mut names);
    let settings = document("schemas/configuration.json");
    of_settings(&settings, &settings, "", &mut names);
    names
}

/// What is wrong with the names of now, by those that are published.
fn breach(published: &BTreeSet<String>, now: &BTreeSet<String>) -> Option<String> {
    let lines = |names: Vec<&String>| names.into_iter().map(|name| format!("\n  {name}")).collect::<String>();
    let gone: Vec<_> = published.difference(now).collect();
    if !gone.is_empty() {
        let rule =
            "these public names are gone; keep them, or raise VERSION here and say so in the changelog:";
        return Some(format!("{rule}{}", lines(gone)));
    }
    let new: Vec<_> = now.difference(published).collect();
    let rule = "these public names are new; `make schemas` adds them to the list:";
    (!new.is_empty()).then(|| format!("{rule}{}", lines(new)))
}

/// Commands, calls, fields, events, columns and settings are those of the committed list.
#[test]
fn published_names_stay() {
    let file = root().join(format!("schemas/names/v{VERSION}.txt"));
    let published: BTreeSet<String> =
        fs::read_to_string(&file).unwrap_or_default().lines().map(str::to_owned).collect();
    let now = all();
    if std::env::var_os("UPDATE_EXPECT").is_some() && published.is_subset(&now) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, now.iter().map(|name| format!("{name}\n")).collect::<String>()).unwrap();
        return;
    }
    if let Some(breach) = breach(&published, &now) {
        panic!("{breach}");
    }
}

/// A name that is gone and one that is new are both found.
#[test]
fn a_changed_name_is_found() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let (old, new) =
        (names(&["table jobs.id", "table jobs.owner"]), names(&["table jobs.id", "table jobs.team"]));
    let gone = breach(&old, &new).unwrap();
    assert!(gone.contains("gone") && gone.contains("\n  table jobs.owner"), "{gone}");
    let more = breach(&names(&["table jobs.id"]), &new).unwrap();
    assert!(more.contains("new") && more.contains("\n  table jobs.team"), "{more}");
    let kinds = all();
    for kind in
        ["cli tidemill batch", "rest GET /api/jobs", "event batch.", "table jobs.", "config log.", "schema "]
    {
        assert!(kinds.iter().filter(|name| name.starts_with(kind)).count() > 1, "{kind}");
    }
}
