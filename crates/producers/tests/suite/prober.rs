//! The prober at work: real paths of this host, a name node that never answers, and owners of a memory log.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;

use crate::kit::{Fixture, until};
use tidemill_model::{
    BatchId, CatalogueCommand, Command, ExternalDependencyId, ObservationCommand, Outcome, OutputFound,
    ProbeReport, ShardId, Timestamp, Token, WantedOutput,
};
use tidemill_probe::PollTimes;
use tidemill_producers::prober::{Config, start};

const SHARD: ShardId = ShardId(1);

/// So fast that a test can wait for it.
fn config() -> Config {
    let mut config = Config { poll_interval_ms: 100, ..Config::default() };
    config.poll =
        PollTimes { max_interval_ms: 1_000, interval_ms: 300, min_interval_ms: 100, ..PollTimes::default() };
    config.poll.batch_window_ms = 100;
    config
}

/// Things that were told to be there.
fn found(fixture: &Fixture) -> BTreeSet<ExternalDependencyId> {
    let answers = fixture.heard().into_iter().filter_map(|(shard, command)| match command {
        Command::Observation(ObservationCommand::ReportPaths { answers, .. }) if shard == SHARD => {
            Some(answers)
        }
        _ => None,
    });
    answers
        .flatten()
        .filter(|answer| answer.exists && answer.generation == 1)
        .map(|answer| answer.external_dependency)
        .collect()
}

/// DEP-1, DEP-4: a path that comes is told to the shard that waits for it, and nothing else is.
#[test]
fn path_that_comes_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let fixture = Fixture::start(|_| Outcome::Done);
    fixture.wait_for(SHARD, ["a", "b", "c"].map(path));
    let prober = start(config(), fixture.outside("one")).unwrap();
    until("all are asked for", || (prober.status().paths == 3).then_some(()));
    fs::write(path("b"), "").unwrap();
    let told = until("b is told", || Some(found(&fixture)).filter(|found| !found.is_empty()));
    assert_eq!(told, BTreeSet::from([ExternalDependencyId::mint(2, SHARD)]));
    fixture.wait_for(SHARD, []);
    until("nothing is waited for", || (prober.status().paths == 0).then_some(()));
    prober.stop().unwrap();
    assert!(
        fixture.heard().iter().all(|(_, command)| matches!(
            command,
            Command::Observation(ObservationCommand::ReportPaths { .. })
        ))
    );
}

/// ZMB-1: an output of a lost attempt is looked for, and its owner hears when it changed.
#[test]
fn output_of_a_lost_attempt_is_looked_for() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("out"), "").unwrap();
    let modified = fs::metadata(dir.path().join("out")).unwrap().modified().unwrap();
    let ms = modified.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let changed = Timestamp::from_millisecond(i64::try_from(ms).unwrap()).unwrap();
    let fixture = Fixture::start(|_| Outcome::Done);
    let names = ["out", "missing"].map(|name| dir.path().join(name).to_str().unwrap().to_owned());
    let outputs = (1..).zip(names.iter().map(String::as_str).chain(["ftp://x"]));
    let outputs = outputs.map(|(number, path)| WantedOutput {
        batch: BatchId::mint(number, SHARD),
        token: Token::mint(number, SHARD),
        path: path.into(),
    });
    *fixture.outputs.lock().unwrap() = outputs.collect();
    fixture.wait_for(SHARD, []);
    let prober = start(config(), fixture.outside("one")).unwrap();
    let told = until("all are told", || {
        let heard = fixture.heard().into_iter().filter_map(|(_, command)| match command {
            Command::Observation(ObservationCommand::ReportOutputs { answers, .. }) => Some(answers),
            _ => None,
        });
        let found: BTreeMap<Token, OutputFound> =
            heard.flatten().map(|answer| (answer.token, answer.found)).collect();
        Some(found).filter(|found| found.len() == 3)
    });
    let [out, missing, wrong] = [1, 2, 3].map(|number| &told[&Token::mint(number, SHARD)]);
    assert_eq!((out, missing), (&OutputFound::Changed { at: changed }, &OutputFound::Absent));
    assert!(matches!(wrong, OutputFound::Unknown { reason } if reason.contains("ftp://x")), "{wrong:?}");
    prober.stop().unwrap();
}

/// DEP-1: several probers ask each path once between them; when one is gone, the other asks for all.
#[test]
fn probers_share_the_paths() {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<String> =
        (0..200).map(|n| dir.path().join(format!("{n}/x")).to_str().unwrap().to_owned()).collect();
    let fixture = Fixture::start(|_| Outcome::Done);
    fixture.log.suggest("one", vec![0, 3]);
    fixture.log.suggest("other", vec![1, 2]);
    fixture.wait_for(SHARD, paths.clone());
    let [one, other] = ["one", "other"].map(|name| start(config(), fixture.outside(name)).unwrap());
    until("they share", || {
        let [ones, others] = [one.status().paths, other.status().paths];
        (ones + others == 200 && ones > 0 && others > 0).then_some(())
    });
    other.stop().unwrap();
    fixture.log.suggest("one", (0..4).collect());
    until("one asks for all", || (one.status().paths == 200).then_some(()));
    fs::create_dir_all(dir.path().join("77/x")).unwrap();
    let told = until("it is found", || Some(found(&fixture)).filter(|found| !found.is_empty()));
    assert_eq!(told, BTreeSet::from([ExternalDependencyId::mint(78, SHARD)]));
    one.stop().unwrap();
}

/// DEP-5, MON-6: a name node that takes calls and never answers. They are abandoned, counted and shown; the
/// catalogue hears of it, and again when it is over; other paths are found meanwhile.
#[cfg(feature = "hdfs")]
#[test]
fn hung_name_node_is_told_and_holds_up_no_other_path() {
    let hung = TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let local = dir.path().to_str().unwrap().to_owned();
    let name_node = format!("hdfs://{}", hung.local_addr().unwrap());
    let fixture = Fixture::start(|_| Outcome::Done);
    fixture.wait_for(SHARD, [format!("{name_node}/a"), local]);
    let mut config = config();
    config.paths.retry_pause_ms = 10;
    config.paths.hdfs.limits.timeout_ms = 100;
    let prober = start(config, fixture.outside("one")).unwrap();
    until("the local path is found", || {
        found(&fixture).contains(&ExternalDependencyId::mint(2, SHARD)).then_some(())
    });
    let reports = || -> Vec<ProbeReport> {
        let of = |(shard, command)| match command {
            Command::Catalogue(CatalogueCommand::ReportProbes(report)) if shard == ShardId::CATALOGUE => {
                Some(report)
            }
            _ => None,
        };
        fixture.heard().into_iter().filter_map(of).collect()
    };
    let report = until("it is told", || reports().into_iter().next());
    assert_eq!((&*report.authority, &*report.prober), (name_node.as_str(), "one"));
    assert!(report.failure.contains("no answer in time, tried 4 times"), "{report:?}");
    let status = until("it is shown", || {
        let status = prober.status();
        let shown = status.authorities.iter().find(|it| it.authority == name_node)?.clone();
        (shown.hung_calls >= 4).then_some((status.failing, shown))
    });
    assert_eq!(status.0, 1, "{status:?}");
    until("its lateness is told", || reports().iter().any(|report| report.late_ms > 0).then_some(()));

    fixture.wait_for(SHARD, []);
    until("it is over", || {
        let last = reports().pop()?;
        (last.failure.is_empty() && last.late_ms == 0).then_some(())
    });
    prober.stop().unwrap();
}

#[test]
fn configuration_out_of_range_is_refused_by_field() {
    let fixture = Fixture::start(|_| Outcome::Done);
    let refused =
        start(Config { poll_interval_ms: 1, ..Config::default() }, fixture.outside("one")).unwrap_err();
    assert!(refused.to_string().contains("poll_interval_ms"), "{refused}");
}
