//! Replies by line: an owner in another process, and a submitter here.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidemill_cluster::{
    AskOwner, Config, OpenLine, OwnerAddresses, ReplyLines, SubmitRequest, Submitter, TakeReply, instance_id,
    live_router, request_id,
};
use tidemill_log::{From, MemoryLog, Readers, Topic};
use tidemill_model::{
    Actor, Answer, BatchCommand, Command, CommandRecord, InstanceId, JobId, Outcome, Reply, ShardId,
};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

const LONG: Duration = Duration::from_secs(60);
const SECRET: &str = "internal";

/// A line that was opened, for as long as the other side keeps it.
struct Opened {
    instance: InstanceId,
    take: TakeReply,
    has_ended: Arc<AtomicBool>,
}

struct Kept(Arc<AtomicBool>);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A process with owners, which tells of every line.
async fn process(listener: TcpListener) -> (JoinHandle<()>, mpsc::UnboundedReceiver<Opened>) {
    let (tell, opened) = mpsc::unbounded_channel();
    let owners: AskOwner = Arc::new(|_, _| Err("nothing is owned here".to_owned()));
    let lines: OpenLine = Arc::new(move |instance, take| {
        let has_ended = Arc::new(AtomicBool::new(false));
        tell.send(Opened { instance, take, has_ended: Arc::clone(&has_ended) }).unwrap();
        Some(Box::new(Kept(has_ended)))
    });
    let router = live_router(SECRET, owners, lines);
    let limits = tidemill_serving::Config::default().for_own_roles();
    let serving = tidemill_serving::serve(listener, router, limits, std::future::pending());
    (tokio::spawn(async move { serving.await.unwrap() }), opened)
}

async fn listener(address: SocketAddr) -> TcpListener {
    for _ in 0..600 {
        if let Ok(listener) = TcpListener::bind(address).await {
            return listener;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{address} does not become free");
}

fn at(addresses: &[SocketAddr]) -> OwnerAddresses {
    let addresses: BTreeSet<String> = addresses.iter().map(ToString::to_string).collect();
    Arc::new(move || addresses.clone())
}

async fn next(opened: &mut mpsc::UnboundedReceiver<Opened>) -> Opened {
    tokio::time::timeout(LONG, opened.recv()).await.expect("a line is opened").unwrap()
}

fn command(log: &MemoryLog) -> CommandRecord {
    let partition = ShardId(2).partition(log.partitions(Topic::Commands));
    let mut reader = log.reader(Topic::Commands, partition, From::Start).unwrap();
    let records = reader.poll(1, LONG).unwrap();
    serde_json::from_slice(&records.first().expect("a command").value).unwrap()
}

fn submit(submitter: &Submitter) -> JoinHandle<Reply> {
    let command = Command::Batch(BatchCommand::KillJob { job: JobId::mint(1, ShardId(2)) });
    let actor = Actor::default();
    let request = SubmitRequest { shard: ShardId(2), request: request_id(), actor, command };
    let submitter = submitter.clone();
    tokio::spawn(async move { submitter.submit(request, Some(LONG)).await.unwrap() })
}

/// What a line gives is the outcome, and nothing of it stands on the topic. A line that ends is opened again, and the other
/// side hears of the end.
#[tokio::test(flavor = "multi_thread")]
async fn replies_come_by_line_and_lines_are_opened_again() {
    let log = MemoryLog::new(1);
    let submitter = Submitter::start(Arc::new(log.clone()), instance_id("test"), Config::default()).unwrap();
    let first = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = first.local_addr().unwrap();
    let (process_1, mut opened) = process(first).await;
    let lines =
        ReplyLines::keep(&Handle::current(), submitter.clone(), at(&[address]), SECRET, None).unwrap();
    let line = next(&mut opened).await;
    assert_eq!(&line.instance, submitter.instance());

    let waits = submit(&submitter);
    let from = log.clone();
    let command = tokio::task::spawn_blocking(move || command(&from)).await.unwrap();
    let outcome = Outcome::Answered(Answer::Done);
    let reply = Reply { request: command.request.unwrap(), outcome, partition: 1, offset: 40 };
    assert!((line.take)(&reply));
    assert_eq!(tokio::time::timeout(LONG, waits).await.unwrap().unwrap(), reply);
    let partition =
        tidemill_log::partition_of_key(submitter.instance().as_str(), log.partitions(Topic::Replies));
    let on_topic = log.range(Topic::Replies, partition).unwrap();
    assert_eq!(on_topic.start, on_topic.end, "nothing went by the topic");
    let long = Reply {
        outcome: Outcome::Refused(tidemill_model::Rejection::DeadLettered { reason: "x".repeat(70_000) }),
        ..reply.clone()
    };
    assert!(!(line.take)(&long), "one that is too long for a line goes by the topic");

    process_1.abort();
    let _ = process_1.await;
    let (_process_2, mut opened) = process(listener(address).await).await;
    let line = next(&mut opened).await;
    let waits = submit(&submitter);
    while submitter.load().in_flight == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(lines);
    let ended = async {
        while !line.has_ended.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, ended).await.expect("the owners hear that the line has ended");
    waits.abort();
}

/// API-5: without the secret no line is opened; a process of a version without lines is asked seldom, and others are
/// heard all the same.
#[tokio::test(flavor = "multi_thread")]
async fn lines_need_the_secret_and_one_that_cannot_be_had_hinders_no_other() {
    let log = MemoryLog::new(1);
    let submitter = Submitter::start(Arc::new(log.clone()), instance_id("test"), Config::default()).unwrap();
    let asked = Arc::new(Mutex::new(0));
    let (old, counted) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), Arc::clone(&asked));
    let old_address = old.local_addr().unwrap();
    let without = axum::Router::new().fallback(move || {
        *counted.lock().unwrap() += 1;
        async { axum::http::StatusCode::NOT_FOUND }
    });
    let limits = tidemill_serving::Config::default().for_own_roles();
    tokio::spawn(tidemill_serving::serve(old, without, limits, std::future::pending()));
    let new = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = new.local_addr().unwrap();
    let (_process, mut opened) = process(new).await;
    let both = at(&[old_address, address]);
    let runtime = Handle::current();
    let wrong = ReplyLines::keep(&runtime, submitter.clone(), Arc::clone(&both), "wrong", None).unwrap();
    while *asked.lock().unwrap() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(wrong);
    let _lines = ReplyLines::keep(&runtime, submitter.clone(), both, SECRET, None).unwrap();
    next(&mut opened).await;
    assert!(opened.try_recv().is_err(), "only who knows the secret has one");
}
