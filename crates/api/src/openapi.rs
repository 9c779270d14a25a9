//! What is written of all calls: the OpenAPI document, and the page of what each needs.

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::Method;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use tidemill_model::{
    BatchId, BulkId, CalendarName, CredentialId, DepartmentName, GroupName, JobId, JobName, PersonName,
    PoolName, RerunId, TaskId, TemplateName, Token, UserName,
};

use crate::call::Call;
use crate::needs::Needs;
use crate::operation_id::operation_id;
use crate::parameter::{Parameter, Rule};
use crate::routes::TAG_PATTERN;
use crate::tags::{TAGS, tag_of};
use crate::view::{AuditPlace, DeadLetterPlace};
use crate::write::KEY_PATTERN;
use crate::{Problem, routes, s4};

/// What the page of rights begins with.
const RIGHTS_HEAD: &str = "# What each call needs

Made from the code by `make schemas`.

Each call needs one permission, of what it is about. Who has it, and of what, docs/rights.md says; in short:

- A role has permissions: a `viewer` `view` and `read_logs`; a `user` also `operate`, `edit` and `depend`; an `administrator` also
  `override`, `answer`, `declare_dead` and `administer`; a `super_administrator` also `cold_start` and `manage`.
- A key has those of its role and those that it `may` besides, within the groups and the department that it is bound to.
- A person has those of the role: an administrator everywhere, others for jobs that their departments or they own; and
  what is granted to them or their departments on a job, a group or a business type.
- A key that calls in the name of a person has what both have.
- No call needs `depend` by itself: calls that define or submit a job want it, or `view`, of each parent that is new to it.

The call reaches:

- `group`: the job or the group of what it is about. Lists show what the caller reaches. What is of several needs all.
- `site`: everything; who is bound to something does not have it.
- `own`: what the caller asked for; what others asked for is for those who are bound to nothing.
- `everybody`: it shows what is of the whole site, to everybody.

What one may not see is answered as what is not there. Within a call that says `group`, what is of no group
is for those who are bound to nothing: a pool that groups share and `probes` without a batch with `administer`, a freeze
of all groups with `manage`.

`/api/admin` opens with the operator's secret, too.

| call | needs | role | reach |
|---|---|---|---|
";

fn all() -> impl Iterator<Item = Call> {
    let all = [
        routes::calls(),
        routes::admin_calls(),
        routes::sign_in_calls(),
        routes::attempt_calls(),
        s4::calls(),
        routes::open_calls(),
    ];
    all.into_iter().flat_map(|calls| calls.calls)
}

/// What each call needs: the page `docs/reference/rights.md`.
pub fn rights_reference() -> String {
    let mut page = String::from(RIGHTS_HEAD);
    for call in all() {
        let (permission, role, reach) = match (call.needs, call.scheme) {
            (Some(Needs { permission, reach }), _) => {
                (permission.as_str(), permission.role().as_str(), reach.as_str())
            }
            (None, Some(_)) => ("the attempt's key", "", "own"),
            (None, None) => ("nothing", "", ""),
        };
        page.push_str(&format!("| `{} {}` | {permission} | {role} | {reach} |\n", call.method, call.path));
    }
    page
}

/// The document as it is served, made once it is asked for.
pub(crate) static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into());

/// The OpenAPI 3.1 document of the whole interface.
pub fn document() -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let problem = generator.subschema_for::<Problem>();
    let mut paths = Map::new();
    for call in all() {
        let operation = operation(&call, &mut generator, &problem);
        let path = paths.entry(call.path).or_insert_with(|| json!({}));
        path[call.method.as_str().to_lowercase()] = operation;
    }
    let schemas = generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidemill",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Writes answer once their decision is durable, with the `position` at which reads show \
                it. The header `Idempotency-Key` on a write makes its repeat give the first answer, and another request with the same one 409, as far as one owner decides both: \
                groups have owners of their own. Every read \
                takes `at_least=<position>` and waits until it shows that.",
        },
        "tags": TAGS.iter().map(|tag| json!({"name": tag.name, "description": tag.about})).collect::<Vec<_>>(),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An application key: `<app>:<secret>`."},
                "attempt_key": {"type": "http", "scheme": "bearer", "description": "For the program of an attempt: its `TIDEMILL_ATTEMPT_KEY`."},
            },
        },
    })
}

fn operation(call: &Call, generator: &mut SchemaGenerator, problem: &Schema) -> Value {
    let mut parameters: Vec<Value> =
        path_parameters(call).map(|it| it.required().document("path", generator)).collect();
    parameters.extend(call.query.iter().map(|it| it.document("query", generator)));
    if call.method != Method::GET {
        parameters.push(IDEMPOTENCY.document("header", generator));
    }
    if call.tagged && call.method != Method::GET {
        parameters.push(IF_MATCH.required().document("header", generator));
    }
    let mut content = json!({});
    content[call.media] = match call.answer {
        Some(answer) => json!({"schema": answer(generator)}),
        None => json!({}),
    };
    let problems = json!({"description": "Not done; says why.", "content": {"application/problem+json": {"schema": problem}}});
    let mut operation = json!({
        "operationId": call.name.map_or_else(|| operation_id(&call.method, call.path), str::to_owned),
        "tags": [tag_of(call.path).name],
        "summary": call.summary,
        "parameters": parameters,
        "responses": {"200": {"description": "Done.", "content": content}, "default": problems},
    });
    if call.settles {
        let about = "Done and durable, and within the time to wait not in effect in the groups of `pending_groups`, or not shown by lists.";
        let done = operation["responses"]["200"]["content"].clone();
        operation["responses"]["202"] = json!({"description": about, "content": done});
        operation["responses"]["200"]["description"] = json!("Done, and in effect in every group.");
    }
    if let Some(begun) = call.begun {
        let begun = json!({call.media: {"schema": begun(generator)}});
        let about = "Begun and durable; it goes on.";
        operation["responses"]["202"] = json!({"description": about, "content": begun});
    }
    if call.tagged {
        let about = "Names what is written; `If-Match` shows it when that is changed.";
        let tag = json!({"ETag": {"description": about, "schema": {"type": "string"}}});
        for status in ["200", "202"] {
            if let Some(response) = operation["responses"].get_mut(status) {
                response["headers"] = tag.clone();
            }
        }
    }
    if let Some(request) = call.request {
        let schema = request(generator);
        operation["requestBody"] = json!({
            "required": has_required_fields(&schema, generator),
            "content": {"application/json": {"schema": schema}},
        });
    }
    if let Some(scheme) = call.scheme {
        operation["security"] = json!([{scheme: []}]);
    }
    if let Some(Needs { permission, reach }) = call.needs {
        let (word, role) = (permission.as_str(), permission.role().as_str());
        let description = format!("Needs {word}, which the role {role} has. {}", reach.sentence());
        operation["description"] = json!(description);
        operation["x-permission"] = json!(word);
        operation["x-role"] = json!(role);
        operation["x-reach"] = json!(reach.as_str());
    }
    operation
}

/// An absent body is an empty object, which is not enough where it has to have something.
fn has_required_fields(schema: &Schema, generator: &SchemaGenerator) -> bool {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
    let definition = name.and_then(|name| generator.definitions().get(name));
    definition.is_some_and(|definition| definition.get("required").is_some())
}

const IDEMPOTENCY: Parameter = Parameter::new(
    "Idempotency-Key",
    "Chosen by the caller, 1 to 200 characters; a repeat with it gets the first answer, and another request with it 409 \
     `idempotency_key_reused`.",
    Rule::Pattern(KEY_PATTERN),
);

const IF_MATCH: Parameter = Parameter::new(
    "If-Match",
    "The `ETag` of the definition that was read: where it is another one by now, nothing is changed, and the answer is 412 \
     `changed_meanwhile`. `*`: whatever it is.",
    Rule::Pattern(TAG_PATTERN),
);

/// What stands in paths, by what those begin with.
const IN_PATHS: &[(&str, Parameter)] = &[
    ("/api/jobs/{id}/versions", Parameter::new("version", "Counts the changes.", Rule::Number(1, VERSIONS))),
    ("/api/jobs/{id}/versions", Parameter::new("other", "The other version.", Rule::Number(1, VERSIONS))),
    ("/api/groups/", Parameter::new("group", "The name of the job's group.", Rule::of::<GroupName>())),
    ("/api/groups/", Parameter::new("job", "The job's name.", Rule::of::<JobName>())),
    ("/api/freezes/", Parameter::text("scope", "The name of a group, or `*` for all groups.")),
    ("/api/jobs/", Parameter::new("id", "The job.", Rule::of::<JobId>())),
    ("/api/batches/", Parameter::new("id", "The batch.", Rule::of::<BatchId>())),
    ("/api/attempts/", Parameter::new("id", "The attempt.", Rule::of::<Token>())),
    ("/api/reruns/", Parameter::new("id", "The rerun or cold start.", Rule::of::<RerunId>())),
    ("/api/bulk/", Parameter::new("id", "The operation.", Rule::of::<BulkId>())),
    ("/api/dead-letters/", Parameter::new("id", "The dead letter.", Rule::of::<DeadLetterPlace>())),
    ("/api/audit/", Parameter::new("id", "The row.", Rule::of::<AuditPlace>())),
    ("/api/workers/", Parameter::text("id", "The worker.")),
    ("/api/keys/", Parameter::text("app", "The key's name.")),
    ("/api/people/", Parameter::new("id", "The session, token or invitation.", Rule::of::<CredentialId>())),
    ("/api/me/", Parameter::new("id", "The session, token or invitation.", Rule::of::<CredentialId>())),
    ("/api/people/", Parameter::new("name", "The person.", Rule::of::<PersonName>())),
    ("/api/departments/", Parameter::new("name", "The department.", Rule::of::<DepartmentName>())),
    ("/api/calendars/", Parameter::new("name", "The calendar's name.", Rule::of::<CalendarName>())),
    ("/api/calendars/", Parameter::new("version", "Counts the changes.", Rule::Number(1, VERSIONS))),
    ("/api/pools/", Parameter::new("name", "The pool's name.", Rule::of::<PoolName>())),
    ("/api/pull/templates/", Parameter::new("name", "The template's name.", Rule::of::<TemplateName>())),
    ("/api/pull/users/", Parameter::new("user", "The user.", Rule::of::<UserName>())),
    ("/api/pull/tasks/", Parameter::new("id", "The task.", Rule::of::<TaskId>())),
    ("/api/admin/partitions/", Parameter::new("partition", "Its number.", Rule::Number(0, u16::MAX as u64))),
];

const VERSIONS: u64 = i64::MAX as u64;

fn path_parameters(call: &Call) -> impl Iterator<Item = Parameter> {
    let names = call.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| {
        let fits = |(begin, it): &&(&str, Parameter)| call.path.starts_with(begin) && it.name == name;
        let known = IN_PATHS.iter().find(fits);
        known.unwrap_or_else(|| panic!("what is {name} in {}?", call.path)).1
    })
}
