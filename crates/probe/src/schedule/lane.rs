//! The questions to one authority, in the orders in which they are looked for.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::window::Window;
use super::{PollTimes, Urgency};
use crate::Question;

/// One question that is waited for.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) question: Question,
    pub(super) directory: Arc<str>,
    pub(super) urgency: Urgency,
    pub(super) state: State,
    /// When it has to be asked again.
    pub(super) deadline_ms: u64,
    /// When it was last asked.
    pub(super) last_ms: Option<u64>,
    /// When it was last asked and the authority answered; first: since when it is waited for.
    pub(super) checked_ms: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum State {
    /// It may be asked from then on.
    Resting { due_ms: u64 },
    /// It is under way.
    Asked {
        at_ms: u64,
        /// It has to be asked once more after this.
        again: bool,
        /// Nobody waits for it any more.
        unwanted: bool,
    },
}

impl State {
    pub(super) fn is_unwanted(self) -> bool {
        matches!(self, State::Asked { unwanted: true, .. })
    }
}

/// The questions to one authority. Every resting one is in `sleeping` or `ready`, and in its directory.
#[derive(Debug)]
pub(super) struct Lane {
    /// By due time.
    sleeping: BTreeSet<(u64, usize)>,
    /// Those that are due, by deadline.
    ready: BTreeSet<(u64, usize)>,
    /// By directory, then by due time, with the deadline.
    directories: HashMap<Arc<str>, Neighbours>,
    /// How many are under way.
    asked: usize,
    window: Window,
    /// All that are waited for, by when they were last checked.
    pub(super) since: BTreeSet<(u64, usize)>,
}

#[derive(Debug, Default)]
struct Neighbours {
    /// Resting ones: due time, question, deadline.
    resting: BTreeSet<(u64, usize, u64)>,
    /// Of the directory, resting or asked.
    members: usize,
}

impl Lane {
    pub(super) fn new(poll: &PollTimes) -> Self {
        Self {
            sleeping: BTreeSet::new(),
            ready: BTreeSet::new(),
            directories: HashMap::new(),
            asked: 0,
            window: Window::new(poll.window),
            since: BTreeSet::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.asked == 0 && self.since.is_empty()
    }

    /// The one text of this directory, with one more member.
    pub(super) fn directory(&mut self, name: Arc<str>) -> Arc<str> {
        let name = self.directories.get_key_value(&name).map_or(name, |(name, _)| Arc::clone(name));
        self.directories.entry(Arc::clone(&name)).or_default().members += 1;
        name
    }

    /// One member less.
    pub(super) fn release_directory(&mut self, name: &Arc<str>) {
        if let Some(neighbours) = self.directories.get_mut(name) {
            neighbours.members -= 1;
            if neighbours.members == 0 {
                self.directories.remove(name);
            }
        }
    }

    pub(super) fn enter(&mut self, id: usize, item: &Item) {
        let State::Resting { due_ms } = item.state else { return };
        self.since.insert((item.checked_ms, id));
        self.rest(id, item, due_ms);
    }

    pub(super) fn rest(&mut self, id: usize, item: &Item, due_ms: u64) {
        self.sleeping.insert((due_ms, id));
        if let Some(neighbours) = self.directories.get_mut(&item.directory) {
            neighbours.resting.insert((due_ms, id, item.deadline_ms));
        }
    }

    /// It is due earlier than it was.
    pub(super) fn hasten(&mut self, id: usize, item: &mut Item, due_ms: u64) {
        let State::Resting { due_ms: before } = item.state else { return };
        if due_ms < before {
            self.unrest(id, before, item.deadline_ms, &item.directory);
            item.state = State::Resting { due_ms };
            self.rest(id, item, due_ms);
        }
    }

    pub(super) fn leave(&mut self, id: usize, due_ms: u64, item: &Item) {
        self.unrest(id, due_ms, item.deadline_ms, &item.directory);
        self.release_directory(&item.directory);
    }

    fn unrest(&mut self, id: usize, due_ms: u64, deadline_ms: u64, directory: &Arc<str>) {
        self.sleeping.remove(&(due_ms, id));
        self.ready.remove(&(deadline_ms, id));
        if let Some(neighbours) = self.directories.get_mut(directory) {
            neighbours.resting.remove(&(due_ms, id, deadline_ms));
        }
    }

    /// One that was under way came back.
    pub(super) fn came_back(&mut self, now_ms: u64) {
        self.asked -= 1;
        self.window.came_back(now_ms);
    }

    fn has_room(&self) -> bool {
        self.asked < self.window.size
    }

    /// Whose turn it is now, as many as the window takes. They are under way from now on.
    pub(super) fn turn(&mut self, now_ms: u64, poll: &PollTimes, items: &[Option<Item>]) -> Vec<usize> {
        while let Some((due_ms, id)) = self.sleeping.first().copied()
            && due_ms <= now_ms
        {
            self.sleeping.remove(&(due_ms, id));
            let item = items[id].as_ref().expect("a lane holds only what is there");
            self.ready.insert((item.deadline_ms, id));
        }
        let mut turn = Vec::new();
        while self.has_room()
            && let Some((_, id)) = self.ready.first().copied()
        {
            let directory = &items[id].as_ref().expect("a lane holds only what is there").directory;
            self.ask(id, items, &mut turn);
            while self.has_room()
                && let Some(neighbour) = self.neighbour(directory, now_ms + poll.batch_window_ms)
            {
                self.ask(neighbour, items, &mut turn);
            }
        }
        self.window.looked_at(now_ms, !self.ready.is_empty());
        turn
    }

    fn ask(&mut self, id: usize, items: &[Option<Item>], turn: &mut Vec<usize>) {
        let item = items[id].as_ref().expect("a lane holds only what is there");
        if let State::Resting { due_ms } = item.state {
            self.unrest(id, due_ms, item.deadline_ms, &item.directory);
            self.asked += 1;
            turn.push(id);
        }
    }

    fn neighbour(&self, directory: &Arc<str>, due_by_ms: u64) -> Option<usize> {
        let (due_ms, id, _) = self.directories.get(directory)?.resting.first()?;
        (*due_ms <= due_by_ms).then_some(*id)
    }

    /// When the next one is due, unless the window is full: then something comes back first.
    pub(super) fn wake_at_ms(&self) -> Option<u64> {
        self.sleeping.first().filter(|_| self.has_room()).map(|(due_ms, _)| *due_ms)
    }

    /// By how much the oldest check is late, and how many are.
    pub(super) fn late(&self, now_ms: u64, poll: &PollTimes) -> Option<(u64, usize)> {
        let before = now_ms.checked_sub(poll.max_interval_ms)?;
        let (oldest, _) = self.since.first()?;
        let late_ms = before.checked_sub(*oldest).filter(|late_ms| *late_ms > 0)?;
        Some((late_ms, self.since.range(..(before, 0)).count()))
    }
}
