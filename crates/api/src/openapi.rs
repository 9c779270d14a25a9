//! The table of all calls. Router and document are made from it alike, so neither can name a call that the other
//! does not have.

use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use tidemill_model::Role;

use crate::app::App;
use crate::auth::role_name;
use crate::{Problem, routes, s4};

/// The method of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
    Put,
    Delete,
}

impl Verb {
    fn filter(self) -> MethodFilter {
        match self {
            Verb::Get => MethodFilter::GET,
            Verb::Post => MethodFilter::POST,
            Verb::Put => MethodFilter::PUT,
            Verb::Delete => MethodFilter::DELETE,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::Post => "post",
            Verb::Put => "put",
            Verb::Delete => "delete",
        }
    }
}

type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What the document says of a call.
pub(crate) struct Call {
    verb: Verb,
    path: &'static str,
    summary: &'static str,
    role: Option<Role>,
    /// What it shows as its right, by the name of the scheme.
    scheme: Option<&'static str>,
    query: &'static [(&'static str, &'static str)],
    request: Option<SchemaOf>,
    answer: Option<SchemaOf>,
    media: &'static str,
    /// It may be done and not yet be in force.
    settles: bool,
}

impl Call {
    pub(crate) fn new(verb: Verb, path: &'static str, summary: &'static str) -> Self {
        let media = "application/json";
        Self {
            verb,
            path,
            summary,
            role: None,
            scheme: None,
            query: &[],
            request: None,
            answer: None,
            media,
            settles: false,
        }
    }

    /// The least role; without one the call needs no key.
    pub(crate) fn role(mut self, role: Role) -> Self {
        self.role = Some(role);
        self.scheme = Some("key");
        self
    }

    /// It waits until it is in force in every group, for a bounded time.
    pub(crate) fn settles(mut self) -> Self {
        self.settles = true;
        self
    }

    /// Called by the program of an attempt, with the key of that.
    pub(crate) fn attempt_key(mut self) -> Self {
        self.scheme = Some("attempt_key");
        self
    }

    pub(crate) fn query(mut self, query: &'static [(&'static str, &'static str)]) -> Self {
        self.query = query;
        self
    }

    pub(crate) fn takes<T: JsonSchema>(mut self) -> Self {
        self.request = Some(|generator| generator.subschema_for::<T>());
        self
    }

    pub(crate) fn gives<T: JsonSchema>(mut self) -> Self {
        self.answer = Some(|generator| generator.subschema_for::<T>());
        self
    }

    pub(crate) fn gives_media(mut self, media: &'static str) -> Self {
        self.media = media;
        self
    }
}

/// Calls with their handlers.
pub(crate) struct Calls {
    pub(crate) router: Router<Arc<App>>,
    calls: Vec<Call>,
}

impl Calls {
    pub(crate) fn new() -> Self {
        Self { router: Router::new(), calls: Vec::new() }
    }

    pub(crate) fn add<H, T>(mut self, call: Call, handler: H) -> Self
    where
        H: Handler<T, Arc<App>>,
        T: 'static,
    {
        self.router = self.router.route(call.path, on(call.verb.filter(), handler));
        self.calls.push(call);
        self
    }
}

/// The OpenAPI 3.1 document of the whole interface.
pub fn document() -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let problem = generator.subschema_for::<Problem>();
    let mut paths = Map::new();
    let all = [
        routes::calls(),
        routes::operate_calls(),
        routes::attempt_calls(),
        s4::calls(),
        routes::open_calls(),
    ];
    for call in all.into_iter().flat_map(|calls| calls.calls) {
        let operation = operation(&call, &mut generator, &problem);
        let path = paths.entry(call.path).or_insert_with(|| json!({}));
        path[call.verb.name()] = operation;
    }
    let schemas = generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidemill",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Writes answer once their decision is durable, with the `position` at which reads show \
                it. The header `Idempotency-Key` on a write makes its repeat give the first answer. Every read \
                takes `at_least=<position>` and waits until it shows that.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "`<app>:<secret>`"},
                "attempt_key": {"type": "http", "scheme": "bearer", "description": "TIDEMILL_ATTEMPT_KEY"},
            },
        },
    })
}

fn operation(call: &Call, generator: &mut SchemaGenerator, problem: &Schema) -> Value {
    let mut parameters: Vec<Value> = path_parameters(call.path)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let query = call.query.iter().map(|(name, about)| {
        let required = about.starts_with("Required.");
        json!({"name": name, "in": "query", "required": required, "description": about, "schema": {"type": "string"}})
    });
    parameters.extend(query);
    if call.verb != Verb::Get && call.role.is_some() {
        let about = "Chosen by the caller, 1 to 200 characters; a repeat with it gets the first answer.";
        parameters.push(json!({"name": "Idempotency-Key", "in": "header", "description": about, "schema": {"type": "string"}}));
    }
    let mut content = json!({});
    content[call.media] = match call.answer {
        Some(answer) => json!({"schema": answer(generator)}),
        None => json!({}),
    };
    let problems = json!({"description": "Not done; says why.", "content": {"application/problem+json": {"schema": problem}}});
    let mut operation = json!({
        "summary": call.summary,
        "parameters": parameters,
        "responses": {"200": {"description": "Done.", "content": content}, "default": problems},
    });
    if call.settles {
        let about = "Done and durable, and within the time to wait not in force in the groups of `not_yet_in`, or not shown by lists.";
        let done = operation["responses"]["200"]["content"].clone();
        operation["responses"]["202"] = json!({"description": about, "content": done});
        operation["responses"]["200"]["description"] = json!("Done, and in force in every group.");
    }
    if let Some(request) = call.request {
        operation["requestBody"] = json!({"content": {"application/json": {"schema": request(generator)}}});
    }
    if let Some(scheme) = call.scheme {
        operation["security"] = json!([{scheme: []}]);
    }
    if let Some(role) = call.role {
        operation["description"] = json!(format!("Needs at least the role {}.", role_name(role)));
    }
    operation
}

fn path_parameters(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}
