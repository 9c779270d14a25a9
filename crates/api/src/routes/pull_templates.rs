use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{Answer, Command, Role, ShardId, TemplateName, TemplateSpec};
use tidemill_store::ReadPullTables;

use super::run::written;
use crate::Problem;
use crate::app::App;
use crate::auth::Caller;
use crate::body::Body;
use crate::params::Params;
use crate::view::{List, TaskTemplateView, Written};
use crate::write::Write;

/// Templates, by name (PUL-1). They are the site's, whatever groups a key reaches.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    params: Params,
) -> Result<Json<List<TaskTemplateView>>, Problem> {
    params.only(&["limit", "cursor"])?;
    let request = params.page()?;
    let page = app.read(move |tables| tables.task_templates(&request)).await?;
    Ok(Json(List::of(page, TaskTemplateView::from)))
}

/// A template.
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    params: Params,
) -> Result<Json<TaskTemplateView>, Problem> {
    params.only(&[])?;
    let wanted = name.clone();
    let row = app.read(move |tables| tables.task_template(&wanted)).await?;
    row.map(|row| Json(row.into())).ok_or_else(|| Problem::unknown("template", name))
}

/// A template is there.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TemplateDefined {
    /// Its name.
    name: TemplateName,
    /// Its version: the one it had, if nothing differs.
    version: u32,
    /// Give this as `at_least` to reads that must show it.
    position: String,
}

/// Adds or changes a template; tasks that are there stay as they are.
pub(super) async fn define(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    params: Params,
    headers: HeaderMap,
    Body(body): Body,
) -> Result<Json<TemplateDefined>, Problem> {
    params.only(&[])?;
    caller.has_role(Role::Administrator)?;
    let template = TemplateSpec::from_value(body).map_err(|error| Problem::fields(vec![error]))?;
    let name = template.name.clone();
    let command = Command::DefineTemplate { template };
    let done = Write::new(&app, &caller, &headers)?.send(ShardId::CATALOGUE, command).await?;
    match done.answer {
        Answer::Template { version } => {
            Ok(Json(TemplateDefined { name, version, position: done.position.to_string() }))
        }
        _ => Err(done.unexpected()),
    }
}

/// Removes a template; tasks that were checked against it stay.
pub(super) async fn remove(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    params: Params,
    headers: HeaderMap,
) -> Result<Json<Written>, Problem> {
    params.only(&[])?;
    caller.has_role(Role::Administrator)?;
    let name = TemplateName::try_from(name.as_str())
        .map_err(|error| Problem::field("name", &name, error.to_string()))?;
    let command = Command::RemoveTemplate { name };
    written(Write::new(&app, &caller, &headers)?.send(ShardId::CATALOGUE, command).await?)
}
