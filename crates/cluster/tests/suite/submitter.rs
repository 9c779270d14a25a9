//! A submitter on the memory log, with a scripted owner.

use std::sync::Arc;
use std::time::Duration;

use tidemill_cluster::{Config, SubmitError, SubmitRequest, Submitter, instance_id, request_id};
use tidemill_log::{From, Log, MemoryLog, Readers, Topic, append_wait};
use tidemill_model::{
    Actor, Answer, BatchCommand, BatchId, Command, CommandRecord, JobId, Outcome, Reply, RequestId, ShardId,
};

const LONG: Duration = Duration::from_secs(60);

fn submit_request(request: RequestId) -> SubmitRequest {
    let command = Command::Batch(BatchCommand::KillJob { job: JobId::mint(1, ShardId(2)) });
    SubmitRequest { shard: ShardId(2), request, actor: Actor::default(), command }
}

/// The next `count` commands of the shard's partition, as an owner would read them.
fn commands(log: &MemoryLog, count: usize) -> Vec<CommandRecord> {
    let partition = ShardId(2).partition(log.partitions(Topic::Commands));
    let mut reader = log.reader(Topic::Commands, partition, From::Start).unwrap();
    let mut commands = Vec::new();
    while commands.len() < count {
        let records = reader.poll(count, LONG).unwrap();
        assert!(!records.is_empty(), "only {} of {count} commands came", commands.len());
        for record in records {
            assert_eq!(record.key, b"2");
            commands.push(serde_json::from_slice(&record.value).unwrap());
        }
    }
    commands
}

fn answer(log: &MemoryLog, command: &CommandRecord, batch: i64) {
    let outcome = Outcome::Answered(Answer::Generated { batch: BatchId(batch), disabled: false });
    let reply = Reply { request: command.request.clone().unwrap(), outcome, partition: 1, offset: 40 };
    let to = command.reply_to.clone().unwrap();
    let partition = tidemill_log::partition_of_key(to.as_str(), log.partitions(Topic::Replies));
    let producer = log.producer().unwrap();
    let value = serde_json::to_vec(&reply).unwrap();
    append_wait(&*producer, Topic::Replies, partition, to.as_str().as_bytes(), value, LONG).unwrap();
}

fn start(log: &MemoryLog, config: Config) -> Submitter {
    Submitter::start(Arc::new(log.clone()), instance_id("test"), config).unwrap()
}

/// An owner that answers the first `count` commands: each with the number of the instance that asked.
fn owner(log: &MemoryLog, instances: [&Submitter; 2], count: usize) -> std::thread::JoinHandle<()> {
    let log = log.clone();
    let names = instances.map(|submitter| submitter.instance().clone());
    std::thread::spawn(move || {
        for command in commands(&log, count) {
            let number = names.iter().position(|name| Some(name) == command.reply_to.as_ref()).unwrap();
            answer(&log, &command, number as i64);
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn each_instance_gets_its_own_replies() {
    let log = MemoryLog::new(1);
    let (one, two) = (start(&log, Config::default()), start(&log, Config::default()));
    let owner = owner(&log, [&one, &two], 2);
    let (first, second) = tokio::join!(
        one.submit(submit_request(request_id()), None),
        two.submit(submit_request(request_id()), None)
    );
    let batch = |reply: Reply| match reply.outcome {
        Outcome::Answered(Answer::Generated { batch, .. }) => batch.0,
        other => panic!("{other:?}"),
    };
    assert_eq!((batch(first.unwrap()), batch(second.unwrap())), (0, 1));
    owner.join().unwrap();
    assert_eq!(one.load().in_flight, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_owner_sees_the_same_request_again_and_its_late_reply_counts() {
    let log = MemoryLog::new(3);
    let submitter = start(&log, Config { resend_after_ms: 20, ..Config::default() });
    let owner = {
        let log = log.clone();
        std::thread::spawn(move || {
            let commands = commands(&log, 3);
            assert!(commands.iter().all(|command| *command == commands[0]));
            answer(&log, &commands[0], 9);
        })
    };
    let reply = submitter.submit(submit_request(RequestId::new("r")), None).await.unwrap();
    assert_eq!((reply.request, reply.partition, reply.offset), (RequestId::new("r"), 1, 40));
    owner.join().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_owner_the_outcome_is_unknown_after_the_deadline() {
    let log = MemoryLog::new(3);
    let submitter = start(&log, Config::default());
    let result = submitter.submit(submit_request(request_id()), Some(Duration::from_millis(50))).await;
    assert!(matches!(result, Err(SubmitError::Unknown { waited_ms: 50.. })), "{result:?}");
    assert_eq!(commands(&log, 1).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_still_waits_when_the_submitter_stops_is_told() {
    let log = MemoryLog::new(3);
    let submitter = start(&log, Config::default());
    let waiting = tokio::spawn({
        let submitter = submitter.clone();
        async move { submitter.submit(submit_request(request_id()), None).await }
    });
    assert_eq!(commands(&log, 1).len(), 1);
    submitter.stop();
    assert_eq!(waiting.await.unwrap(), Err(SubmitError::Stopped));
    assert_eq!(submitter.submit(submit_request(request_id()), None).await, Err(SubmitError::Stopped));
}
