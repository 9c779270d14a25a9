//! LOG-1: what attempts print, as a store of logs asks a whole worker for it. The test is the store.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tidemill_executor::Config;
use tidemill_model::{
    AttemptResult, InstanceId, Registration, ShipFrame, ShipFrames, ShipFrom, ShipRequest, Shipped, Token,
    WorkMessage,
};

use crate::executor::{Executor, KEY, Owner, config, log_of, spec};
use crate::shim::until;

const TOKEN: Token = Token(4097);

/// Status line and body.
fn post(address: &str, key: &str, body: &[u8]) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST /output HTTP/1.0\r\nAuthorization: Bearer {key}\r\nContent-Length: {length}\r\n\r\n"
    )
    .unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|piece| piece == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head.lines().next().unwrap().to_owned(), answer[end + 4..].to_vec())
}

/// What a store has of an attempt.
#[derive(Default)]
struct Kept {
    streams: [Vec<u8>; 3],
    times: [Vec<(u64, i64)>; 3],
    ended: Option<[u64; 3]>,
}

impl Kept {
    fn text(&self, stream: usize) -> &str {
        std::str::from_utf8(&self.streams[stream]).unwrap()
    }
}

struct Store {
    address: String,
    request: ShipRequest,
    kept: BTreeMap<Token, Kept>,
}

impl Store {
    fn of(worker: &Registration) -> Self {
        let store = InstanceId::new("store-1".to_owned());
        let (from, done) = (Vec::new(), Vec::new());
        let request = ShipRequest { store, turn: 0, from, done, wait_ms: 0, room_bytes: 1 << 20 };
        Self { address: worker.address.clone(), request, kept: BTreeMap::new() }
    }

    fn ask(&self) -> (String, Vec<u8>) {
        post(&self.address, KEY, &serde_json::to_vec(&self.request).unwrap())
    }

    /// One turn. What is known is asked for from the first byte that is missing.
    fn turn(&mut self) -> Vec<ShipFrame> {
        let (status, body) = self.ask();
        assert!(status.contains("200"), "{status}: {}", String::from_utf8_lossy(&body));
        (self.request.from, self.request.done) = (Vec::new(), Vec::new());
        self.request.turn += 1;
        let (mut frames, mut all) = (ShipFrames::default(), Vec::new());
        frames.extend(&body);
        while let Some(frame) = frames.next_frame().unwrap() {
            all.push(frame);
        }
        frames.end().unwrap();
        for ShipFrame { token, shipped } in &all {
            let kept = self.kept.entry(*token).or_default();
            match shipped {
                Shipped::Begun | Shipped::Gone => {}
                Shipped::Known => {
                    let offsets = kept.streams.each_ref().map(|of| of.len() as u64);
                    self.request.from.push(ShipFrom { token: *token, offsets });
                }
                Shipped::Piece { stream, offset, times, bytes } => {
                    let of = &mut kept.streams[stream.index()];
                    assert_eq!(*offset, of.len() as u64);
                    assert_eq!(times.first().map(|(first, _)| first), Some(offset));
                    of.extend(bytes);
                    kept.times[stream.index()].extend(times);
                }
                Shipped::Ended { bytes } => kept.ended = Some(*bytes),
            }
        }
        all
    }

    fn until<T>(&mut self, what: &str, mut look: impl FnMut(&BTreeMap<Token, Kept>) -> Option<T>) -> T {
        until(what, || {
            self.turn();
            look(&self.kept)
        })
    }

    fn until_ended(&mut self, token: Token) -> [u64; 3] {
        self.until("the end", |kept| kept.get(&token)?.ended)
    }
}

fn begun(dir: &Path, keep_jobs_on_stop: bool) -> (Owner, Executor, Registration) {
    let mut owner = Owner::new();
    let executor = Executor::start(&owner, Config { keep_jobs_on_stop, ..config(dir) });
    let me = owner.hear_registration();
    owner.welcome(&me, Vec::new());
    (owner, executor, me)
}

/// EXE-6, LOG-1, LOG-2: what a job prints is shipped while it runs, with the times at which it came, and its end once that is on record. A
/// store that says that it has all of it makes room, and nothing else that it says does; what has left the spool is still read.
#[test]
fn job_is_shipped_while_it_runs_and_leaves_the_spool_when_a_store_has_it() {
    let dir = TempDir::new().unwrap();
    let (mut owner, executor, me) = begun(dir.path(), false);
    let mut store = Store::of(&me);
    assert_eq!(store.turn(), []);
    let begin = jiff::Timestamp::now().as_millisecond();
    owner.grant(
        &me,
        &spec(TOKEN, "shell", "mkfifo go; echo one; read x < go; echo two; echo three >&2; exit 3"),
    );
    owner.hear_started(TOKEN);
    store.request.wait_ms = 5_000;
    let first = until("the attempt", || Some(store.turn()).filter(|frames| !frames.is_empty()));
    assert_eq!(first[0], ShipFrame::new(TOKEN, Shipped::Begun));
    store.until("the first line", |kept| (kept[&TOKEN].text(0) == "one\n").then_some(()));
    // A request that waits is answered soon after there is something.
    let asks = thread::spawn(move || {
        let since = Instant::now();
        store.turn();
        (since.elapsed(), store)
    });
    thread::sleep(Duration::from_millis(400));
    fs::write(dir.path().join("attempts/4097/work/go"), "\n").unwrap();
    let (took, mut store) = asks.join().unwrap();
    assert!(took > Duration::from_millis(350) && took < Duration::from_secs(4), "{took:?}");
    store.request.wait_ms = 0;
    let (outcome, _) = owner.hear_finished(TOKEN);
    assert_eq!(outcome.exit_code, Some(3));
    store.until("all lines", |kept| {
        (kept[&TOKEN].text(0) == "one\ntwo\n" && kept[&TOKEN].text(1) == "three\n").then_some(())
    });
    let times: Vec<(u64, i64)> = store.kept[&TOKEN].times[0].clone();
    assert_eq!(times.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), [0, 4]);
    assert!(times[0].1 >= begin && times[1].1 >= times[0].1 + 300, "{begin} {times:?}");
    assert_eq!(store.kept[&TOKEN].ended, None, "its end is not on record");
    // It has not ended on record, and the other is not known.
    store.request.done = vec![TOKEN, Token(9)];
    store.turn();
    assert!(dir.path().join("attempts/4097").is_dir());
    owner.say(&me, &WorkMessage::Recorded { token: TOKEN });
    assert_eq!(store.until_ended(TOKEN), [8, 6, 0]);
    assert!(dir.path().join("ended/4097").is_dir());
    store.request.done = vec![TOKEN];
    assert_eq!(store.turn(), []);
    assert!(dir.path().join("shipped/4097").is_dir() && !dir.path().join("ended/4097").exists());
    assert_eq!(log_of(&me, TOKEN, "")["content"], "one\ntwo\n");
    // What a lost answer makes it say again changes nothing.
    (store.request.turn, store.request.done) = (0, vec![TOKEN]);
    assert_eq!(store.turn(), []);
    assert!(!dir.path().join("shipped/4097/worker").exists(), "its end is an ordinary one");
    executor.stop();
    executor.join();
}

/// LOG-1, LOG-2: a worker that starts anew tells again of what no store has, of what runs and of what has ended, and goes on where the
/// store says; what it says of its attempts is a stream of theirs.
#[test]
fn worker_that_starts_anew_tells_of_what_no_store_has() {
    let dir = TempDir::new().unwrap();
    let (mut owner, executor, me) = begun(dir.path(), true);
    let [runs, ended, done] = [Token(4097), Token(4098), Token(4099)];
    for token in [ended, done] {
        owner.grant(&me, &spec(token, "shell", "echo $TIDEMILL_TOKEN"));
        owner.hear_started(token);
        owner.hear_finished(token);
        owner.say(&me, &WorkMessage::Recorded { token });
    }
    let mut store = Store::of(&me);
    store.until_ended(ended);
    store.until_ended(done);
    store.request.done = vec![done];
    owner.grant(&me, &spec(runs, "shell", "mkfifo go; echo one; read x < go; echo two; exec sleep 1000"));
    owner.hear_started(runs);
    store.until("the first line", |kept| (kept.get(&runs)?.text(0) == "one\n").then_some(()));
    executor.stop();
    executor.join();

    fs::write(dir.path().join("attempts/4097/work/go"), "\n").unwrap();
    let executor = Executor::start(&owner, Config { keep_jobs_on_stop: true, ..config(dir.path()) });
    let again = owner.hear_registration();
    owner.welcome(&again, vec![runs]);
    owner.hear_started(runs);
    store.address = again.address.clone();
    let mut told = store.turn();
    told.sort_by_key(|frame| frame.token);
    assert_eq!(told, [runs, ended].map(|token| ShipFrame::new(token, Shipped::Known)));
    store.until("the second line", |kept| (kept[&runs].text(0) == "one\ntwo\n").then_some(()));
    store.until("that it was taken over", |kept| {
        kept[&runs].text(2).contains("has taken it over").then_some(())
    });
    owner.say(&again, &WorkMessage::Kill { token: runs, grace_ms: 5_000 });
    owner.say(&again, &WorkMessage::Kill { token: runs, grace_ms: 5_000 });
    let (outcome, _) = owner.hear_finished(runs);
    assert_eq!(outcome.result, AttemptResult::Killed);
    owner.say(&again, &WorkMessage::Recorded { token: runs });
    let bytes = store.until_ended(runs);
    let mut said: Vec<&str> = store.kept[&runs].text(2).lines().map(|line| &line[25..]).collect();
    // The last two may be written by two threads at once.
    said.sort_unstable();
    let expected = [
        "a kill was ordered (asked): it has 5000 ms to end by itself",
        "it was ended by signal 15 (SIGTERM): killed on request",
        "the worker has started anew, and has taken it over",
    ];
    assert_eq!(said, expected);
    assert_eq!(bytes[2], store.kept[&runs].streams[2].len() as u64);
    assert_eq!(store.kept[&runs].times[2].len(), 3, "each line has its time");
    // The worker itself shows the same.
    let shown = log_of(&again, runs, "?type=3");
    assert_eq!(shown["content"], store.kept[&runs].text(2));
    assert_eq!(shown["is_end"], true);
    executor.stop();
    executor.join();
}

/// LOG-1: what a job puts in place of its output is not followed: neither a FIFO, which would be waited for, nor a link. Its other
/// streams are shipped, and its end.
#[test]
fn what_is_put_in_place_of_an_output_is_not_followed() {
    let dir = TempDir::new().unwrap();
    let (mut owner, executor, me) = begun(dir.path(), false);
    let secret = dir.path().join("secret");
    fs::write(&secret, "of the worker").unwrap();
    let text = format!(
        "cd ..; rm stdout; mkfifo stdout worker; ln -s {} stderr; ln -s /proc/self/maps times; touch work/is; exec sleep 1000",
        secret.display()
    );
    owner.grant(&me, &spec(TOKEN, "shell", &text));
    owner.hear_started(TOKEN);
    until("the files", || dir.path().join("attempts/4097/work/is").exists().then_some(()));
    let mut store = Store::of(&me);
    let since = Instant::now();
    assert_eq!(store.turn(), [ShipFrame::new(TOKEN, Shipped::Begun)]);
    assert_eq!(store.turn(), []);
    owner.say(&me, &WorkMessage::Kill { token: TOKEN, grace_ms: 5_000 });
    owner.hear_finished(TOKEN);
    owner.say(&me, &WorkMessage::Recorded { token: TOKEN });
    assert_eq!(store.until_ended(TOKEN), [0; 3]);
    assert!(since.elapsed() < Duration::from_secs(10));
    store.request.done = vec![TOKEN];
    assert_eq!(store.turn(), []);
    assert!(dir.path().join("shipped/4097").is_dir());
    // A directory that a job has put elsewhere is gone, and its link is no other one.
    let moved = Token(4098);
    let text = "cd ..; mv $PWD $PWD.moved; ln -s $PWD.moved ../4098; touch ../4098.moved/is; exec sleep 1000";
    owner.grant(&me, &spec(moved, "shell", &format!("cd $PWD; {text}")));
    owner.hear_started(moved);
    until("the link", || fs::read_link(dir.path().join("attempts/4098")).ok());
    assert!(store.turn().iter().all(|frame| frame.token != moved || frame.shipped == Shipped::Begun));
    until("that nothing is shipped", || store.turn().is_empty().then_some(()));
    assert!(store.kept.get(&moved).is_none_or(|kept| kept.streams[0].is_empty()));
    owner.say(&me, &WorkMessage::Kill { token: moved, grace_ms: 100 });
    owner.hear_finished(moved);
    executor.stop();
    owner.say(&me, &WorkMessage::Recorded { token: moved });
    executor.join();
}

/// LOG-1: who has no right is refused, and so is what is no request; a later request ends one that waits.
#[test]
fn wrong_and_overtaken_requests_are_refused() {
    let dir = TempDir::new().unwrap();
    let (_owner, executor, me) = begun(dir.path(), false);
    let mut store = Store::of(&me);
    let good = serde_json::to_vec(&store.request).unwrap();
    let changed = |name: &str, value: serde_json::Value| {
        let mut request = serde_json::to_value(&store.request).unwrap();
        request[name] = value;
        serde_json::to_vec(&request).unwrap()
    };
    for (key, body, status, detail) in [
        ("wrong", good.clone(), "401", "logs key"),
        (KEY, b"{".to_vec(), "400", "no JSON"),
        (KEY, changed("colour", 1.into()), "400", "colour"),
        (KEY, changed("wait_ms", 10_001.into()), "400", "wait_ms is 10001, but has to be 0 to 10000"),
        (KEY, vec![b' '; (4 << 20) + 1], "400", "longer than 4194304 bytes"),
    ] {
        let (got, body) = post(&me.address, key, &body);
        let body = String::from_utf8(body).unwrap();
        assert!(got.contains(status) && body.contains(detail) && body.contains("\"code\""), "{got} {body}");
    }
    store.turn();
    let waits = ShipRequest { wait_ms: 10_000, ..store.request.clone() };
    let (address, body) = (me.address.clone(), serde_json::to_vec(&waits).unwrap());
    let asks = thread::spawn(move || (post(&address, KEY, &body), Instant::now()));
    thread::sleep(Duration::from_secs(1));
    let since = Instant::now();
    store.turn();
    let ((status, body), at) = asks.join().unwrap();
    assert!(status.contains("409") && String::from_utf8_lossy(&body).contains("overtaken"), "{status}");
    assert!(at.duration_since(since) < Duration::from_secs(2));
    executor.stop();
    executor.join();
}
