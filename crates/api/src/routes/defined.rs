//! What administrators define in the catalogue by name, in versions: calendars, pools, templates.

use std::fmt::Display;

use axum::Json;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{Answer, CatalogueCommand, Concerned, Role, ShardId};

use super::writer::Writer;
use crate::Problem;
use crate::propagation::{self, Late};
use crate::rights::Right;
use crate::view::Written;

/// It is there.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Defined {
    /// Its name.
    name: String,
    /// Its version: the one it had, if nothing differs.
    version: u32,
    /// Give this as `at_least` to reads that must show it.
    position: String,
    /// How far it is.
    #[serde(flatten)]
    late: Late,
}

impl Writer {
    /// For what is of this group; nothing: of every group, which takes an administrator of the site.
    pub(super) fn may(&self, group: Option<&str>) -> Result<Right, Problem> {
        match group {
            Some(group) => self.caller.for_group(group),
            None => self.caller.for_site(Role::Administrator),
        }
    }

    /// Lets the catalogue define it, and waits until it is in effect for those whom it concerns.
    pub(super) async fn define(
        self,
        right: Right,
        name: impl Display,
        command: CatalogueCommand,
        concerned: Concerned,
    ) -> Result<(StatusCode, Json<Defined>), Problem> {
        let done = self.send(right, ShardId::CATALOGUE, command).await?;
        let (Answer::Calendar { version } | Answer::Pool { version } | Answer::Template { version }) =
            done.answer
        else {
            return Err(done.unexpected());
        };
        let late = propagation::wait(&self.app, concerned, done.position).await;
        let position = done.position.to_string();
        Ok((late.status(), Json(Defined { name: name.to_string(), version, position, late })))
    }

    /// Lets the catalogue remove what has this name.
    pub(super) async fn remove<'n, N>(
        self,
        right: Right,
        name: &'n str,
        command: impl FnOnce(N) -> CatalogueCommand,
    ) -> Result<Json<Written>, Problem>
    where
        N: TryFrom<&'n str, Error: Display>,
    {
        let name = N::try_from(name).map_err(|error| Problem::field("name", name, error.to_string()))?;
        self.written(right, ShardId::CATALOGUE, command(name)).await
    }
}
