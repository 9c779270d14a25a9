//! Rights of answers that take long: they are looked at again while the answer goes on (API-5).

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::BoxError;
use axum::body::{Body, Bytes};
use futures_util::stream::try_unfold;
use futures_util::{Stream, StreamExt};

use crate::Problem;
use crate::app::App;
use crate::auth::Credentials;
use crate::rights::Caller;
use crate::turns::Turn;

/// So long an answer goes on where the tables cannot be read.
const UNREAD: Duration = Duration::from_secs(30);

/// What a caller showed, and when it was last found good.
#[derive(Clone)]
pub(crate) struct Standing {
    app: Arc<App>,
    shown: Option<Credentials>,
    caller: Caller,
    looked_at: Instant,
    good_at: Instant,
}

impl Standing {
    /// Of a caller that has just been found good.
    pub(crate) fn new(app: &Arc<App>, shown: Option<Credentials>, caller: &Caller) -> Self {
        let now = Instant::now();
        Self { app: Arc::clone(app), shown, caller: caller.clone(), looked_at: now, good_at: now }
    }

    /// Who calls, with the rights of now.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Looks again where the last look is older than a key is trusted; whether it did.
    ///
    /// # Errors
    /// The key is not good any more, or that could not be found out for too long.
    pub(crate) async fn look(&mut self) -> Result<bool, Problem> {
        if self.looked_at.elapsed() < self.app.config.key_cache() {
            return Ok(false);
        }
        self.looked_at = Instant::now();
        match self.app.authenticate(self.shown.clone(), self.caller.user()).await {
            Ok(caller) => {
                self.caller = caller;
                self.good_at = self.looked_at;
                Ok(true)
            }
            Err(problem) if problem.status().is_server_error() && self.good_at.elapsed() < UNREAD => {
                Ok(false)
            }
            Err(problem) => Err(problem),
        }
    }

    /// The body of an answer about a group, which breaks off once the caller may not read it any more. `open` is its
    /// place among such answers.
    pub(crate) fn while_may_read<S, E>(self, group: String, open: Turn, chunks: S) -> Body
    where
        S: Stream<Item = Result<Bytes, E>> + Send + Unpin + 'static,
        E: Into<BoxError> + Send + 'static,
    {
        let following = Following { standing: self, group, _open: open, chunks };
        Body::from_stream(try_unfold(following, Following::next))
    }
}

struct Following<S> {
    standing: Standing,
    group: String,
    chunks: S,
    _open: Turn,
}

impl<S, E> Following<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: Into<BoxError>,
{
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, BoxError> {
        let Some(chunk) = self.chunks.next().await else { return Ok(None) };
        let chunk = chunk.map_err(Into::into)?;
        let standing = &mut self.standing;
        let may = standing.look().await.and_then(|_| standing.caller.may_read(&self.group));
        may.map_err(|problem| problem.detail.to_string())?;
        Ok(Some((chunk, self)))
    }
}
