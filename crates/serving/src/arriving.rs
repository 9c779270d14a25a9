//! Bodies of requests: in bounded time, and not drop by drop.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use thiserror::Error;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::Limits;

/// So long a body may come as slowly as it likes.
const GRACE: Duration = Duration::from_secs(2);

/// A body that takes too long; found among the sources of the error that its reader gets.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BodyLate {
    /// It is not complete in time.
    #[error("the body did not arrive within {ms} ms")]
    TooLong {
        /// The time for it.
        ms: u128,
    },
    /// It comes too slowly.
    #[error("the body arrived at fewer than {bytes_per_s} bytes per second")]
    TooSlow {
        /// The rate that it has to have, on average.
        bytes_per_s: u64,
    },
}

impl BodyLate {
    /// The one that made this error, if one did.
    pub fn of<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
    }
}

/// A body that fails when it takes too long.
pub(crate) struct Arriving {
    inner: Incoming,
    began_at: Instant,
    came: u64,
    total: Duration,
    bytes_per_s: u64,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Arriving {
    pub(crate) fn new(inner: Incoming, limits: &Limits) -> Self {
        let (total, bytes_per_s) = (limits.body, limits.body_bytes_per_s.max(1));
        Self { inner, began_at: Instant::now(), came: 0, total, bytes_per_s, timer: None }
    }

    /// When it fails if nothing more comes, and why.
    fn deadline(&self) -> (Instant, BodyLate) {
        let paid = Duration::from_millis(self.came.saturating_mul(1_000) / self.bytes_per_s);
        if GRACE + paid < self.total {
            return (self.began_at + GRACE + paid, BodyLate::TooSlow { bytes_per_s: self.bytes_per_s });
        }
        (self.began_at + self.total, BodyLate::TooLong { ms: self.total.as_millis() })
    }
}

impl Body for Arriving {
    type Data = <Incoming as Body>::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            if let Some(Ok(data)) = frame.as_ref().map(|frame| frame.as_ref().map(Frame::data_ref)) {
                self.came += data.map_or(0, |data| data.len() as u64);
            }
            self.timer = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        let (at, why) = self.deadline();
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        timer.as_mut().poll(context).map(|()| Some(Err(why.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
