//! `POST /output`: the store of logs that has the worker's partition asks again and again for what its attempts have printed
//! (LOG-1). The types say what is asked and answered ([`ShipRequest`]).
//!
//! ```text
//!  store ── ShipRequest ──► output ── on a blocking thread ──► Shipping ──► Disk: attempts/, ended/ ──► shipped/
//!        ◄── frames ───────   └ again each 100 ms, while there is nothing and the store waits
//! ```
//! Nobody waits for a store but the spool. What must never happen: that an attempt leaves the spool before a store has said that it
//! is kept, or that an answer holds a byte that is not in the file at that place.

mod disk;
mod session;
mod shipping;
mod spool;
#[cfg(test)]
mod tests;
mod times;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use tidemill_model::ShipRequest;
use tokio::sync::Mutex;

use self::disk::Disk;
use self::shipping::{Looked, Shipping};
use super::server::{Problem, Served, on_blocking_thread};
use crate::data_dir::Attempts;
use crate::machine::boottime_ms;
use crate::processes::Table;

/// The longest request, bytes: it may say of each attempt of a session where to begin.
const MAX_REQUEST_BYTES: usize = 4 << 20;
/// The longest that a request may wait, milliseconds.
const MAX_WAIT_MS: u64 = 10_000;
/// Between two looks at the spool.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The sessions, locked over a look at the spool: one at a time.
pub(super) struct Ship(Arc<Mutex<Shipping<Disk>>>);

impl Ship {
    pub(super) fn new(attempts: Attempts, table: Arc<Table>, max_bytes: Option<u64>) -> Self {
        Self(Arc::new(Mutex::new(Shipping::new(Disk::new(attempts, table, max_bytes)))))
    }

    async fn with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Shipping<Disk>) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        // Who waits here, while a disk hangs, takes no thread and is gone with its connection.
        let mut shipping = Arc::clone(&self.0).lock_owned().await;
        on_blocking_thread(move || Ok(act(&mut shipping))).await
    }
}

pub(super) async fn output(
    State(served): State<Arc<Served>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    served.check_key(&headers)?;
    let request = read(body).await?;
    served.attempts.has_store();
    let wait = Duration::from_millis(request.wait_ms);
    let begun = Instant::now();
    let number = served.ship.with(move |shipping| shipping.begin(&request, boottime_ms())).await?;
    loop {
        let is_last = begun.elapsed() >= wait;
        let look = move |shipping: &mut Shipping<Disk>| shipping.look(number, is_last, boottime_ms());
        match served.ship.with(look).await? {
            Looked::Nothing => tokio::time::sleep(LOOK_EVERY.min(wait.saturating_sub(begun.elapsed()))).await,
            Looked::Answer(frames) => {
                let mut bytes = Vec::new();
                frames.iter().for_each(|frame| frame.write(&mut bytes));
                let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
                return Ok((kind, bytes).into_response());
            }
            Looked::Overtaken => {
                let detail = "a later request of this store, or those of others, have come".to_owned();
                return Err(Problem { status: StatusCode::CONFLICT, code: "overtaken", detail });
            }
        }
    }
}

async fn read(body: Body) -> Result<ShipRequest, Problem> {
    let wrong = |detail: String| Problem { status: StatusCode::BAD_REQUEST, code: "wrong_request", detail };
    let bytes = axum::body::to_bytes(body, MAX_REQUEST_BYTES).await.map_err(|error| {
        wrong(format!("the request cannot be read, or is longer than {MAX_REQUEST_BYTES} bytes: {error}"))
    })?;
    let request: ShipRequest = serde_json::from_slice(&bytes)
        .map_err(|error| wrong(format!("the request is no JSON of a request for output: {error}")))?;
    if request.wait_ms > MAX_WAIT_MS {
        return Err(wrong(format!("wait_ms is {}, but has to be 0 to {MAX_WAIT_MS}", request.wait_ms)));
    }
    Ok(request)
}
