//! What protects authorities, and questions from each other: with back ends that do as a test says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::kit::{Does, Fake, Fakes, absolute, config, outcomes, question};
use tidemill_probe::{FailureKind, Kind, Limits, LocalBackend, Mark, Outcome, Prober, Question};
use tokio::sync::Notify;

fn prober(fakes: &Fakes) -> Prober {
    Prober::with_opener(config(), fakes.clone()).unwrap()
}

#[tokio::test]
async fn every_distinct_question_is_asked_and_answered_once() {
    let fakes = Fakes::default();
    let a = fakes.add("a", Fake::answering(|path| if path.ends_with('0') { Does::Find } else { Does::Miss }));
    let questions = (0..5_000).flat_map(|n| [n, n].map(|n| question(&format!("hdfs://a/{n}/x{n}"))));
    let answers = prober(&fakes).probe(questions).all().await;
    assert_eq!(answers.len(), 5_000);
    for answer in answers {
        let there = answer.question.path.as_str().ends_with('0');
        assert_eq!(answer.outcome, if there { Outcome::Present } else { Outcome::Absent });
    }
    assert_eq!(a.looks(), 5_000);
    assert!(a.most_at_once() <= 8, "{}", a.most_at_once());
}

/// DEP-5: one check is tried again 3 times before it has failed.
#[tokio::test]
async fn look_that_fails_is_tried_again_three_times() {
    let fakes = Fakes::default();
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    fakes.add(
        "a",
        Fake::answering(
            move |_| {
                if counted.fetch_add(1, Ordering::Relaxed) < 3 { Does::Fail } else { Does::Find }
            },
        ),
    );
    let b = fakes.add("b", Fake::answering(|_| Does::Fail));
    let c = fakes.add("c", Fake::answering(|_| Does::Refuse));
    let prober = prober(&fakes);
    assert_eq!(prober.ask(question("hdfs://a/x")).await, Outcome::Present);
    let Outcome::Failed(failure) = prober.ask(question("hdfs://b/x")).await else { panic!("it fails") };
    assert_eq!((failure.kind, failure.tries, b.looks()), (FailureKind::Unavailable, 4, 4));
    assert_eq!(failure.reason, "out of order");
    let Outcome::Failed(failure) = prober.ask(question("hdfs://c/x")).await else { panic!("it fails") };
    assert_eq!((failure.kind, failure.tries, c.looks()), (FailureKind::Refused, 1, 1));
    assert_eq!(prober.statistics().of(Kind::Hdfs).failed_calls, 7);
}

/// MON-6: hung calls are found, abandoned and counted, and hold up nobody.
#[tokio::test]
async fn hung_call_is_abandoned_and_holds_up_no_other_path() {
    let fakes = Fakes::default();
    let hung = |path: &str| if path.contains("hung") { Does::Hang } else { Does::Find };
    let a = fakes.add("a", Fake::answering(hung));
    let prober = prober(&fakes);
    let paths =
        (0..2_000).map(|n| format!("hdfs://a/{n}/x")).chain((0..2).map(|n| format!("hdfs://a/hung/{n}")));
    let begun = Instant::now();
    let mut answers = prober.probe(paths.map(|path| question(&path)));
    let (mut found, mut after) = (0, Duration::ZERO);
    let mut stuck = Vec::new();
    while let Some(answer) = answers.next().await {
        match answer.outcome {
            Outcome::Present => (found, after) = (found + 1, begun.elapsed()),
            Outcome::Hung { tries } => stuck.push(tries),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((found, stuck), (2_000, vec![4; 2]));
    assert!(after < begun.elapsed(), "whatever hangs is known last");
    let counts = prober.statistics().of(Kind::Hdfs);
    assert_eq!((counts.hung_calls, counts.hung, counts.present), (8, 2, 2_000));
    assert_eq!(a.under_way(), 0, "abandoned calls are dropped");
}

#[tokio::test]
async fn failing_authority_is_left_alone_and_others_are_not() {
    let fakes = Fakes::default();
    let a = fakes.add("a", Fake::answering(|_| Does::Fail));
    let b = fakes.add("b", Fake::answering(|_| Does::Find));
    let prober = prober(&fakes);
    let both = |n: usize| [question(&format!("hdfs://a/{n}/x")), question(&format!("hdfs://b/{n}/x"))];
    let outcomes = outcomes(prober.probe((0..1_000).flat_map(both)).all().await);
    let paused = outcomes.values().filter(|outcome| {
        matches!(outcome, Outcome::Failed(failure) if matches!(failure.kind, FailureKind::Paused { .. }))
    });
    assert!(paused.count() > 900);
    assert!(a.looks() < 40, "{} calls to what fails", a.looks());
    assert_eq!(b.looks(), 1_000);
    assert_eq!(outcomes.values().filter(|outcome| **outcome == Outcome::Present).count(), 1_000);
    let reason = outcomes.values().find_map(|outcome| match outcome {
        Outcome::Failed(failure) => Some(failure.reason.clone()),
        _ => None,
    });
    assert_eq!(reason.as_deref(), Some("out of order"), "a pause names its cause");
}

/// After a pause one call goes first, and all that wait for it go on when it is answered.
#[tokio::test]
async fn authority_that_is_back_is_asked_everything_at_once() {
    let fakes = Fakes::default();
    let broken = Arc::new(AtomicUsize::new(1));
    let is_broken = Arc::clone(&broken);
    let a = fakes.add(
        "a",
        Fake::answering(
            move |_| {
                if is_broken.load(Ordering::Relaxed) == 1 { Does::Hang } else { Does::Find }
            },
        ),
    );
    let prober = prober(&fakes);
    let all = || (0..500).map(|n| question(&format!("hdfs://a/{n}/x")));
    let answers = prober.probe(all()).all().await;
    assert!(answers.iter().all(|answer| !answer.outcome.is_conclusive()));
    assert!(a.renewals() > 0, "connections on which calls hung are thrown away");
    broken.store(0, Ordering::Relaxed);
    let back = loop {
        match prober.ask(question("hdfs://a/0/x")).await {
            Outcome::Failed(failure) => match failure.kind {
                FailureKind::Paused { for_ms } => tokio::time::sleep(Duration::from_millis(for_ms)).await,
                other => panic!("{other:?}"),
            },
            outcome => break outcome,
        }
    };
    assert_eq!(back, Outcome::Present);
    let answers = prober.probe(all()).all().await;
    assert!(answers.iter().all(|answer| answer.outcome == Outcome::Present));
}

/// Whoever was to find out whether an authority is back may go away before it knows.
#[tokio::test]
async fn forsaken_try_leaves_its_place_to_the_next() {
    let fakes = Fakes::default();
    let (mode, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (does, telling) = (Arc::clone(&mode), Arc::clone(&begun));
    fakes.add(
        "a",
        Fake::answering(move |_| match does.load(Ordering::Relaxed) {
            0 => Does::Fail,
            1 => {
                telling.notify_one();
                Does::Hang
            }
            _ => Does::Find,
        }),
    );
    let prober = prober(&fakes);
    prober.probe((0..50).map(|n| question(&format!("hdfs://a/{n}/x")))).all().await;
    mode.store(1, Ordering::Relaxed);
    let pass = loop {
        let pass = prober.probe([question("hdfs://a/0/x")]);
        if tokio::time::timeout(Duration::from_millis(20), begun.notified()).await.is_ok() {
            break pass;
        }
    };
    mode.store(2, Ordering::Relaxed);
    drop(pass);
    let outcome = tokio::time::timeout(Duration::from_secs(60), prober.ask(question("hdfs://a/1/x"))).await;
    assert_eq!(outcome.unwrap(), Outcome::Present);
}

#[tokio::test]
async fn directory_with_many_questions_is_listed_and_marks_are_looked_for_in_what_is_there() {
    let fakes = Fakes::default();
    // Every tenth day is there; every hundredth is complete.
    let mut there = Vec::new();
    for n in (0..1_000).step_by(10) {
        there.push(format!("/t/day{n:04}"));
    }
    let done = |path: &str| {
        let complete = path.strip_suffix("/_SUCCESS").is_some_and(|day| day.ends_with("00"));
        if complete { Does::Find } else { Does::Miss }
    };
    let a = fakes.add("a", Fake::listing(there, 30, done));
    let asked =
        |n: usize, mark: Option<Mark>| Question { mark, ..question(&format!("hdfs://a/t/day{n:04}")) };
    let prober = prober(&fakes);
    let plain = outcomes(prober.probe((0..1_000).map(|n| asked(n, None))).all().await);
    assert_eq!(plain.values().filter(|outcome| **outcome == Outcome::Present).count(), 100);
    assert_eq!((a.looks(), a.pages()), (0, 4), "100 entries in pages of 30");

    let marked = outcomes(prober.probe((0..1_000).map(|n| asked(n, Some(Mark::success())))).all().await);
    assert_eq!(marked.len(), 1_000);
    assert_eq!(marked.values().filter(|outcome| **outcome == Outcome::Present).count(), 10);
    assert_eq!((a.looks(), a.pages()), (100, 8), "marks of days that are not there are not asked for");
    let counts = prober.statistics().of(Kind::Hdfs);
    assert_eq!((counts.look_calls, counts.list_calls), (100, 8));
}

/// A directory of unknown size is listed no further than it is worth; the rest is looked for.
#[tokio::test]
async fn listing_of_a_huge_directory_is_given_up() {
    let fakes = Fakes::default();
    let there: Vec<_> = (0..100_000).map(|n| format!("/t/{n:06}")).collect();
    let a = fakes
        .add("a", Fake::listing(there, 100, |path| if path < "/t/100000" { Does::Find } else { Does::Miss }));
    let prober = prober(&fakes);
    // 100 names, of which the first ten are in the first pages.
    let names = (0..10).map(|n| n * 15).chain((0..90).map(|n| 50_000 + n * 1_000));
    let answers = outcomes(prober.probe(names.map(|n| question(&format!("hdfs://a/t/{n:06}")))).all().await);
    assert_eq!(answers.len(), 100);
    assert_eq!(answers.values().filter(|outcome| **outcome == Outcome::Present).count(), 60);
    assert_eq!((a.pages(), a.looks()), (10, 90));
}

#[tokio::test]
async fn calls_of_a_second_keep_to_the_rate() {
    let fakes = Fakes::default();
    fakes.add("a", Fake::answering(|_| Does::Find));
    let mut config = config();
    config.hdfs.limits = Limits { in_flight: 64, calls_per_s: 400, timeout_ms: 5_000 };
    let prober = Prober::with_opener(config, fakes).unwrap();
    let begun = Instant::now();
    prober.probe((0..400).map(|n| question(&format!("hdfs://a/{n}/x")))).all().await;
    assert!(begun.elapsed() >= Duration::from_millis(940), "{:?}", begun.elapsed());
}

/// A call to a dead mount blocks its thread in the kernel for ever.
#[tokio::test]
async fn dead_mount_keeps_one_thread_for_each_path_and_no_other_mount() {
    let (release, blocked) = channel::<()>();
    let blocked = std::sync::Mutex::new(blocked);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let stat = move |path: &str| {
        if path.starts_with("/proc/dead") {
            counted.fetch_add(1, Ordering::Relaxed);
            // Until the test ends.
            let _ = blocked.lock().unwrap().recv();
        }
        std::fs::metadata(path).map(drop)
    };
    let stat = Arc::new(stat);
    let prober =
        Prober::with_opener(config(), crate::kit::Locals(move || LocalBackend::with_stat(4, stat.clone())))
            .unwrap();
    let dead = || (0..2).map(|n| question(&format!("/proc/dead/{n}")));
    let alive = || question("/proc/self/stat");
    let answers = outcomes(prober.probe(dead().chain([alive(), question("/")])).all().await);
    let expected = BTreeMap::from([
        ("/".to_owned(), Outcome::Present),
        ("/proc/dead/0".to_owned(), Outcome::Hung { tries: 1 }),
        ("/proc/dead/1".to_owned(), Outcome::Hung { tries: 1 }),
        ("/proc/self/stat".to_owned(), Outcome::Present),
    ]);
    assert_eq!(answers, expected);
    for _ in 0..20 {
        let answers = outcomes(prober.probe(dead().chain([alive()])).all().await);
        assert_eq!(answers["/proc/dead/0"], Outcome::Hung { tries: 0 });
        assert_eq!(answers["/proc/self/stat"], Outcome::Present);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 2, "what hangs is not asked again");
    assert_eq!(prober.statistics().authorities["file:///proc"].hung_calls, 2);
    drop(release);
}

#[tokio::test]
async fn authorities_that_rest_make_room_for_others_and_their_counts_stay() {
    let fakes = Fakes::default();
    let config = tidemill_probe::Config { max_authorities: 2, ..config() };
    let prober = Prober::with_opener(config, fakes.clone()).unwrap();
    for n in 0..5 {
        fakes.add(&format!("n{n}"), Fake::answering(|_| Does::Find));
        assert_eq!(prober.ask(question(&format!("hdfs://n{n}/x"))).await, Outcome::Present);
    }
    let statistics = prober.statistics();
    assert_eq!((statistics.authorities.len(), statistics.of(Kind::Hdfs).present), (2, 5));
    let Outcome::Failed(failure) = prober.ask(question("hdfs://unknown/x")).await else { panic!("it fails") };
    assert_eq!(failure.kind, FailureKind::Refused);
}

#[tokio::test]
async fn dropped_answers_abandon_what_is_under_way() {
    let fakes = Fakes::default();
    let begun = Arc::new(Notify::new());
    let telling = Arc::clone(&begun);
    let a = fakes.add(
        "a",
        Fake::answering(move |_| {
            telling.notify_one();
            Does::Hang
        }),
    );
    let prober = prober(&fakes);
    let answers = prober.probe((0..100).map(|n| question(&format!("hdfs://a/{n}/x"))));
    begun.notified().await;
    drop(answers);
    a.wait_until_idle().await;
    assert!(a.looks() <= 8, "{}", a.looks());
}

/// ZMB-1: a directory changed when the newest in it did, though its own time stays when a file is written again.
#[tokio::test]
async fn local_directory_changed_when_the_newest_in_it_did() {
    let directory = tempfile::tempdir().unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let (table, part) = (directory.path().join("table"), directory.path().join("table/part"));
    std::fs::create_dir(&table).unwrap();
    std::fs::write(&part, "1").unwrap();
    let age = |path: &std::path::Path| std::fs::File::open(path).unwrap().set_modified(old).unwrap();
    age(&part);
    age(&table);
    let prober = Prober::new(config()).unwrap();
    let changed_at = async |path: &std::path::Path| {
        let path = prober.path("path", &absolute(path)).unwrap();
        prober.changed_at(&path).await.unwrap().map(|at| at.as_second())
    };
    assert_eq!(changed_at(&table).await, Some(1_000_000_000));
    std::fs::write(&part, "2").unwrap();
    assert!(changed_at(&table).await > Some(1_000_000_000));
    assert_eq!(changed_at(&directory.path().join("none")).await, None);
}

#[tokio::test]
async fn local_paths_exist_or_do_not() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("done")).unwrap();
    std::fs::create_dir(directory.path().join("open")).unwrap();
    std::fs::write(directory.path().join("done/_SUCCESS"), "").unwrap();
    std::os::unix::fs::symlink("nowhere", directory.path().join("broken")).unwrap();
    let mark = Some(Mark::success());
    let table = [
        ("done", None, Outcome::Present),
        ("done", mark.clone(), Outcome::Present),
        ("open", None, Outcome::Present),
        ("open", mark.clone(), Outcome::Absent),
        ("none", None, Outcome::Absent),
        ("none", mark, Outcome::Absent),
        ("done/_SUCCESS/below/a/file", None, Outcome::Absent),
        ("broken", None, Outcome::Absent),
    ];
    let prober = Prober::new(config()).unwrap();
    for (name, mark, outcome) in table {
        let question = Question { mark, ..question(&absolute(&directory.path().join(name))) };
        assert_eq!(prober.ask(question.clone()).await, outcome, "{question}");
    }
    let too_long = format!("/tmp/{}", "x".repeat(300));
    let Outcome::Failed(failure) = prober.ask(question(&too_long)).await else { panic!("it fails") };
    assert_eq!((failure.kind, failure.tries), (FailureKind::Refused, 1), "{}", failure.reason);
}

#[tokio::test]
async fn ten_thousand_local_paths_in_bulk() {
    let directory = tempfile::tempdir().unwrap();
    for n in (0..10_000).step_by(100) {
        std::fs::write(directory.path().join(format!("{n}")), "").unwrap();
    }
    let prober = Prober::new(config()).unwrap();
    let paths = (0..10_000).map(|n| question(&absolute(&directory.path().join(n.to_string()))));
    let answers = prober.probe(paths).all().await;
    assert_eq!(answers.len(), 10_000);
    assert_eq!(answers.iter().filter(|answer| answer.outcome == Outcome::Present).count(), 100);
    assert_eq!(prober.statistics().of(Kind::Local).calls(), 10_000);
}
