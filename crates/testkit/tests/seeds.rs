//! Histories of a whole cluster. `make sim` runs many more of them.

use tidemill_testkit::{Mask, run};

#[test]
fn two_hundred_histories_keep_every_rule() {
    std::panic::set_hook(Box::new(|_| {}));
    let wrong: Vec<String> = (0..200)
        .map(|seed| run(seed, &Mask::default(), false))
        .filter(|report| !report.wrong.is_empty())
        .map(|report| format!("sim --seed {} --trace: {:?}", report.seed, report.wrong))
        .collect();
    let _ = std::panic::take_hook();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_same_seed_gives_the_same_history_twice() {
    for seed in 5_000..5_010 {
        let (once, again) = (run(seed, &Mask::default(), false), run(seed, &Mask::default(), true));
        assert_eq!((once.hash, once.stats), (again.hash, again.stats), "seed {seed}");
        assert!(!again.trace.is_empty());
    }
}

#[test]
fn different_seeds_give_different_histories() {
    assert_ne!(run(1, &Mask::default(), false).hash, run(2, &Mask::default(), false).hash);
}
