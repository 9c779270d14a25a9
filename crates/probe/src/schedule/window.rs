//! How many questions to one authority are under way at once.

/// The smallest window, unless a smaller one is configured.
const SMALLEST: usize = 32;
/// The first one.
const FIRST: usize = 64;
/// How long a period of measuring is, milliseconds.
const PERIOD_MS: u64 = 1_000;

/// Follows the pace at which questions come back: what comes back in two periods is under way. Behind a longer
/// queue, earlier deadlines would wait for later ones.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) size: usize,
    most: usize,
    period: u64,
    came_back: usize,
    was_full: bool,
}

impl Window {
    pub(super) fn new(most: usize) -> Self {
        Self { size: FIRST.min(most), most, period: 0, came_back: 0, was_full: false }
    }

    pub(super) fn came_back(&mut self, now_ms: u64) {
        self.turn_page(now_ms);
        self.came_back += 1;
    }

    /// Whether more would have been asked if there were room.
    pub(super) fn looked_at(&mut self, now_ms: u64, is_full: bool) {
        self.turn_page(now_ms);
        self.was_full |= is_full;
    }

    fn turn_page(&mut self, now_ms: u64) {
        let period = now_ms / PERIOD_MS;
        if period == self.period {
            return;
        }
        // A window with room says nothing about how many could come back.
        if self.was_full {
            self.size = (self.came_back * 2).max(SMALLEST).min(self.most);
        }
        (self.period, self.came_back, self.was_full) = (period, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second in which `back` questions come back while more wait.
    fn full(window: &mut Window, second: &mut u64, back: usize) -> usize {
        *second += 1;
        (0..back).for_each(|_| window.came_back(*second * 1_000));
        window.looked_at(*second * 1_000 + 999, true);
        window.looked_at(*second * 1_000 + 1_000, false);
        window.size
    }

    #[test]
    fn full_window_is_what_comes_back_in_two_periods() {
        let (mut window, mut second) = (Window::new(4_096), 0);
        assert_eq!(window.size, FIRST);
        assert_eq!(full(&mut window, &mut second, 300), 600);
        assert_eq!(full(&mut window, &mut second, 500), 1_000);
        assert_eq!(full(&mut window, &mut second, 0), SMALLEST);
        assert_eq!(full(&mut window, &mut second, 9_000), 4_096);
        assert_eq!(Window::new(1).size, 1);
    }

    #[test]
    fn window_with_room_stays_as_it_is() {
        let (mut window, mut second) = (Window::new(100), 0);
        assert_eq!(full(&mut window, &mut second, 25), 50);
        for second in 3..6 {
            window.came_back(second * 1_000);
            window.looked_at(second * 1_000, false);
        }
        assert_eq!(window.size, 50);
    }
}
