//! What is known of some logs, at most so many; the newest last.

use std::collections::{HashMap, VecDeque};

use crate::log::Key;

pub(crate) struct Recent<T> {
    most: usize,
    known: HashMap<Key, T>,
    order: VecDeque<Key>,
}

impl<T> Recent<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, known: HashMap::new(), order: VecDeque::new() }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&T> {
        self.known.get(key)
    }

    pub(crate) fn keep(&mut self, key: Key, what: T) {
        if self.known.insert(key.clone(), what).is_some() {
            self.order.retain(|other| *other != key);
        }
        self.order.push_back(key);
        if self.order.len() > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    pub(crate) fn forget(&mut self, key: &Key) {
        if self.known.remove(key).is_some() {
            self.order.retain(|other| other != key);
        }
    }
}
