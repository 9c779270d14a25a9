//! Lines to callers: who has one open to this process gets its replies at once, not by way of the topic.
//!
//! *Invariant:* a reply goes to a line at most once, so that a line which loses what it is given keeps no caller waiting for
//! ever. Who waits too long says its request again, and the second answer to it goes to the topic.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_model::{InstanceId, Reply, RequestId};

/// Takes a reply, or not; then it goes to the topic. Called on an owner's thread: it must be short and not block.
pub type TakeReply = Arc<dyn Fn(&Reply) -> bool + Send + Sync>;

/// Requests of which a line knows that it was told: more than it is told until a caller says one again.
const MAX_TOLD: usize = 65_536;

/// The lines to this process.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    opened: u64,
    lines: BTreeMap<InstanceId, Line>,
}

struct Line {
    number: u64,
    take: TakeReply,
    told: Told,
}

/// An open line; it ends when this is dropped.
#[must_use = "a line ends when this is dropped"]
pub struct OpenLine {
    lines: Lines,
    instance: InstanceId,
    number: u64,
}

impl Lines {
    /// From now on `take` is given the replies to this caller, which may have had another line before; `None`: others have
    /// `most`.
    pub(crate) fn open(&self, instance: InstanceId, most: usize, take: TakeReply) -> Option<OpenLine> {
        let mut open = self.lock();
        if open.lines.len() >= most && !open.lines.contains_key(&instance) {
            return None;
        }
        open.opened += 1;
        let number = open.opened;
        open.lines.insert(instance.clone(), Line { number, take, told: Told::default() });
        Some(OpenLine { lines: self.clone(), instance, number })
    }

    /// Whether the caller was told by its line.
    pub(crate) fn tell(&self, to: &InstanceId, reply: &Reply) -> bool {
        let take = {
            let mut open = self.lock();
            let Some(line) = open.lines.get_mut(to) else { return false };
            if !line.told.is_first(&reply.request) {
                return false;
            }
            Arc::clone(&line.take)
        };
        take(reply)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenLine {
    fn drop(&mut self) {
        let mut open = self.lines.lock();
        if open.lines.get(&self.instance).is_some_and(|line| line.number == self.number) {
            open.lines.remove(&self.instance);
        }
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.lock().lines.keys()).finish()
    }
}

/// The requests that a line was told of last, as hashes: two that share one cost a way through the topic.
#[derive(Default)]
struct Told {
    known: HashSet<u64>,
    oldest_first: VecDeque<u64>,
}

impl Told {
    fn is_first(&mut self, request: &RequestId) -> bool {
        let mut hasher = DefaultHasher::new();
        request.hash(&mut hasher);
        let hash = hasher.finish();
        if !self.known.insert(hash) {
            return false;
        }
        self.oldest_first.push_back(hash);
        if self.oldest_first.len() > MAX_TOLD
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tidemill_model::{Answer, Outcome};

    fn reply(request: &str) -> Reply {
        let (request, outcome) = (RequestId::new(request), Outcome::Answered(Answer::Done));
        Reply { request, outcome, partition: 0, offset: 1 }
    }

    fn counting(takes: bool) -> (TakeReply, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let take = move |_: &Reply| {
            counted.fetch_add(1, Ordering::SeqCst);
            takes
        };
        (Arc::new(take), count)
    }

    /// What a line was given once goes to the topic the second time, whether it took it or not.
    #[test]
    fn line_is_given_each_reply_once() {
        let (lines, caller) = (Lines::default(), InstanceId::new("api-1"));
        assert!(!lines.tell(&caller, &reply("a")), "there is no line");
        let (take, count) = counting(true);
        let line = lines.open(caller.clone(), 1, take).unwrap();
        assert!(lines.tell(&caller, &reply("a")));
        assert!(!lines.tell(&caller, &reply("a")));
        assert!(lines.tell(&caller, &reply("b")));
        assert!(!lines.tell(&InstanceId::new("api-2"), &reply("c")));
        assert_eq!(count.load(Ordering::SeqCst), 2);
        drop(line);
        assert!(!lines.tell(&caller, &reply("d")));
    }

    #[test]
    fn newer_line_takes_the_place_of_the_older_whose_end_ends_nothing() {
        let (lines, caller) = (Lines::default(), InstanceId::new("api-1"));
        let (full, refused) = counting(false);
        let older = lines.open(caller.clone(), 1, full).unwrap();
        assert!(!lines.tell(&caller, &reply("a")), "it has no room");
        let (take, taken) = counting(true);
        let newer = lines.open(caller.clone(), 1, take).unwrap();
        drop(older);
        assert!(lines.tell(&caller, &reply("b")));
        assert_eq!((refused.load(Ordering::SeqCst), taken.load(Ordering::SeqCst)), (1, 1));
        drop(newer);
        assert!(!lines.tell(&caller, &reply("c")));
    }

    #[test]
    fn lines_and_what_they_know_are_bounded() {
        let lines = Lines::default();
        let open = |number: usize| lines.open(InstanceId::new(format!("api-{number}")), 3, counting(true).0);
        let kept: Vec<OpenLine> = (0..3).map(|number| open(number).unwrap()).collect();
        assert!(open(3).is_none());
        let again = open(0).unwrap();
        let mut told = Told::default();
        for number in 0..=MAX_TOLD {
            assert!(told.is_first(&RequestId::new(number.to_string())));
        }
        assert_eq!((told.known.len(), told.oldest_first.len()), (MAX_TOLD, MAX_TOLD));
        drop((kept, again));
    }
}
