//! Rights of answers that take long: they are looked at again while the answer goes on (API-5).

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::BoxError;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use futures_util::stream::try_unfold;
use futures_util::{Stream, StreamExt};

use crate::Problem;
use crate::app::App;
use crate::auth::{Credentials, Proof};
use crate::object::Object;
use crate::rights::Caller;
use crate::turns::Turn;
use tidemill_model::Permission;

/// So long an answer goes on where neither the log nor the tables say whether the key is good.
const UNREAD: Duration = Duration::from_secs(30);
/// Between two looks: an answer is over within a second of the record that ends its key.
const LOOK: Duration = Duration::from_millis(200);

/// What a caller showed, and when it was last found good.
#[derive(Clone)]
pub(crate) struct Standing {
    app: Arc<App>,
    proof: Option<Proof>,
    caller: Caller,
    looked_at: Instant,
    good_at: Instant,
}

impl Standing {
    /// Of a caller that has just been found good.
    pub(crate) fn new(app: &Arc<App>, shown: Option<&Credentials>, caller: &Caller) -> Self {
        let now = Instant::now();
        let proof = shown.map(Credentials::proof);
        Self { app: Arc::clone(app), proof, caller: caller.clone(), looked_at: now, good_at: now }
    }

    /// Who calls, with the rights of now.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Looks again where the last look is old enough; whether it did.
    ///
    /// # Errors
    /// The key is not good any more, or that could not be found out for too long.
    pub(crate) async fn look(&mut self) -> Result<bool, Problem> {
        if self.looked_at.elapsed() < LOOK {
            return Ok(false);
        }
        self.looked_at = Instant::now();
        let Some(proof) = &self.proof else { return Err(Problem::unauthorized()) };
        match self.app.caller_of(proof, self.caller.user()).await {
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

    /// Looks again, once what was waited for is there: a call does nothing by rights that were its caller's before.
    ///
    /// # Errors
    /// The key is not good any more, its rights have changed, or that cannot be found out.
    pub(crate) async fn still_may(&self) -> Result<(), Problem> {
        if self.looked_at.elapsed() < LOOK {
            return Ok(());
        }
        let Some(proof) = &self.proof else { return Err(Problem::unauthorized()) };
        if self.app.caller_of(proof, self.caller.user()).await?.may_as(&self.caller) {
            return Ok(());
        }
        let detail = "what the caller may has changed while the body was on its way; send the request again";
        Err(Problem::new(StatusCode::CONFLICT, "rights_changed", detail).retry_after(1))
    }

    /// Is done once the key is not good any more, whatever the answer waits for meanwhile.
    pub(crate) fn lost(&self) -> impl Future<Output = Problem> + Send + 'static + use<> {
        let mut standing = self.clone();
        async move {
            loop {
                tokio::time::sleep(LOOK).await;
                if let Err(problem) = standing.look().await {
                    let app = standing.caller.holder();
                    tracing::info!(%app, "an answer to key {app} is ended: {}", problem.detail);
                    return problem;
                }
            }
        }
    }

    /// Whether the caller may still read the logs of this, as it is now.
    ///
    /// # Errors
    /// The key is not good any more, it may not, or that could not be found out for too long.
    pub(crate) async fn still_reads_logs(&mut self, object: &mut Object) -> Result<(), Problem> {
        if self.look().await? {
            self.app.again(object).await?;
        }
        self.caller.may(Permission::ReadLogs, object).map(drop)
    }

    /// The body of an answer with a log of this, which breaks off once the caller may not read it any more. `open` is its
    /// place among such answers.
    pub(crate) fn while_may_read<S, E>(self, object: Object, open: Turn, chunks: S) -> Body
    where
        S: Stream<Item = Result<Bytes, E>> + Send + Unpin + 'static,
        E: Into<BoxError> + Send + 'static,
    {
        let lost: Lost = Box::pin(self.lost());
        let following = Following { standing: self, object, lost, _open: open, chunks };
        Body::from_stream(try_unfold(following, Following::next))
    }
}

type Lost = Pin<Box<dyn Future<Output = Problem> + Send>>;

struct Following<S> {
    standing: Standing,
    object: Object,
    lost: Lost,
    chunks: S,
    _open: Turn,
}

impl<S, E> Following<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: Into<BoxError>,
{
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, BoxError> {
        let chunk = tokio::select! {
            chunk = self.chunks.next() => chunk,
            // Nothing may come for long.
            problem = &mut self.lost => return Err(problem.detail.to_string().into()),
        };
        let Some(chunk) = chunk.transpose().map_err(Into::into)? else { return Ok(None) };
        let may = self.standing.still_reads_logs(&mut self.object).await;
        may.map_err(|problem| problem.detail.to_string())?;
        Ok(Some((chunk, self)))
    }
}
