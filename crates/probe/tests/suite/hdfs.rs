//! Paths of a real HDFS: one that runs, and one of a test's own that is stopped, killed and started again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::kit::hdfs::{PrivateHdfs, client, fresh_directory, make_files, shared};
use tidemill_probe::{
    Answer, Config, Event, FailureKind, Hdfs, Kind, Limits, Mark, Outcome, Path, PollTimes, Prober, Question,
    Schedule, Urgency,
};

fn question(path: &str) -> Question {
    Question { path: Path::parse("path", path, None).unwrap(), mark: None }
}

fn marked(path: &str) -> Question {
    Question { mark: Some(Mark::success()), ..question(path) }
}

fn config() -> Config {
    Config::default()
}

/// Timeouts and pauses short enough for a test, long enough for a name node that has just started.
fn impatient() -> Config {
    let limits = Limits { in_flight: 64, calls_per_s: 0, timeout_ms: 1_500 };
    Config { pause_ms: 100, max_pause_ms: 1_000, hdfs: Hdfs { limits, ..Hdfs::default() }, ..config() }
}

fn present(answers: &[Answer]) -> usize {
    answers.iter().filter(|answer| answer.outcome == Outcome::Present).count()
}

/// DEP-1: a path exists, with its mark where the job asks for it.
#[tokio::test]
async fn path_and_mark_are_there_or_not() {
    let url = shared();
    let client = client(&url);
    let root = fresh_directory(&client, "marks").await;
    client.mkdirs(&format!("{root}/open"), 0o755, true).await.unwrap();
    make_files(&client, [format!("{root}/done/_SUCCESS"), format!("{root}/日 表/_DONE")]).await;
    let done = Some(Mark::try_from("_DONE".to_owned()).unwrap());
    let table = [
        ("done", None, Outcome::Present),
        ("done", Some(Mark::success()), Outcome::Present),
        ("open", None, Outcome::Present),
        ("open", Some(Mark::success()), Outcome::Absent),
        ("日 表", done.clone(), Outcome::Present),
        ("done", done, Outcome::Absent),
        ("none", None, Outcome::Absent),
        ("none/below", Some(Mark::success()), Outcome::Absent),
        ("done/_SUCCESS/below", None, Outcome::Absent),
    ];
    let default_name_node = Some(url.trim_start_matches("hdfs://").to_owned());
    let hdfs = Hdfs { default_name_node, ..Hdfs::default() };
    let prober = Prober::new(Config { hdfs, ..config() }).unwrap();
    for (name, mark, outcome) in table {
        let path = prober.path("path", &format!("hdfs://{root}/{name}")).unwrap();
        let question = Question { path, mark };
        assert_eq!(prober.ask(question.clone()).await, outcome, "{question}");
    }
    assert_eq!(prober.ask(question(&format!("{url}/"))).await, Outcome::Present, "the root");
    client.delete(&root, true).await.unwrap();
}

/// ZMB-1: a directory changed when the newest in it did.
#[tokio::test]
async fn what_changed_last_in_a_directory_says_when_it_changed() {
    let url = shared();
    let client = client(&url);
    let root = fresh_directory(&client, "changed").await;
    make_files(&client, [format!("{root}/old/part"), format!("{root}/new/part")]).await;
    const OLD_MS: u64 = 1_000_000_000_000;
    for path in ["old/part", "old", "new"] {
        client.set_times(&format!("{root}/{path}"), OLD_MS, OLD_MS).await.unwrap();
    }
    let prober = Prober::new(config()).unwrap();
    let changed_at = async |name: &str| {
        let path = prober.path("path", &format!("{url}{root}/{name}")).unwrap();
        prober.changed_at(&path).await.unwrap().map(|at| at.as_millisecond())
    };
    for path in ["old/part", "old"] {
        assert_eq!(changed_at(path).await, Some(OLD_MS.cast_signed()), "{path}");
    }
    assert!(changed_at("new").await > Some(OLD_MS.cast_signed()));
    assert_eq!(changed_at("none").await, None);
    client.delete(&root, true).await.unwrap();
}

/// DEP-1: whoever asks as an ordinary user below a file is told that nothing is there.
#[tokio::test]
async fn ordinary_user_gets_the_same_answers() {
    let url = shared();
    let client = client(&url);
    let root = fresh_directory(&client, "user").await;
    make_files(&client, [format!("{root}/file")]).await;
    let hdfs = Hdfs { user: Some("nobody".to_owned()), ..Hdfs::default() };
    let prober = Prober::new(Config { hdfs, ..config() }).unwrap();
    for (name, outcome) in
        [("file", Outcome::Present), ("file/below", Outcome::Absent), ("none", Outcome::Absent)]
    {
        assert_eq!(prober.ask(question(&format!("{url}{root}/{name}"))).await, outcome, "{name}");
    }
    client.delete(&root, true).await.unwrap();
}

/// DEP-1: checked in bulk; a listing answers many where it is cheaper.
#[tokio::test]
async fn ten_thousand_paths_in_bulk() {
    let url = shared();
    let client = client(&url);
    let root = fresh_directory(&client, "bulk").await;
    let there: BTreeSet<String> = (0..10_000)
        .step_by(20)
        .flat_map(|n| [format!("{root}/single/{n:05}/x"), format!("{root}/together/{n:05}")])
        .collect();
    make_files(&client, there.iter().cloned()).await;
    let check = |answers: Vec<Answer>| {
        assert_eq!(answers.len(), 10_000);
        for answer in &answers {
            let is_there = there.contains(answer.question.path.inside());
            assert_eq!(
                answer.outcome,
                if is_there { Outcome::Present } else { Outcome::Absent },
                "{answer:?}"
            );
        }
        assert_eq!(present(&answers), 500);
    };

    let prober = Prober::new(config()).unwrap();
    let single = (0..10_000).map(|n| question(&format!("{url}{root}/single/{n:05}/x")));
    let begun = Instant::now();
    check(prober.probe(single).all().await);
    println!("10,000 looks: {:?}", begun.elapsed());
    let counts = prober.statistics().of(Kind::Hdfs);
    assert_eq!((counts.look_calls, counts.list_calls, counts.hung_calls), (10_000, 0, 0));
    println!("p50 {:?}, p99 {:?}", counts.latency.within(0.5), counts.latency.within(0.99));

    let together = (0..10_000).map(|n| question(&format!("{url}{root}/together/{n:05}")));
    let begun = Instant::now();
    check(prober.probe(together).all().await);
    println!("10,000 by listing: {:?}", begun.elapsed());
    let counts = prober.statistics().of(Kind::Hdfs);
    assert_eq!((counts.look_calls, counts.list_calls), (10_000, 1), "500 entries are one page");

    let marks = (0..10_000).map(|n| marked(&format!("{url}{root}/single/{n:05}")));
    let answers = prober.probe(marks).all().await;
    assert_eq!((answers.len(), present(&answers)), (10_000, 0));
    let counts = prober.statistics().of(Kind::Hdfs);
    assert_eq!((counts.look_calls, counts.list_calls), (10_500, 2), "marks only of what is there");
    client.delete(&root, true).await.unwrap();
}

/// A directory of several pages, of which the listing covers a part.
#[tokio::test]
async fn pages_of_a_listing_and_looks_agree() {
    let url = shared();
    let client = client(&url);
    let root = fresh_directory(&client, "pages").await;
    make_files(
        &client,
        (0..2_500).map(|n| format!("{root}/{n:05}")).chain([format!("{root}/é"), format!("{root}/日")]),
    )
    .await;
    let prober = Prober::new(config()).unwrap();
    let names =
        (0..2_600).step_by(20).map(|n| format!("{n:05}")).chain(["é", "日", "zz", "ü"].map(str::to_owned));
    let answers = prober.probe(names.map(|name| question(&format!("{url}{root}/{name}")))).all().await;
    assert_eq!((answers.len(), present(&answers)), (134, 127));
    let counts = prober.statistics().of(Kind::Hdfs);
    // 134 questions are worth two pages of 1,000.
    assert_eq!(counts.list_calls, 2);
    assert!((30..=40).contains(&counts.look_calls), "{}", counts.look_calls);
    client.delete(&root, true).await.unwrap();
}

/// MON-6, DEP-5: a name node that is stopped, goes on, is killed and comes back, while 2,000 paths are asked by
/// their schedule. Hung calls are abandoned, another name node is asked as before, answers resume.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_and_killed_name_node_is_survived() {
    let other = shared();
    let private = tokio::task::spawn_blocking(PrivateHdfs::start).await.unwrap();
    let writer = client(&private.url);
    writer.mkdirs("/t", 0o755, true).await.unwrap();
    let prober = Prober::new(impatient()).unwrap();
    let ask_private = |n: usize| question(&format!("{}/t/{n}/x", private.url));
    let all = |range: std::ops::Range<usize>| range.map(ask_private).collect::<Vec<_>>();

    let answers = prober.probe(all(0..2_000)).all().await;
    assert_eq!(present(&answers), 0);
    assert!(answers.iter().all(|answer| answer.outcome == Outcome::Absent));

    private.signal("-STOP");
    let begun = Instant::now();
    let answers = prober.probe(all(0..2_000).into_iter().chain([question(&format!("{other}/"))])).all().await;
    let took = begun.elapsed();
    println!("name node stopped: 2,000 questions given up in {took:?}");
    assert!(
        took < Duration::from_secs(120),
        "four tries of 1.5 s and their pauses, not 2,000 of them: {took:?}"
    );
    assert_eq!((answers.len(), present(&answers)), (2_001, 1), "the other one answers");
    let counts = prober.statistics().authorities[&private.url].clone();
    assert!(counts.hung_calls >= 8 && counts.renewals >= 1 && counts.pauses >= 1, "{counts:?}");
    assert!(counts.hung_calls < 200, "the circuit spares the rest: {counts:?}");
    private.signal("-CONT");
    until_answered(&prober, &ask_private(0)).await;
    let answers = prober.probe(all(0..2_000)).all().await;
    assert!(answers.iter().all(|answer| answer.outcome == Outcome::Absent), "all of them at once");

    private.signal("-KILL");
    let answers = prober.probe(all(0..2_000)).all().await;
    assert!(answers.iter().all(|answer| !answer.outcome.is_conclusive()));
    assert!(answers.iter().any(|answer| matches!(
        &answer.outcome,
        Outcome::Failed(failure) if failure.kind == FailureKind::Unavailable
    )));
    let private = tokio::task::spawn_blocking(move || {
        private.start_again();
        private
    });
    let private = private.await.unwrap();
    make_files(&client(&private.url), (0..2_000).step_by(2).map(|n| format!("/t/{n}/x"))).await;
    let first = question(&format!("{}/t/0/x", private.url));
    until_answered(&prober, &first).await;
    let answers = prober.probe((0..2_000).map(|n| question(&format!("{}/t/{n}/x", private.url)))).all().await;
    assert_eq!(present(&answers), 1_000);
    tokio::task::spawn_blocking(move || drop(private)).await.unwrap();
}

/// Asks until there is an answer, as often as the pauses allow.
async fn until_answered(prober: &Prober, question: &Question) {
    let begun = Instant::now();
    loop {
        match prober.ask(question.clone()).await {
            outcome if outcome.is_conclusive() => break,
            Outcome::Failed(failure) => {
                if let FailureKind::Paused { for_ms } = failure.kind {
                    tokio::time::sleep(Duration::from_millis(for_ms)).await;
                }
            }
            Outcome::Present | Outcome::Absent | Outcome::Hung { .. } => {}
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not answer again");
    }
    println!("answers again after {:?}", begun.elapsed());
}

/// DEP-1, DEP-4: the schedule and the prober together, as a role runs them: 10,000 paths are waited for, appear,
/// and are reported within one round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appearing_paths_are_seen_within_one_round() {
    let url = shared();
    let client = client(&url);
    let root = fresh_directory(&client, "round").await;
    // A tenth of the real rhythm.
    let poll = PollTimes {
        max_interval_ms: 3_000,
        interval_ms: 2_500,
        min_interval_ms: 500,
        batch_window_ms: 600,
        ..PollTimes::default()
    };
    let mut schedule = Schedule::new(poll).unwrap();
    let prober = Prober::new(config()).unwrap();
    let path = |n: usize| format!("{root}/{}/{n:05}", n % 100);
    let (sender, mut answers) = tokio::sync::mpsc::channel(100);
    let begun = Instant::now();
    let mut events: Vec<Event> = (0..10_000)
        .map(|n| Event::Wanted(question(&format!("{url}{}", path(n))), Urgency::Waiting))
        .collect();
    let writer = tokio::spawn({
        let (client, paths) = (client.clone(), (0..10_000).map(path).collect::<Vec<_>>());
        async move {
            make_files(&client, paths).await;
            begun.elapsed()
        }
    });
    let mut seen = BTreeSet::new();
    while seen.len() < 10_000 {
        let now_ms = u64::try_from(begun.elapsed().as_millis()).unwrap();
        let step = schedule.step(now_ms, events.drain(..));
        if !step.ask.is_empty() {
            let (mut pass, sender) = (prober.probe(step.ask), sender.clone());
            tokio::spawn(async move {
                while let Some(answer) = pass.next().await {
                    sender.send(answer).await.unwrap();
                }
            });
        }
        let wake = Duration::from_millis(step.wake_at_ms.map_or(1_000, |at| at.saturating_sub(now_ms)));
        if let Ok(Some(answer)) = tokio::time::timeout(wake, answers.recv()).await {
            let mut more = vec![answer];
            while let Ok(answer) = answers.try_recv() {
                more.push(answer);
            }
            for Answer { question, outcome } in more {
                events.push(Event::Answered(question.clone(), outcome.clone()));
                if outcome == Outcome::Present {
                    seen.insert(question.clone());
                    events.push(Event::Unwanted(question));
                }
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{} of 10,000 seen", seen.len());
    }
    let (written, all) = (writer.await.unwrap(), begun.elapsed());
    let counts = prober.statistics().of(Kind::Hdfs);
    println!(
        "written after {written:?}, all seen after {all:?}; {} looks, {} pages",
        counts.look_calls, counts.list_calls
    );
    assert!(all < written + Duration::from_secs(40), "seen {all:?}, written {written:?}");
    client.delete(&root, true).await.unwrap();
}
