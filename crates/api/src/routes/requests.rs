//! Who makes a request, and what the calls that change something have in common.

use std::sync::Arc;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use tidemill_model::{Answer, BatchId, Command, Concerned, Permission, ShardId};

use super::batches::shard_of_batch;
use crate::Problem;
use crate::app::App;
use crate::params::id;
use crate::propagation::{self, Late};
use crate::rights::{Caller, Right};
use crate::view::{Answered, Settled, Written};
use crate::write::{Done, Write};

/// A request to see something: who makes it.
pub(super) struct Reader {
    pub(super) app: Arc<App>,
    pub(super) caller: Caller,
}

impl FromRequestParts<Arc<App>> for Reader {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Caller>().cloned();
        let caller =
            caller.ok_or_else(|| Problem::internal("a call that needs a key was reached without one"))?;
        Ok(Self { app: Arc::clone(app), caller })
    }
}

/// A request to change something: who makes it, and what its headers say.
pub(super) struct Writer {
    pub(super) app: Arc<App>,
    pub(super) caller: Caller,
    pub(super) headers: HeaderMap,
}

impl FromRequestParts<Arc<App>> for Writer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let Reader { app, caller } = Reader::from_request_parts(parts, app).await?;
        Ok(Self { app, caller, headers: parts.headers.clone() })
    }
}

impl Writer {
    /// The batch that a path names, the shard that decides it, and the right to act on it.
    pub(super) async fn batch(
        &self,
        text: &str,
        needed: Permission,
    ) -> Result<(BatchId, ShardId, Right), Problem> {
        let batch = id("batch", text)?;
        let (shard, right) = self.shard_of(batch, needed).await?;
        Ok((batch, shard, right))
    }

    /// The shard that decides a batch, and the right to act on it.
    pub(super) async fn shard_of(
        &self,
        batch: BatchId,
        needed: Permission,
    ) -> Result<(ShardId, Right), Problem> {
        shard_of_batch(&self.app, &self.caller, batch, needed).await
    }

    /// Its write, by this right.
    pub(super) fn write(&self, right: Right) -> Result<Write<'_>, Problem> {
        Write::new(&self.app, right, &self.headers)
    }

    /// Lets a shard decide the command.
    pub(super) async fn send(
        &self,
        right: Right,
        shard: ShardId,
        command: impl Into<Command>,
    ) -> Result<Done, Problem> {
        let command = command.into();
        self.write(right)?.send(shard, command).await
    }

    /// As [`Writer::send`], where the answer says nothing else.
    pub(super) async fn written(
        &self,
        right: Right,
        shard: ShardId,
        command: impl Into<Command>,
    ) -> Answered<Written> {
        written(self.send(right, shard, command).await?)
    }

    /// Lets the catalogue decide the command, and waits until it is in effect for those whom it concerns.
    pub(super) async fn settled(
        &self,
        right: Right,
        command: impl Into<Command>,
        concerned: Concerned,
    ) -> Settled<Written> {
        let done = self.send(right, ShardId::CATALOGUE, command).await?;
        let position = done.position;
        let Json(mut written) = written(done)?;
        written.late = propagation::wait(&self.app, concerned, position).await;
        Ok((written.late.status(), Json(written)))
    }
}

/// Checks that the write says nothing else, and gives its position.
pub(super) fn written(done: Done) -> Answered<Written> {
    let Answer::Done = done.answer else { return Err(done.unexpected()) };
    Ok(Json(Written { position: done.position.to_string(), late: Late::default() }))
}
