//! The client of the quality service at work, against a small service and owners of a memory log.

use crate::kit::service::QualityService;
use crate::kit::{Fixture, until};
use tidemill_model::{
    BatchCommand, BatchId, Command, GroupName, JobId, JobName, Outcome, QualityQuestion, Rejection, ShardId,
};
use tidemill_producers::Parts;
use tidemill_producers::quality::{Config, Input, Output, Role, Taken, start};

const SHARD: ShardId = ShardId(1);

fn ask(batch: u64, number: u32) -> QualityQuestion {
    QualityQuestion {
        batch: BatchId::mint(batch, SHARD),
        number,
        job: JobId::mint(1, SHARD),
        job_name: JobName::try_from("load").unwrap(),
        group: GroupName::try_from("demo").unwrap(),
        logical_time: "2026-03-01T00:00:00.000Z".parse().unwrap(),
        run: 0,
    }
}

fn config(service: &QualityService) -> Config {
    Config {
        url: Some(service.url.clone()),
        answer_url: Some("http://tidemill:8780/".to_owned()),
        retry_pause_ms: 1,
        poll_interval_ms: 100,
        ..Config::default()
    }
}

fn taken(fixture: &Fixture) -> Vec<(BatchId, u32)> {
    let of = |(_, command)| match command {
        Command::Batch(BatchCommand::SendQuality { batch, number, .. }) => Some((batch, number)),
        _ => None,
    };
    fixture.heard().into_iter().filter_map(of).collect()
}

/// DQ-1: what an owner asks is taken, then sent, with all that the service needs to answer; once, though the owner
/// goes on naming it for a while.
#[test]
fn question_is_taken_and_then_sent_once() {
    let service = QualityService::start(&[200]);
    let fixture = Fixture::start(|_| Outcome::Done);
    fixture.asks.lock().unwrap().insert(SHARD, (1..=3).map(|batch| ask(batch, 1)).collect());
    let quality = start(config(&service), fixture.outside("one"), None).unwrap().unwrap();
    until("three are asked", || (service.asked().len() == 3).then_some(()));
    let mut asked = service.asked();
    asked.sort_by_key(|asked| asked.body["batch"].as_i64());
    let batch = BatchId::mint(1, SHARD);
    let body = serde_json::json!({
        "batch": batch, "number": 1, "job": JobId::mint(1, SHARD), "job_name": "load", "group": "demo",
        "logical_time": "2026-03-01T00:00:00.000Z", "run": 0,
        "answer_url": format!("http://tidemill:8780/api/batches/{batch}/quality"),
    });
    assert_eq!(asked[0].body, body);
    assert!(asked[0].headers.contains(&format!("idempotency-key: {batch}-1")), "{:?}", asked[0].headers);
    assert_eq!(taken(&fixture).len(), 3);

    // No answer came, so the owner asks again.
    fixture.asks.lock().unwrap().insert(SHARD, vec![ask(2, 2)]);
    until("it is asked again", || (service.asked().len() == 4).then_some(()));
    assert_eq!(service.asked()[3].body["number"], 2);
    quality.stop().unwrap();
    assert_eq!(taken(&fixture).len(), 4);
}

/// Rule 14 of the protocol: what another process has taken is not sent.
#[test]
fn question_of_another_is_not_sent() {
    let service = QualityService::start(&[200]);
    let first = BatchId::mint(1, SHARD);
    let fixture = Fixture::start(move |record| match &record.command {
        Command::Batch(BatchCommand::SendQuality { batch, .. }) if *batch == first => {
            Outcome::Refused(Rejection::AlreadyThere { what: format!("question about {batch}") })
        }
        _ => Outcome::Done,
    });
    fixture.asks.lock().unwrap().insert(SHARD, vec![ask(1, 1), ask(2, 1)]);
    let quality = start(config(&service), fixture.outside("one"), None).unwrap().unwrap();
    until("the second is asked", || (!service.asked().is_empty()).then_some(()));
    fixture.asks.lock().unwrap().insert(SHARD, vec![ask(1, 1), ask(3, 1)]);
    until("the third is asked", || (service.asked().len() == 2).then_some(()));
    let asked: Vec<_> = service.asked().iter().map(|asked| asked.body["batch"].as_i64().unwrap()).collect();
    assert_eq!(asked, [2, 3].map(|batch| BatchId::mint(batch, SHARD).0));
    assert_eq!(taken(&fixture).len(), 3, "and is not taken again");
    quality.stop().unwrap();
}

#[test]
fn service_that_fails_is_tried_again_and_one_that_refuses_is_not() {
    let service = QualityService::start(&[503, 429, 200, 400, 200]);
    let fixture = Fixture::start(|_| Outcome::Done);
    fixture.asks.lock().unwrap().insert(SHARD, vec![ask(1, 1)]);
    let quality = start(config(&service), fixture.outside("one"), None).unwrap().unwrap();
    until("it is asked three times", || (service.asked().len() == 3).then_some(()));
    fixture.asks.lock().unwrap().insert(SHARD, vec![ask(2, 1)]);
    until("it is asked and refuses", || (service.asked().len() == 4).then_some(()));
    fixture.asks.lock().unwrap().insert(SHARD, vec![ask(3, 1)]);
    until("another is asked", || (service.asked().len() == 5).then_some(()));
    quality.stop().unwrap();
    let batches: Vec<_> = service.asked().iter().map(|asked| asked.body["batch"].as_i64().unwrap()).collect();
    assert_eq!(batches, [1, 1, 1, 2, 3].map(|batch| BatchId::mint(batch, SHARD).0));
    assert_eq!(taken(&fixture).len(), 3);
}

#[test]
fn without_a_service_nothing_is_taken_and_a_missing_token_is_named() {
    let fixture = Fixture::start(|_| Outcome::Done);
    assert!(start(Config::default(), fixture.outside("one"), None).unwrap().is_none());
    let service = QualityService::start(&[200]);
    let config = Config { token_env: Some("TIDEMILL_TEST_NO_SUCH_TOKEN".to_owned()), ..config(&service) };
    let refused = start(config, fixture.outside("two"), None).unwrap_err();
    assert!(refused.to_string().contains("TIDEMILL_TEST_NO_SUCH_TOKEN"), "{refused}");
}

fn all_parts() -> Input {
    Input::Parts(Parts { mine: (0..4).collect(), count: 4 })
}

#[test]
fn so_many_are_under_way_at_once_and_an_unknown_outcome_is_not_sent() {
    let mut role = Role::new(&Config { max_in_flight: 2, ..Config::default() });
    let (outputs, _) = role.step(0, [all_parts(), Input::Shards(vec![SHARD])]);
    assert_eq!(outputs, [Output::Look(SHARD)]);
    let asks = [1, 2, 3].map(|batch| ask(batch, 1));
    let (outputs, wake_at_ms) = role.step(10, [Input::Wanted(SHARD, asks.to_vec())]);
    assert_eq!((outputs, wake_at_ms), (asks[..2].iter().cloned().map(Output::Take).collect(), 1_010));
    let (outputs, _) = role.step(20, [Input::Taken(asks[0].clone(), Taken::Unknown)]);
    assert_eq!(outputs, [Output::Take(asks[2].clone())]);
    let (outputs, _) = role.step(30, [Input::Taken(asks[1].clone(), Taken::Ours)]);
    assert_eq!(outputs, [Output::Send(asks[1].clone())]);
    let (outputs, _) = role.step(40, [Input::Sent(asks[1].clone())]);
    assert_eq!(outputs, []);
    // The owner names what it was asked for before; then it asks anew.
    role.step(1_010, []);
    assert_eq!(role.step(1_020, [Input::Wanted(SHARD, asks.to_vec())]).0, []);
    role.step(2_020, []);
    let again = ask(1, 2);
    assert_eq!(role.step(2_030, [Input::Wanted(SHARD, vec![again.clone()])]).0, [Output::Take(again)]);
}

#[test]
fn processes_divide_the_batches() {
    let asks: Vec<QualityQuestion> = (1..=10).map(|batch| ask(batch, 1)).collect();
    let of = |mine: &[u32]| {
        let mut role = Role::new(&Config::default());
        let parts = Input::Parts(Parts { mine: mine.iter().copied().collect(), count: 4 });
        let inputs = [parts, Input::Shards(vec![SHARD]), Input::Wanted(SHARD, asks.clone())];
        let (outputs, _) = role.step(0, inputs);
        outputs.iter().filter(|output| matches!(output, Output::Take(_))).count()
    };
    let all: Vec<usize> = (0..4).map(|part| of(&[part])).collect();
    assert_eq!(all.iter().sum::<usize>(), 10, "{all:?}");
    assert!(all.iter().filter(|part| **part > 0).count() > 1, "{all:?}");
}
