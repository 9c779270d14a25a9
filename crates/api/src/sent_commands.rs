//! Commands as they were sent, straight from the log.

use std::sync::Arc;
use std::time::Duration;

use tidemill_log::{From, Log, Topic};

use crate::ports::SentCommands;

/// Until a record that the log keeps has to be there.
const POLL: Duration = Duration::from_secs(5);

/// The commands of this log.
pub struct LogCommands {
    log: Arc<dyn Log>,
}

impl LogCommands {
    /// Of this log.
    pub fn new(log: Arc<dyn Log>) -> Self {
        Self { log }
    }
}

impl SentCommands for LogCommands {
    fn command(&self, partition: u32, offset: u64) -> Result<Option<Arc<[u8]>>, tidemill_log::Error> {
        if !self.log.range(Topic::Commands, partition)?.contains(&offset) {
            return Ok(None);
        }
        let mut reader = self.log.reader(Topic::Commands, partition, From::Offset(offset))?;
        let found = reader.poll(1, POLL)?.into_iter().next();
        Ok(found.filter(|record| record.offset == offset).map(|record| record.value))
    }
}
