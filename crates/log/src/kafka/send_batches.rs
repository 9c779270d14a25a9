//! What waits while other records of the same partition are on their way.
//!
//! librdkafka lets an idempotent producer have five *records* of a partition under way. While more are queued
//! behind them it looks for room in circles, without a pause, until the broker answers: three quarters of the
//! processor time of a busy process, taken from the broker that is waited for. So no more than [`FEW`] go one by one;
//! what comes while these are under way waits here, and goes as one lot when they have their outcomes.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::signal::lock;

/// So many may be under way beside each other, with room for one more in librdkafka.
const FEW: usize = 4;
/// What one answer of the broker is for, at most; below what librdkafka puts into one request.
const SEND_BATCH_RECORDS: usize = 9_000;
const SEND_BATCH_BYTES: usize = 800_000;

/// A lot may hold one record that is larger than all of it.
pub(super) trait Sizeable {
    fn bytes(&self) -> usize;
}

/// Whether it is known what became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Certain,
    InDoubt,
}

/// What is to be done after one has left its lane; often nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<T> {
    HandOver(Vec<T>),
    /// One of those under way was in doubt, and so is what waited for it: it would otherwise wait for as long again.
    GiveUp(Vec<T>),
}

/// One lane: a partition of a topic.
struct Lane<T> {
    /// Given to be handed over, and without an outcome.
    under_way: usize,
    /// Whether a lot is just being handed over: another would overtake it.
    leaving: bool,
    /// Whether one of those under way was in doubt.
    doubt: bool,
    waiting: VecDeque<T>,
}

impl<T: Sizeable> Lane<T> {
    fn next_send_batch(&mut self) -> Vec<T> {
        let room = self.under_way == 0 || self.under_way + self.waiting.len() <= FEW;
        let (mut send_batch, mut bytes) = (Vec::new(), 0);
        if self.leaving || self.doubt || !room {
            return send_batch;
        }
        while send_batch.len() < SEND_BATCH_RECORDS
            && let Some(next) = self
                .waiting
                .pop_front_if(|next| send_batch.is_empty() || bytes + next.bytes() <= SEND_BATCH_BYTES)
        {
            bytes += next.bytes();
            send_batch.push(next);
        }
        self.under_way += send_batch.len();
        self.leaving = !send_batch.is_empty();
        send_batch
    }
}

/// The lanes of one producer. Whoever is given a lot hands it over and says so with [`handed_over`](Self::handed_over);
/// nobody else is given one of that lane before. So what enters a lane goes in the order in which it entered.
pub(super) struct SendBatches<T>(Vec<Mutex<Lane<T>>>);

impl<T: Sizeable> SendBatches<T> {
    pub(super) fn new(lanes: usize) -> Self {
        let lane =
            || Mutex::new(Lane { under_way: 0, leaving: false, doubt: false, waiting: VecDeque::new() });
        Self((0..lanes).map(|_| lane()).collect())
    }

    /// Puts something behind what waits, and gives the lot that is to be handed over now, if any.
    pub(super) fn enter(&self, lane: usize, new: T) -> Vec<T> {
        let mut lane = lock(&self.0[lane]);
        lane.waiting.push_back(new);
        lane.next_send_batch()
    }

    /// The whole lot was handed over. Gives what may follow at once.
    pub(super) fn handed_over(&self, lane: usize) -> Vec<T> {
        let mut lane = lock(&self.0[lane]);
        lane.leaving = false;
        lane.next_send_batch()
    }

    /// Whether one that was under way beside those that still are was in doubt.
    pub(super) fn is_in_doubt(&self, lane: usize) -> bool {
        lock(&self.0[lane]).doubt
    }

    /// One of a lot has its outcome.
    pub(super) fn leave(&self, lane: usize, left: Left) -> Next<T> {
        let mut lane = lock(&self.0[lane]);
        lane.under_way -= 1;
        lane.doubt |= left == Left::InDoubt;
        if lane.under_way == 0 && std::mem::take(&mut lane.doubt) {
            return Next::GiveUp(std::mem::take(&mut lane.waiting).into());
        }
        Next::HandOver(lane.next_send_batch())
    }

    /// Takes all that waits.
    pub(super) fn give_up(&self) -> Vec<T> {
        self.0.iter().flat_map(|lane| std::mem::take(&mut lock(lane).waiting)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Sizeable for usize {
        fn bytes(&self) -> usize {
            *self
        }
    }

    fn enter(send_batches: &SendBatches<usize>, lane: usize, new: usize) -> Vec<usize> {
        let send_batch = send_batches.enter(lane, new);
        if !send_batch.is_empty() {
            assert!(send_batches.handed_over(lane).is_empty(), "nothing came meanwhile");
        }
        send_batch
    }

    fn leave(send_batches: &SendBatches<usize>) -> Vec<usize> {
        match send_batches.leave(0, Left::Certain) {
            Next::HandOver(send_batch) if send_batch.is_empty() => send_batch,
            Next::HandOver(send_batch) => {
                assert!(send_batches.handed_over(0).is_empty(), "nothing came meanwhile");
                send_batch
            }
            Next::GiveUp(waiting) => panic!("nothing was in doubt: {waiting:?}"),
        }
    }

    #[test]
    fn what_comes_while_few_are_under_way_goes_together_after_them() {
        let send_batches = SendBatches::new(2);
        for number in 1..=4 {
            assert_eq!(enter(&send_batches, 0, number), [number]);
        }
        for number in 5..=9 {
            assert!(enter(&send_batches, 0, number).is_empty(), "{number}");
        }
        assert_eq!(enter(&send_batches, 1, 7), [7], "another lane");
        for _ in 0..3 {
            assert!(leave(&send_batches).is_empty(), "others are still under way");
        }
        assert_eq!(leave(&send_batches), [5, 6, 7, 8, 9]);
        assert!(enter(&send_batches, 0, 10).is_empty());
        assert!(leave(&send_batches).is_empty(), "four are under way, and one waits");
        assert_eq!(leave(&send_batches), [10], "three are under way, and one waits");
        assert!(enter(&send_batches, 0, 11).is_empty());
        assert_eq!(leave(&send_batches), [11]);
    }

    #[test]
    fn nothing_overtakes_a_send_batch_that_is_being_handed_over() {
        let send_batches = SendBatches::new(1);
        assert_eq!(send_batches.enter(0, 1), [1]);
        assert!(send_batches.enter(0, 2).is_empty(), "there is room, but the first has not gone");
        assert_eq!(
            send_batches.leave(0, Left::Certain),
            Next::HandOver(vec![]),
            "refused: whoever has the lot goes on"
        );
        assert!(send_batches.enter(0, 3).is_empty());
        assert_eq!(send_batches.handed_over(0), [2, 3]);
        assert!(send_batches.enter(0, 4).is_empty());
        assert_eq!(send_batches.handed_over(0), [4]);
        assert!(send_batches.handed_over(0).is_empty());
        assert_eq!(send_batches.enter(0, 5), [5]);
    }

    #[test]
    fn send_batch_is_bounded_in_records_and_bytes_but_holds_one() {
        let send_batches = SendBatches::new(1);
        assert_eq!(send_batches.enter(0, 2 * SEND_BATCH_BYTES), [2 * SEND_BATCH_BYTES]);
        for bytes in
            [SEND_BATCH_BYTES - 1, 1, 1, 3 * SEND_BATCH_BYTES].into_iter().chain([0; SEND_BATCH_RECORDS + 1])
        {
            send_batches.enter(0, bytes);
        }
        assert!(send_batches.handed_over(0).is_empty());
        assert_eq!(leave(&send_batches), [SEND_BATCH_BYTES - 1, 1]);
        assert!(leave(&send_batches).is_empty());
        assert_eq!(leave(&send_batches), [1]);
        assert_eq!(leave(&send_batches), [3 * SEND_BATCH_BYTES]);
        assert_eq!(leave(&send_batches).len(), SEND_BATCH_RECORDS);
        assert_eq!(send_batches.give_up(), [0]);
    }

    #[test]
    fn what_waits_is_given_up_when_all_of_those_in_doubt_have_left() {
        let send_batches = SendBatches::new(1);
        for number in 1..=6 {
            enter(&send_batches, 0, number);
        }
        for _ in 1..=3 {
            let next = send_batches.leave(0, Left::InDoubt);
            assert_eq!(next, Next::HandOver(vec![]), "one is still under way");
        }
        assert!(enter(&send_batches, 0, 7).is_empty(), "there would be room");
        assert_eq!(send_batches.leave(0, Left::Certain), Next::GiveUp(vec![5, 6, 7]));
        assert_eq!(enter(&send_batches, 0, 8), [8], "what comes later is not in doubt");
        assert_eq!(enter(&send_batches, 0, 9), [9]);
    }
}
