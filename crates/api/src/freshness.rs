//! How far the tables are, as the projector of this process or the tables themselves tell.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBuilder};
use tidemill_cluster::BoxFuture;
use tidemill_journal::Progress;
use tidemill_store::Tables;

use crate::ports::Freshness;

/// Between two looks at the tables.
const LOOK: Duration = Duration::from_millis(20);
/// Between two looks at what the projector of this process says.
const PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(1))
    .with_max_delay(Duration::from_millis(16))
    .without_max_times();

/// Looks at the position that the projector stores with the rows. For clusters: within one process a handle of
/// the projector hears of progress at once.
pub struct TablePositions {
    tables: Arc<dyn Tables>,
}

impl TablePositions {
    /// Looks at these tables.
    pub fn new(tables: Arc<dyn Tables>) -> Self {
        Self { tables }
    }
}

/// The offset of the last record of the partition that the tables in use hold.
fn projected(tables: &dyn Tables, partition: u32) -> Result<Option<u64>, tidemill_store::Error> {
    let Some(generation) = tables.active()? else { return Ok(None) };
    Ok(tables.positions(generation.number)?.get(&partition).map(|position| position.offset))
}

impl Freshness for TablePositions {
    fn wait(&self, partition: u32, offset: u64, timeout: Duration) -> BoxFuture<'_, bool> {
        let deadline = Instant::now() + timeout;
        Box::pin(async move {
            let mut looks = tokio::time::interval(LOOK);
            loop {
                looks.tick().await;
                let tables = Arc::clone(&self.tables);
                let look = tokio::task::spawn_blocking(move || projected(&*tables, partition)).await;
                match look {
                    Ok(Ok(Some(at))) if at >= offset => return true,
                    _ if Instant::now() >= deadline => return false,
                    _ => {}
                }
            }
        })
    }
}

/// The projector of this process: it knows its progress without a look at the tables. No thread waits for it, for
/// there are fewer of those than requests.
impl Freshness for Progress {
    fn wait(&self, partition: u32, offset: u64, timeout: Duration) -> BoxFuture<'_, bool> {
        let deadline = Instant::now() + timeout;
        Box::pin(async move {
            let mut pauses = PAUSES.build();
            while !self.reaches(partition, offset) {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return false;
                }
                tokio::time::sleep(pauses.next().expect("they have no end").min(left)).await;
            }
            true
        })
    }
}
