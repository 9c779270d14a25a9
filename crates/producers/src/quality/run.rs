//! What [`Role`] does outside: asks owners, takes questions by commands, and sends them to the service.

use tidemill_cluster::{AskOwner, all_pages};
use tidemill_model::{
    BatchCommand, Command, FieldError, Incarnation, LiveAnswer, LiveQuery, Outcome, QualityQuestion, ShardId,
};

use super::config::Config;
use super::role::{Input, Output, Role, Taken};
use super::service::Service;
use crate::stepping::{Running, Stepped, Tasks};
use crate::{Error, Outside, Parts};

/// Questions of one page.
const PAGE: u32 = 1_000;

/// A running client of the quality service. Dropped, it is told to stop. What was taken and not sent then is asked for again
/// by its owner.
pub type Quality = Running;

/// Starts to send what owners ask; none where no service is configured. `tls` says whom to trust at an `https://` address.
///
/// # Errors
/// The configuration is outside its ranges, or the log or a thread cannot be had.
pub fn start(
    config: Config,
    outside: Outside,
    tls: Option<rustls::ClientConfig>,
) -> Result<Option<Quality>, Error> {
    let refused = |error: FieldError| Error::Quality(error.to_string());
    config.check().map_err(refused)?;
    let Some(service) = Service::new(&config, tls).map_err(refused)? else { return Ok(None) };
    let by = Incarnation::new(&*outside.instance);
    Running::start(Asking { role: Role::new(&config), service, by }, outside).map(Some)
}

struct Asking {
    role: Role,
    service: Service,
    by: Incarnation,
}

impl Stepped for Asking {
    const ROLE: &'static str = "quality";
    const THREADS: usize = 1;
    type Input = Input;
    type Output = Output;
    const PARTS: fn(Parts) -> Input = Input::Parts;
    const SHARDS: fn(Vec<ShardId>) -> Input = Input::Shards;
    const UNKNOWN: fn(ShardId) -> Input = Input::Unknown;

    fn step(&mut self, now_ms: u64, happened: impl Iterator<Item = Input>) -> (Vec<Output>, u64) {
        self.role.step(now_ms, happened)
    }

    fn perform(&mut self, output: Output, tasks: &mut Tasks<Self>) {
        match output {
            Output::Look(shard) => tasks.look(shard, move |ask| look(ask, shard)),
            Output::Take(ask) => self.take(ask, tasks),
            Output::Send(ask) => {
                let service = self.service.clone();
                tasks.one(async move {
                    let (batch, number) = (ask.batch, ask.number);
                    match service.send(&ask).await {
                        Ok(()) => tracing::debug!(%batch, number, "the quality service was asked"),
                        Err(reason) => {
                            tracing::warn!(%batch, number, reason, "the quality service cannot be asked");
                        }
                    }
                    Input::Sent(ask)
                });
            }
        }
    }
}

impl Asking {
    fn take(&self, ask: QualityQuestion, tasks: &mut Tasks<Self>) {
        let command = BatchCommand::SendQuality { batch: ask.batch, number: ask.number, by: self.by.clone() };
        tasks.submit(ask.batch.shard(), Command::Batch(command), move |outcome| {
            let taken = match outcome {
                Ok(Outcome::Done | Outcome::Answered(_)) => Taken::Ours,
                Ok(Outcome::Refused(_)) => Taken::Refused,
                Ok(Outcome::Repeated | Outcome::Deferred) => Taken::Unknown,
                Err(error) => {
                    tracing::warn!(batch = %ask.batch, %error, "it is not known who asks the quality service");
                    Taken::Unknown
                }
            };
            Input::Taken(ask, taken)
        });
    }
}

/// All questions of a shard that nobody has taken.
fn look(ask: &AskOwner, shard: ShardId) -> Input {
    let page = |after| match ask(shard, LiveQuery::WantedQuality { after, limit: PAGE })? {
        LiveAnswer::WantedQuality { asks, more } => Ok((asks, more)),
        // The shard is not there yet, or not any more.
        LiveAnswer::NotFound => Ok((Vec::new(), false)),
        other => Err(format!("an answer to another question: {other:?}")),
    };
    match all_pages(page, |ask: &QualityQuestion| ask.batch) {
        Ok(asks) => Input::Wanted(shard, asks),
        Err(reason) => {
            tracing::debug!(%shard, reason, "what the quality service is to be asked is not known");
            Input::Unknown(shard)
        }
    }
}
