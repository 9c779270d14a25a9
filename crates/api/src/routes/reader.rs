use std::sync::Arc;

use axum::Extension;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::Problem;
use crate::app::App;
use crate::rights::Caller;

/// A request to see something: who makes it.
pub(super) struct Reader {
    pub(super) app: Arc<App>,
    pub(super) caller: Caller,
}

impl FromRequestParts<Arc<App>> for Reader {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let Extension(caller) = Extension::<Caller>::from_request_parts(parts, app)
            .await
            .map_err(|_| Problem::internal("a call that needs a key was reached without one"))?;
        Ok(Self { app: Arc::clone(app), caller })
    }
}
