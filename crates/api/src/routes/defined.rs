//! What administrators define in the catalogue by name, in versions: calendars, pools, templates.

use std::fmt::Display;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;
use tidemill_model::{Answer, Command, Role, ShardId};

use super::run::written;
use crate::Problem;
use crate::app::App;
use crate::auth::Caller;
use crate::params::Params;
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
}

/// A request of an administrator, without query parameters.
pub(super) struct Administrator {
    app: Arc<App>,
    caller: Caller,
    headers: HeaderMap,
}

impl FromRequestParts<Arc<App>> for Administrator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        Params::from_request_parts(parts, app).await?.only(&[])?;
        let Extension(caller) = Extension::<Caller>::from_request_parts(parts, app)
            .await
            .map_err(|_| Problem::internal("a call that needs a key was reached without one"))?;
        caller.has_role(Role::Administrator)?;
        Ok(Self { app: Arc::clone(app), caller, headers: parts.headers.clone() })
    }
}

impl Administrator {
    /// Lets the catalogue define it.
    pub(super) async fn define(self, name: impl Display, command: Command) -> Result<Json<Defined>, Problem> {
        let done = self.send(command).await?;
        match done.answer {
            Answer::Calendar { version } | Answer::Pool { version } | Answer::Template { version } => {
                Ok(Json(Defined { name: name.to_string(), version, position: done.position.to_string() }))
            }
            _ => Err(done.unexpected()),
        }
    }

    /// Lets the catalogue remove what has this name.
    pub(super) async fn remove<'n, N>(
        self,
        name: &'n str,
        command: impl FnOnce(N) -> Command,
    ) -> Result<Json<Written>, Problem>
    where
        N: TryFrom<&'n str, Error: Display>,
    {
        let name = N::try_from(name).map_err(|error| Problem::field("name", name, error.to_string()))?;
        written(self.send(command(name)).await?)
    }

    async fn send(&self, command: Command) -> Result<Done, Problem> {
        Write::new(&self.app, &self.caller, &self.headers)?.send(ShardId::CATALOGUE, command).await
    }
}
