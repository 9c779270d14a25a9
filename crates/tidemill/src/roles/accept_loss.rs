//! `tidemill partition accept-loss`: rule 5 of the log protocol, said by a person.

use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidemill_cli::{Done, Exit, Failure, Global, output};
use tidemill_cluster::instance_id;
use tidemill_dispatcher::{AcceptLossError, AcceptedLoss, Loss};
use tidemill_log::{Log, Topic};

use super::log;
use crate::cli::AcceptLossArgs;
use crate::config::{LogBackend, Settings};

/// An owner answers within this, or is gone.
const PATIENCE: Duration = Duration::from_secs(3);

/// Does it on the log itself: the partition has no owner that could be asked.
pub(crate) fn run(global: &Global, settings: &Settings, args: AcceptLossArgs) -> Done<Exit> {
    let AcceptLossArgs { partition, reason, by } = args;
    let log: Arc<dyn Log> = match settings.log.backend {
        LogBackend::Kafka => log::shared(settings)?,
        LogBackend::Embedded => log::embedded(settings)?,
    };
    let count = log.partitions(Topic::Journal);
    if partition >= count {
        return Err(Failure::bad_input(format!(
            "--partition: {partition}: must be the number of a partition, 0 to {}",
            count.saturating_sub(1)
        )));
    }
    // The lock on the data directory shows that whoever claimed the partition there is gone.
    let is_alive = |address: &str| settings.log.backend == LogBackend::Kafka && answers(address);
    let incarnation = instance_id("accept-loss").as_str().to_owned();
    let loss = Loss { partition, by, reason, incarnation };
    let accepted = tidemill_dispatcher::accept_loss(&log, &loss, &is_alive).map_err(|error| told(&error))?;
    let AcceptedLoss { done, kept_from, resumed_at, offset } = accepted;
    let answer = json!({
        "partition": partition, "done": done, "kept_from": kept_from, "resumed_at": resumed_at,
        "position": format!("{partition}:{offset}"),
    });
    output::answer(global.output, &answer, |_| {
        format!(
            "Partition {partition} goes on after command {resumed_at}; the last one done was {done}.\n\
             What its commands topic held up to there and was not decided is given up."
        )
    });
    Ok(Exit::Success)
}

/// Whether somebody listens there. An owner that cannot be reached is fenced by the journal all the same.
fn answers(address: &str) -> bool {
    let found = address.to_socket_addrs();
    found.is_ok_and(|mut found| found.any(|address| TcpStream::connect_timeout(&address, PATIENCE).is_ok()))
}

fn told(error: &AcceptLossError) -> Failure {
    let failure = Failure::caused("the loss is not accepted", error);
    match error {
        AcceptLossError::NothingLost { .. } | AcceptLossError::NothingDone { .. } => {
            failure.with_exit(Exit::Refused).hint("start a dispatcher: it takes the partition as it is")
        }
        AcceptLossError::OwnerLives { .. } => {
            failure.with_exit(Exit::Refused).hint("stop that process first, if its partition has stopped")
        }
        AcceptLossError::Outrun { .. } => {
            failure.with_exit(Exit::Refused).hint("stop the dispatchers, and give the command again")
        }
        AcceptLossError::TooLong { .. } => failure.with_exit(Exit::BadInput),
        AcceptLossError::Owner(_) | AcceptLossError::Append { .. } => failure,
    }
}
