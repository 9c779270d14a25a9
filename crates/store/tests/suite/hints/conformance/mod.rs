//! What every back end of hints has to do. The suite is the same for all of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_store::hints::{Hint, Hints, Life, Look, Mark, Place, Turn};
use tokio::runtime::Runtime;

const MINUTE: Duration = Duration::from_secs(60);
/// Long enough for a test, short enough for a day.
const FAR_MS: i64 = i64::MAX / 4;
const PATIENCE: Duration = Duration::from_secs(60);

/// A back end under test, with nothing in it.
pub(crate) trait Bench {
    fn new() -> Self;
    fn hints(&self) -> &dyn Hints;
    /// Loses everything.
    fn flush(&self);
}

macro_rules! suite {
    ($bench:ty) => {
        crate::hints::conformance::suite! { $bench:
            without_a_keeper_nothing_holds, hint_counts_for_its_user_alone, mark_ends_the_hints_of_its_group,
            mark_ends_the_hint_of_its_user, step_out_of_line_is_refused_and_changes_nothing,
            step_with_an_open_outcome_may_be_done_again, life_ends_by_itself,
            keeper_waits_while_the_life_of_another_holds, emptied_back_end_refuses_the_next_step,
            hint_ends_when_its_time_is_over, look_is_remembered_for_its_partition,
            hints_of_a_partition_are_gone_through_part_by_part
        }
    };
    ($bench:ty: $($name:ident),+) => {
        $(#[test]
        fn $name() {
            crate::hints::conformance::$name(&<$bench as crate::hints::conformance::Bench>::new());
        })+
    };
}
pub(crate) use suite;

/// Drives the futures of the port.
pub(crate) struct Asker<'a> {
    hints: &'a dyn Hints,
    runtime: Runtime,
}

impl<'a> Asker<'a> {
    pub(crate) fn new(hints: &'a dyn Hints) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { hints, runtime }
    }

    pub(crate) fn look(&self, place: &Place) -> Look {
        self.try_look(place).unwrap()
    }

    pub(crate) fn try_look(&self, place: &Place) -> Result<Look, tidemill_store::Error> {
        self.runtime.block_on(self.hints.look(place))
    }

    pub(crate) fn keep(&self, place: &Place, life: &Life, offset: u64) {
        let hint = Hint { life: life.clone(), offset, until_ms: FAR_MS, begins: false };
        self.runtime.block_on(self.hints.keep(place, &hint, MINUTE)).unwrap();
    }

    pub(crate) fn counts(&self, place: &Place) -> bool {
        self.look(place).counting(0).is_some()
    }

    /// Looks until it is so.
    pub(crate) fn until(&self, place: &Place, is_so: impl Fn(&Look) -> bool) {
        let begun_at = Instant::now();
        while !is_so(&self.look(place)) {
            assert!(begun_at.elapsed() < PATIENCE, "it does not come true: {:?}", self.look(place));
            std::thread::yield_now();
        }
    }
}

pub(crate) fn place(user: &str) -> Place {
    Place { partition: 3, shard: 17, user: user.into() }
}

fn group() -> Mark {
    Mark::Group { shard: 17 }
}

fn user(name: &str) -> Mark {
    Mark::User { shard: 17, user: Arc::from(name) }
}

/// A keeper of partition 3 by hand.
pub(crate) struct ByHand {
    pub(crate) life: Life,
    pub(crate) number: u64,
}

impl ByHand {
    pub(crate) fn begin(hints: &dyn Hints) -> Self {
        let this = Self { life: Life::draw(), number: 0 };
        assert!(hints.begin(3, &this.life).unwrap());
        this
    }

    /// The next step, with a beat that holds for so long.
    pub(crate) fn turn(&mut self, hints: &dyn Hints, marks: &[(Mark, u64)], holds: Duration) -> bool {
        let until = hints.clock_ms().unwrap() + i64::try_from(holds.as_millis()).unwrap();
        let done = hints.turn(&self.step(marks, Some(until))).unwrap();
        self.number += 1;
        done
    }

    fn step<'a>(&'a self, marks: &'a [(Mark, u64)], holds_until_ms: Option<i64>) -> Turn<'a> {
        let (life, confirmed) = (&self.life, self.number);
        Turn { partition: 3, life, confirmed, number: confirmed + 1, marks, holds_until_ms }
    }
}

/// A life that holds, and a hint at offset 10 that counts.
pub(crate) fn prepared(hints: &dyn Hints, users: &[&str]) -> ByHand {
    let mut keeper = ByHand::begin(hints);
    assert!(keeper.turn(hints, &[(group(), 9)], MINUTE));
    let asker = Asker::new(hints);
    for user in users {
        asker.keep(&place(user), &keeper.life, 10);
        assert!(asker.counts(&place(user)), "{:?}", asker.look(&place(user)));
    }
    keeper
}

pub(crate) fn without_a_keeper_nothing_holds(bench: &impl Bench) {
    let asker = Asker::new(bench.hints());
    assert_eq!(asker.look(&place("ann")), Look::default());
    asker.keep(&place("ann"), &Life::draw(), 10);
    assert!(!asker.counts(&place("ann")));
}

pub(crate) fn hint_counts_for_its_user_alone(bench: &impl Bench) {
    let longest = "x.y_z@-".repeat(18);
    prepared(bench.hints(), &["ann", &longest]);
    let asker = Asker::new(bench.hints());
    for other in [place("bob"), Place { shard: 18, ..place("ann") }, Place { partition: 4, ..place("ann") }] {
        assert!(!asker.counts(&other), "{other:?}");
    }
    assert!(asker.counts(&place("ann")));
}

pub(crate) fn mark_ends_the_hints_of_its_group(bench: &impl Bench) {
    let mut keeper = prepared(bench.hints(), &["ann", "bob"]);
    let asker = Asker::new(bench.hints());
    assert!(keeper.turn(bench.hints(), &[(Mark::Group { shard: 18 }, 11)], MINUTE));
    assert!(asker.counts(&place("ann")) && asker.counts(&place("bob")));
    assert!(keeper.turn(bench.hints(), &[(group(), 11)], MINUTE));
    assert!(!asker.counts(&place("ann")) && !asker.counts(&place("bob")));
    asker.keep(&place("ann"), &keeper.life, 12);
    assert!(asker.counts(&place("ann")), "a newer answer counts again");
}

pub(crate) fn mark_ends_the_hint_of_its_user(bench: &impl Bench) {
    let mut keeper = prepared(bench.hints(), &["ann", "bob"]);
    let asker = Asker::new(bench.hints());
    // In the very record of the answer: it may have been decided after it.
    assert!(keeper.turn(bench.hints(), &[(user("ann"), 10)], MINUTE));
    assert!(!asker.counts(&place("ann")));
    assert!(asker.counts(&place("bob")));
}

pub(crate) fn step_out_of_line_is_refused_and_changes_nothing(bench: &impl Bench) {
    let keeper = prepared(bench.hints(), &["ann"]);
    let asker = Asker::new(bench.hints());
    let marks = [(group(), 11)];
    let (life, other, clock) = (&keeper.life, Life::draw(), bench.hints().clock_ms().unwrap());
    // The back end stands at step 1.
    let turn = |life, confirmed, number| {
        let holds_until_ms = Some(clock + 120_000);
        bench
            .hints()
            .turn(&Turn { partition: 3, life, confirmed, number, marks: &marks, holds_until_ms })
            .unwrap()
    };
    assert!(!turn(life, 0, 1), "a step that was done");
    assert!(!turn(life, 2, 3), "a step after one that is lost");
    assert!(!turn(&other, 1, 2), "a step of another life");
    assert!(asker.counts(&place("ann")));
    assert!(turn(life, 1, 2));
    assert!(!asker.counts(&place("ann")));
}

pub(crate) fn step_with_an_open_outcome_may_be_done_again(bench: &impl Bench) {
    let keeper = prepared(bench.hints(), &["ann"]);
    let turn = |number| {
        let (life, marks) = (&keeper.life, [(group(), 11)]);
        let turn = Turn { partition: 3, life, confirmed: 1, number, marks: &marks, holds_until_ms: None };
        bench.hints().turn(&turn).unwrap()
    };
    assert!(turn(3), "the try before it was lost");
    assert!(turn(4), "the try before it was done");
    assert!(!turn(2), "an older try comes late");
}

pub(crate) fn life_ends_by_itself(bench: &impl Bench) {
    let mut keeper = prepared(bench.hints(), &["ann"]);
    let asker = Asker::new(bench.hints());
    assert!(keeper.turn(bench.hints(), &[], Duration::from_millis(50)));
    asker.until(&place("ann"), |look| look.life.is_none() && look.counting(0).is_none());
    assert!(keeper.turn(bench.hints(), &[], MINUTE));
    assert!(asker.counts(&place("ann")), "no mark was lost meanwhile");
}

pub(crate) fn keeper_waits_while_the_life_of_another_holds(bench: &impl Bench) {
    let mut keeper = prepared(bench.hints(), &["ann"]);
    let asker = Asker::new(bench.hints());
    let second = Life::draw();
    assert!(!bench.hints().begin(3, &second).unwrap());
    assert!(asker.counts(&place("ann")));
    assert!(keeper.turn(bench.hints(), &[], Duration::ZERO));
    asker.until(&place("ann"), |look| look.life.is_none());
    assert!(bench.hints().begin(3, &second).unwrap());
    assert!(!keeper.turn(bench.hints(), &[(group(), 12)], MINUTE), "the first one is over");
    assert_eq!(asker.look(&place("ann")).life, None);
}

pub(crate) fn emptied_back_end_refuses_the_next_step(bench: &impl Bench) {
    let mut keeper = prepared(bench.hints(), &["ann"]);
    let asker = Asker::new(bench.hints());
    bench.flush();
    assert_eq!(asker.look(&place("ann")), Look::default());
    // An answer that was on its way when everything was lost.
    asker.keep(&place("ann"), &keeper.life, 10);
    assert!(!keeper.turn(bench.hints(), &[], MINUTE));
    assert!(!asker.counts(&place("ann")));
    let mut again = ByHand::begin(bench.hints());
    assert!(again.turn(bench.hints(), &[], MINUTE));
    assert!(!asker.counts(&place("ann")), "it names a life whose marks are lost");
}

pub(crate) fn hint_ends_when_its_time_is_over(bench: &impl Bench) {
    let keeper = prepared(bench.hints(), &["ann"]);
    let asker = Asker::new(bench.hints());
    let hint = Hint { life: keeper.life, offset: 10, until_ms: FAR_MS, begins: false };
    let kept = bench.hints().keep(&place("ann"), &hint, Duration::from_millis(50));
    asker.runtime.block_on(kept).unwrap();
    asker.until(&place("ann"), |look| look.hint.is_none());
}

/// PUL-9: the keeper of a partition learns that somebody looks there.
pub(crate) fn look_is_remembered_for_its_partition(bench: &impl Bench) {
    let hints = bench.hints();
    assert!(!hints.wanted(3).unwrap());
    let asker = Asker::new(hints);
    asker.look(&place("ann"));
    let begun_at = Instant::now();
    while !hints.wanted(3).unwrap() {
        assert!(begun_at.elapsed() < PATIENCE, "nobody is told");
        std::thread::yield_now();
    }
    assert!(!hints.wanted(4).unwrap(), "of another partition");
    bench.flush();
    assert!(!hints.wanted(3).unwrap());
}

/// EVT-2: all hints of a partition are seen part by part, each as a look shows it, and none of another partition.
pub(crate) fn hints_of_a_partition_are_gone_through_part_by_part(bench: &impl Bench) {
    let hints = bench.hints();
    let users: Vec<String> = (0..1_200).map(|n| format!("user-{n}")).collect();
    let names: Vec<&str> = users.iter().map(String::as_str).collect();
    let mut keeper = prepared(hints, &names);
    assert!(keeper.turn(hints, &[(Mark::User { shard: 17, user: "user-7".into() }, 77)], MINUTE));
    let asker = Asker::new(hints);
    let elsewhere = Place { partition: place("ann").partition + 1, ..place("ann") };
    asker.keep(&elsewhere, &Life::draw(), 5);
    let (mut seen, mut pages, mut from) = (std::collections::BTreeMap::new(), 0, None);
    loop {
        let page = hints.page(place("ann").partition, from).unwrap();
        seen.extend(page.looks.into_iter().map(|(place, look)| (place.user.to_string(), look)));
        pages += 1;
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert!(pages > 1, "a part is bounded");
    assert_eq!(
        seen.keys().map(String::as_str).collect::<std::collections::BTreeSet<_>>(),
        names.into_iter().collect()
    );
    for user in ["user-7", "user-8"] {
        assert_eq!(seen[user], asker.look(&place(user)), "{user}");
    }
    assert_eq!(seen["user-7"].user_mark, Some(77));
}
