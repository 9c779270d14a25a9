use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidemill_model::{Command, Permission, WorkerCommand, WorkerId};
use tidemill_store::rows::WorkerRow;
use tidemill_store::{ReadTables, Tables, WorkerFilter};

use super::host_names::MAX_HOST_BYTES;
use super::worker_address::{meant, registered_at, shown, wanted};
use super::{body_of, caller_by_body, refused};
use crate::Problem;
use crate::app::{App, shard_in};
use crate::body::parse;
use crate::object::Object;
use crate::view::for_each_row;
use crate::write::Write;

/// A worker to be taken off duty, or on again.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkerStatusRequest {
    /// Name of the application key; or the header X-App-Name.
    #[serde(default, rename = "app_name")]
    _app_name: Option<String>,
    /// Its secret; or the header X-App-Key.
    #[serde(default, rename = "app_key")]
    _app_key: Option<String>,
    /// The worker's address as it registered it, or another name or address of its host that no other worker with the port has.
    #[schemars(length(min = 1, max = MAX_HOST_BYTES))]
    ip: String,
    /// Its port.
    #[schemars(range(min = 1, max = 65535))]
    port: i32,
    /// 1 on duty, 0 off.
    #[schemars(range(min = 0, max = 1))]
    status: i32,
}

/// What became of it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WorkerSwitched {
    /// The worker's address; empty where none was given.
    ip: String,
    /// Its port; -1 where none was given.
    port: i32,
    /// Whether it was done.
    success: bool,
    /// Why it was refused; absent where it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// API-2: takes a worker off duty, or on again.
pub(super) async fn switch(State(app): State<Arc<App>>, headers: HeaderMap, request: Request) -> Response {
    let body = match body_of(&app, request).await {
        Ok(body) => body,
        Err(problem) => return refused(problem, json!({"success": false})),
    };
    let ip = body["ip"].as_str().unwrap_or_default();
    let port = body["port"].as_i64().and_then(|port| i32::try_from(port).ok()).unwrap_or(-1);
    let members = json!({"ip": ip, "port": port, "success": false});
    match change(&app, &headers, body).await {
        Ok((ip, port)) => Json(WorkerSwitched { ip, port, success: true, message: None }).into_response(),
        Err(problem) => refused(problem, members),
    }
}

async fn change(app: &App, headers: &HeaderMap, mut body: Value) -> Result<(String, i32), Problem> {
    let caller = caller_by_body(app, &mut body, headers).await?;
    let WorkerStatusRequest { ip, port, status, .. } = parse(body)?;
    let wanted = wanted(&ip, port)?;
    if !(0..=1).contains(&status) {
        return Err(Problem::field("status", status, "must be 1 (on duty) or 0 (off duty)"));
    }
    let name = shown(&ip, port);
    let object = |row: &WorkerRow| Object::new("worker", &*name, Arc::clone(&row.group_name));
    let rows = app.read(all_workers).await?;
    let (own, others): (Vec<&WorkerRow>, Vec<&WorkerRow>) =
        rows.iter().partition(|row| caller.may(Permission::Operate, &object(row)).is_ok());
    // What a name means is nobody's business who may not use the answer.
    let row = meant(&wanted, &own, caller.holder()).await?;
    let row = row.or_else(|| registered_at(&wanted, others.into_iter()));
    let row = row.ok_or_else(|| Problem::unknown("worker", &name))?;
    let right = caller.may(Permission::Operate, &object(row))?;
    let worker = WorkerId::new(&*row.id);
    let command = match status {
        0 => Command::Worker(WorkerCommand::Drain { worker }),
        _ => Command::Worker(WorkerCommand::Resume { worker }),
    };
    Write::new(app, right, headers)?.send(shard_in(row.shard), command).await?;
    Ok((ip, port))
}

fn all_workers(tables: &dyn Tables) -> Result<Vec<WorkerRow>, tidemill_store::Error> {
    let mut rows = Vec::new();
    for_each_row(|request| tables.workers(&WorkerFilter::default(), request), |row| rows.push(row))?;
    Ok(rows)
}
