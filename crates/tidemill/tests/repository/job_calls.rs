//! The page of the calls whose form is given from outside: what it says of their fields is what the document says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::requirements::sources;

const PAGE: &str = "docs/reference/job-calls.md";
const CALLS: [&str; 6] = [
    "DELETE /api/job/kill",
    "GET /api/job/status",
    "GET /api/log",
    "GET /api/log/download",
    "POST /api/job/submit",
    "POST /api/worker/status",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A field of a call: which call, of its request or answer, its name, JSON types, and whether it has to be there.
type Field = (String, &'static str, String, BTreeSet<&'static str>, bool);

/// What the page says.
struct Row {
    field: Field,
    test: String,
}

fn json_types(written: &str) -> BTreeSet<&'static str> {
    match written {
        "string" => BTreeSet::from(["string"]),
        "int32" | "int64" => BTreeSet::from(["integer"]),
        "bool" => BTreeSet::from(["boolean"]),
        "map" => BTreeSet::from(["object"]),
        other => panic!("{PAGE}: no type {other}"),
    }
}

fn rows(page: &str) -> Vec<Row> {
    let mut call = String::new();
    let mut rows = Vec::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            call = title.trim_matches('`').to_owned();
        }
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, of, kind, required, .., test] = cells.as_slice() else { continue };
        if cells.len() != 7 || !name.starts_with('`') {
            continue;
        }
        let of = if *of == "request" { "request" } else { "answer" };
        let field =
            (call.clone(), of, name.trim_matches('`').to_owned(), json_types(kind), *required == "yes");
        rows.push(Row { field, test: test.trim_matches('`').to_owned() });
    }
    rows
}

/// What a schema refers to.
fn resolved<'d>(document: &'d Value, schema: &'d Value) -> &'d Value {
    match schema["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    }
}

/// The types that a value may have, but null.
fn types_of(document: &Value, schema: &Value) -> BTreeSet<&'static str> {
    const KNOWN: [&str; 5] = ["string", "integer", "boolean", "object", "array"];
    let schema = resolved(document, schema);
    let named = match &schema["type"] {
        Value::String(name) => vec![name.as_str()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let mut types: BTreeSet<&str> = KNOWN.into_iter().filter(|known| named.contains(known)).collect();
    for variant in schema["anyOf"].as_array().into_iter().flatten() {
        types.extend(types_of(document, variant));
    }
    types
}

fn fields_of(document: &Value, call: &str) -> Vec<Field> {
    let (method, path) = call.split_once(' ').unwrap();
    let said = &document["paths"][path][method.to_lowercase()];
    assert!(said.is_object(), "there is no {call}");
    let query = said["parameters"].as_array().into_iter().flatten().filter(|it| it["in"] == "query");
    let mut fields: Vec<Field> = query
        .map(|it| {
            let name = it["name"].as_str().unwrap().to_owned();
            (call.to_owned(), "request", name, types_of(document, &it["schema"]), it["required"] == true)
        })
        .collect();
    let bodies = [("request", &said["requestBody"]), ("answer", &said["responses"]["200"])];
    for (of, body) in bodies {
        let schema = resolved(document, &body["content"]["application/json"]["schema"]);
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let types = types_of(document, property);
            let is_required = required.iter().any(|it| it == name);
            fields.push((call.to_owned(), of, name.clone(), types, is_required));
        }
    }
    fields
}

/// What differs between the page and the document, told for people.
fn differences(page: &str, document: &Value) -> Vec<String> {
    let fields: Vec<Field> = CALLS.iter().flat_map(|call| fields_of(document, call)).collect();
    let rows = rows(page);
    let place = |(call, of, name, ..): &Field| format!("{call} {of} {name}");
    let mut told = Vec::new();
    for row in &rows {
        match fields.iter().find(|field| place(field) == place(&row.field)) {
            None => told.push(format!("{}: the document has no such field", place(&row.field))),
            // A field may have more types than that of the given form.
            Some(field) if !row.field.3.is_subset(&field.3) || row.field.4 != field.4 => {
                told.push(format!("{}: the document says {:?}, required {}", place(field), field.3, field.4))
            }
            Some(_) => {}
        }
    }
    let missing = fields.iter().filter(|field| !rows.iter().any(|row| place(&row.field) == place(field)));
    told.extend(missing.map(|field| format!("{}: the page has no row for it", place(field))));
    told
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn document() -> Value {
    serde_json::from_str(&read("schemas/openapi.json")).unwrap()
}

/// API-1, API-2: the page of the given form names each field of these calls with the type that it has, and no other.
#[test]
fn page_of_the_given_form_has_the_fields_of_the_document() {
    assert_eq!(differences(&read(PAGE), &document()), Vec::<String>::new());
}

/// API-1, API-2: the tests that the page names are there.
#[test]
fn tests_that_the_page_of_the_given_form_names_are_there() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    let texts: Vec<String> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    for Row { field, test } in rows(&read(PAGE)) {
        let function = format!("fn {test}(");
        assert!(texts.iter().any(|text| text.contains(&function)), "{field:?} names {test}");
    }
}

#[test]
fn field_that_is_renamed_or_retyped_is_found() {
    let page = read(PAGE);
    let mut document = document();
    assert_eq!(differences(&page.replace("| `priority` |", "| `urgency` |"), &document).len(), 2);
    assert_eq!(
        differences(&page.replace("`is_end` | answer | bool", "`is_end` | answer | int32"), &document).len(),
        1
    );
    document["components"]["schemas"]["JobStatus"]["properties"]["more"] =
        serde_json::json!({"type": "string"});
    let told = differences(&page, &document);
    assert_eq!(told, ["GET /api/job/status answer more: the page has no row for it"]);
}
