//! What administrators define in the catalogue by name, in versions: calendars, pools, templates.

use std::fmt::Display;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{Answer, Command, Concerned, Role, ShardId};

use super::run::written;
use crate::Problem;
use crate::app::App;
use crate::propagation::{self, Late};
use crate::rights::{Caller, Right};
use crate::view::Written;
use crate::write::{Done, Write};

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

/// A request to define or remove something by name.
pub(super) struct Definer {
    app: Arc<App>,
    caller: Caller,
    headers: HeaderMap,
}

impl FromRequestParts<Arc<App>> for Definer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let Extension(caller) = Extension::<Caller>::from_request_parts(parts, app)
            .await
            .map_err(|_| Problem::internal("a call that needs a key was reached without one"))?;
        Ok(Self { app: Arc::clone(app), caller, headers: parts.headers.clone() })
    }
}

impl Definer {
    /// For what is of this group; nothing: of every group, which takes an administrator of the site.
    pub(super) fn may(&self, group: Option<&str>) -> Result<Right, Problem> {
        match group {
            Some(group) => self.caller.for_group(group),
            None => self.caller.for_site(Role::Administrator),
        }
    }

    /// The interface.
    pub(super) fn app(&self) -> &App {
        &self.app
    }

    /// Lets the catalogue define it, and waits until it is in effect for those whom it concerns.
    pub(super) async fn define(
        self,
        right: Right,
        name: impl Display,
        command: Command,
        concerned: Concerned,
    ) -> Result<(StatusCode, Json<Defined>), Problem> {
        let done = self.send(right, command).await?;
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
        command: impl FnOnce(N) -> Command,
    ) -> Result<Json<Written>, Problem>
    where
        N: TryFrom<&'n str, Error: Display>,
    {
        let name = N::try_from(name).map_err(|error| Problem::field("name", name, error.to_string()))?;
        written(self.send(right, command(name)).await?)
    }

    async fn send(&self, right: Right, command: Command) -> Result<Done, Problem> {
        Write::new(&self.app, right, &self.headers)?.send(ShardId::CATALOGUE, command).await
    }
}
