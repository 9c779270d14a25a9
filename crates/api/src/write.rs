//! Sends one command and gives what came of it.

use std::fmt::Display;
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use backon::{BackoffBuilder, ExponentialBuilder};
use tidemill_cluster::{SubmitRequest, request_id};
use tidemill_model::{Answer, Command, JobId, Outcome, Rejection, RequestId, ShardId};

use crate::Problem;
use crate::app::App;
use crate::position::JournalPosition;
use crate::rights::Right;

/// The header by which a repeat of a write gets the first answer (API-4).
const IDEMPOTENCY_KEY: &str = "idempotency-key";
const MAX_KEY_BYTES: usize = 200;
/// Of what the header takes. Blanks around it do not belong to it.
pub(crate) const KEY_PATTERN: &str = r"^[\x21-\x7e]([\x20-\x7e]{0,198}[\x21-\x7e])?$";
/// How long a write waits for a large `apply` of somebody else.
const BUSY_PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts of a write that is refused for a while.
const BUSY_PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(20))
    .with_max_delay(Duration::from_millis(250))
    .without_max_times();

/// What the caller chose as its request's key, checked.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let text = key.to_str().unwrap_or("");
    let is_visible = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if text.is_empty() || text.len() > MAX_KEY_BYTES || !is_visible {
        let rule = format!("must be 1 to {MAX_KEY_BYTES} visible ASCII characters");
        return Err(Problem::field("Idempotency-Key", text, rule));
    }
    Ok(Some(text))
}

/// A write: by whose right, and under which id.
#[derive(Clone)]
pub(crate) struct Write<'a> {
    app: &'a App,
    pub(crate) right: Right,
    pub(crate) request: RequestId,
}

pub(crate) struct Done {
    pub(crate) answer: Answer,
    pub(crate) position: JournalPosition,
}

impl<'a> Write<'a> {
    /// The id comes from the caller's header; it counts for that application key alone.
    pub(crate) fn new(app: &'a App, right: Right, headers: &HeaderMap) -> Result<Self, Problem> {
        let request = match idempotency_key(headers)? {
            None => request_id(),
            Some(key) => right.request(key),
        };
        Ok(Self { app, right, request })
    }

    /// A request whose repeat is another request: what it gives follows from the state alone.
    pub(crate) fn fresh(app: &'a App, right: Right) -> Self {
        Self { app, right, request: request_id() }
    }

    /// A command that was set aside at `offset` is sent again; its id tells the tables so (EVT-9).
    pub(crate) fn redrive(app: &'a App, right: Right, offset: u64) -> Self {
        Self { app, right, request: RequestId::redrive(offset, request_id().as_str()) }
    }

    /// Sends the command and waits for its outcome. While a large `apply` is being carried out, it is asked
    /// again for some seconds.
    pub(crate) async fn send(&self, shard: ShardId, command: Command) -> Result<Done, Problem> {
        let is_busy = |rejection: &Rejection| matches!(rejection, Rejection::ApplyRunning { .. });
        self.send_while(is_busy, BUSY_PATIENCE, shard, command).await?.map_err(Problem::from)
    }

    /// One of several commands that make one request; `what` tells them apart.
    pub(crate) fn part(&self, what: impl Display) -> Self {
        Self { app: self.app, right: self.right.clone(), request: self.request.part(what) }
    }

    /// Sends the command once, and gives the owner's refusal as such.
    pub(crate) async fn send_once(
        &self,
        shard: ShardId,
        command: Command,
    ) -> Result<Result<Done, Rejection>, Problem> {
        let (request, actor) = (self.request.clone(), self.right.actor());
        let submit_request = SubmitRequest { shard, request, actor, command };
        let reply =
            self.app.deps.submitter.submit(submit_request, Some(self.app.config.write_timeout())).await?;
        let position = JournalPosition::of(&reply);
        Ok(match reply.outcome {
            Outcome::Done => Ok(Done { answer: Answer::Done, position }),
            Outcome::Answered(answer) => Ok(Done { answer, position }),
            Outcome::Refused(rejection) => Err(rejection),
            Outcome::Repeated | Outcome::Deferred => {
                return Err(Problem::internal("the answer to a repeated request is missing"));
            }
        })
    }

    /// As [`Write::send`], about a job. Where the catalogue has that, and the group's shard has not heard of it yet, it is
    /// asked again for at most 2 s.
    pub(crate) async fn send_for_job(
        &self,
        job: JobId,
        shard: ShardId,
        command: Command,
    ) -> Result<Done, Problem> {
        if job.shard() != ShardId::CATALOGUE {
            return self.send(shard, command).await;
        }
        let is_new =
            |rejection: &Rejection| matches!(rejection, Rejection::Unknown { what, .. } if what == "job");
        self.send_while(is_new, Duration::from_secs(2), shard, command).await?.map_err(Problem::from)
    }

    /// Asks again as long as the refusal is one that passes, each time under an id that follows from the first
    /// one, so that a repeat of the whole gets the same answers.
    pub(crate) async fn send_while(
        &self,
        passes: impl Fn(&Rejection) -> bool,
        patience: Duration,
        shard: ShardId,
        command: Command,
    ) -> Result<Result<Done, Rejection>, Problem> {
        let deadline = Instant::now() + patience;
        let mut write = self.clone();
        let mut pauses = BUSY_PAUSES.build();
        for again in 1.. {
            match write.send_once(shard, command.clone()).await? {
                Err(rejection) if passes(&rejection) && Instant::now() < deadline => {}
                outcome => return Ok(outcome),
            }
            tokio::time::sleep(pauses.next().expect("they have no end")).await;
            write = self.part(again);
        }
        unreachable!("the loop ends by its deadline")
    }
}

impl Done {
    /// The stored answer is of another kind: the id was used for another request before.
    pub(crate) fn unexpected(&self) -> Problem {
        let rule = "was used for another request before; draw a new one for each request";
        let mut problem = Problem::new(axum::http::StatusCode::CONFLICT, "idempotency_key_reused", rule);
        problem.errors = vec![tidemill_model::FieldError::new("Idempotency-Key", "", rule)];
        problem
    }
}
