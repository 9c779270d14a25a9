//! Finds many patterns at once, in one step for each byte, whatever the bytes are (Aho and Corasick, 1975).

/// A state: the longest end of what was seen that is the beginning of a pattern.
#[derive(Clone, Copy, Default)]
struct State {
    byte: u8,
    /// Its length.
    depth: u32,
    /// The longest pattern that it ends in; 0: in none.
    longest: u32,
    /// The first of those that go on from it by one byte; 0: there is none.
    first: u32,
    /// The next of those that go on from the same one.
    next: u32,
    /// The longest of its own ends that is a state.
    fallback: u32,
}

pub(super) struct Automaton {
    states: Vec<State>,
    /// Those that go on from the root; 0: the root itself.
    after_root: Vec<u32>,
}

impl Automaton {
    /// Before the first byte.
    pub(super) const ROOT: u32 = 0;

    pub(super) fn of(patterns: &[&[u8]]) -> Self {
        let mut all = Self { states: vec![State::default()], after_root: vec![0; 256] };
        patterns.iter().for_each(|pattern| all.add(pattern));
        all.link();
        all.states.shrink_to_fit();
        all
    }

    /// How many of the last bytes are the beginning of a pattern, or one.
    pub(super) fn depth(&self, state: u32) -> u32 {
        self.states[state as usize].depth
    }

    /// How many of the last bytes are the beginning of a pattern that is not there as a whole yet.
    pub(super) fn waits(&self, mut state: u32) -> u32 {
        while self.states[state as usize].first == 0 && state != Self::ROOT {
            state = self.states[state as usize].fallback;
        }
        self.depth(state)
    }

    /// How long the longest pattern is that ends here; 0: none does.
    pub(super) fn longest(&self, state: u32) -> u32 {
        self.states[state as usize].longest
    }

    /// The state after one more byte. A way back is only as long as the way that came before it.
    pub(super) fn next(&self, mut state: u32, byte: u8) -> u32 {
        loop {
            let next = self.child(state, byte);
            if next != Self::ROOT || state == Self::ROOT {
                return next;
            }
            state = self.states[state as usize].fallback;
        }
    }

    /// The state that goes on from it; the root: none does.
    fn child(&self, state: u32, byte: u8) -> u32 {
        if state == Self::ROOT {
            return self.after_root[usize::from(byte)];
        }
        let mut child = self.states[state as usize].first;
        while child != 0 && self.states[child as usize].byte != byte {
            child = self.states[child as usize].next;
        }
        child
    }

    fn add(&mut self, pattern: &[u8]) {
        let mut state = Self::ROOT;
        for byte in pattern {
            let mut child = self.child(state, *byte);
            if child == Self::ROOT {
                child = u32::try_from(self.states.len()).expect("secrets are bounded");
                let State { first, depth, .. } = self.states[state as usize];
                self.states.push(State { byte: *byte, depth: depth + 1, next: first, ..State::default() });
                self.states[state as usize].first = child;
                if state == Self::ROOT {
                    self.after_root[usize::from(*byte)] = child;
                }
            }
            state = child;
        }
        let State { depth, longest, .. } = &mut self.states[state as usize];
        *longest = *depth;
    }

    /// Shorter states first, whose fallbacks are known by then.
    fn link(&mut self) {
        let mut order: Vec<u32> = self.after_root.iter().copied().filter(|state| *state != 0).collect();
        let mut at = 0;
        while let Some(state) = order.get(at).copied() {
            let State { first, fallback, .. } = self.states[state as usize];
            let mut child = first;
            while child != 0 {
                let State { byte, next, .. } = self.states[child as usize];
                let fallback = self.next(fallback, byte);
                let of_fallback = self.states[fallback as usize].longest;
                let State { fallback: to, longest, .. } = &mut self.states[child as usize];
                (*to, *longest) = (fallback, (*longest).max(of_fallback));
                order.push(child);
                child = next;
            }
            at += 1;
        }
    }
}
