//! Several stores share attempts, and one takes another's part over.

use tidemill_model::{LogParts, LogStream, ShardId, Token};

use crate::kit::{INTERNAL_KEY, config, download, get, get_with, log, output, start, until};
use crate::worker::FakeWorker;

/// LOG-1: each worker is asked by one store; when a store dies another goes on with its attempts where the first has come to in
/// the place, and nothing is lost.
#[test]
fn store_takes_the_part_of_one_that_died() {
    let place = tempfile::tempdir().unwrap();
    let config = config(place.path().to_str().unwrap());
    let log = log();
    log.suggest("logs-a", vec![0]);
    log.suggest("logs-b", vec![1]);
    // The catalogue has the first partition for itself.
    let workers = [FakeWorker::start_as("w-1", ShardId(1)), FakeWorker::start_as("w-2", ShardId(0))];
    let places = || workers.iter().map(FakeWorker::place).collect::<Vec<_>>();
    let a = start(&log, "logs-a", config.clone(), places());
    let b = start(&log, "logs-b", config, places());
    let tokens = [Token::mint(1, ShardId(1)), Token::mint(1, ShardId(0))];
    let outputs = [output(1, 40_000), output(2, 40_000)];
    let half = |of: usize| outputs[of].len() / 2;
    for of in 0..2 {
        workers[of].print(tokens[of], LogStream::Stdout, &outputs[of][..half(of)]);
    }
    until("each store has its own", || {
        get(&b, tokens[0], "").status() == 200 && get(&a, tokens[1], "").status() == 200
    });
    let asked_by =
        |of: usize| workers[of].spools().asked_by.iter().map(|id| id.to_string()).collect::<Vec<_>>();
    assert_eq!((asked_by(0), asked_by(1)), (vec!["logs-b".to_owned()], vec!["logs-a".to_owned()]));
    let parts: LogParts = get_with(&a, "/parts", INTERNAL_KEY, None).json().unwrap();
    assert_eq!(parts, LogParts { mine: vec![0], count: 2 });
    a.stop().unwrap();
    log.suggest("logs-b", vec![0, 1]);
    for of in 0..2 {
        workers[of].print(tokens[of], LogStream::Stdout, &outputs[of][half(of)..]);
        workers[of].end(tokens[of]);
    }
    until("all is kept", || (0..2).all(|of| workers[of].is_done(tokens[of])));
    for of in 0..2 {
        assert!(download(&b, tokens[of], 1) == outputs[of]);
    }
    b.stop().unwrap();
}
