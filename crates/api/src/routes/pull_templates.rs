use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use tidemill_model::{CatalogueCommand, Concerned, TemplateSpec};
use tidemill_store::ReadPullTables;

use super::defined::Defined;
use super::reader::Reader;
use super::writer::Writer;
use crate::Problem;
use crate::body::Body;
use crate::params::Params;
use crate::view::{List, TaskTemplateView, Written};

/// Templates, by name (PUL-1). They are the site's, whatever groups a key reaches.
pub(super) async fn list(by: Reader, params: Params) -> Result<Json<List<TaskTemplateView>>, Problem> {
    List::part(&by.app, &params, move |tables, request| tables.task_templates(request)).await
}

/// A template.
pub(super) async fn get(by: Reader, Path(name): Path<String>) -> Result<Json<TaskTemplateView>, Problem> {
    let row = by.app.find("template", name, |tables, name| tables.task_template(name)).await?;
    Ok(Json(row.into()))
}

/// Adds or changes a template; tasks that are there stay as they are.
pub(super) async fn define(by: Writer, Body(body): Body) -> Result<(StatusCode, Json<Defined>), Problem> {
    let template = TemplateSpec::from_value(body).map_err(|error| Problem::fields(vec![error]))?;
    let right = by.may(None)?;
    by.define(
        right,
        template.name.clone(),
        CatalogueCommand::DefineTemplate { template },
        Concerned::Everyone,
    )
    .await
}

/// Removes a template; tasks that were checked against it stay.
pub(super) async fn remove(by: Writer, Path(name): Path<String>) -> Result<Json<Written>, Problem> {
    let right = by.may(None)?;
    by.remove(right, &name, |name| CatalogueCommand::DeleteTemplate { name }).await
}
