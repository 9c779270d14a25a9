//! Clients that mean harm: what they do to every port that can be reached, one act after another, all of it drawn from
//! the seed. They are bounded: a few of them, so many sockets each, so many bytes on each socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::conduct::{Conduct, Watching};
use crate::fixture::Fixture;
use crate::rng::Rng;
use crate::role::Part;
use crate::socket::{Manner, drive};

/// Stands in everything that an intruder sends. Nothing in the journal may ever have it.
pub(crate) const MARK: &str = "intruder";
/// The application whose key they have: it may look, and nothing else.
pub(crate) const WATCHER: &str = "watcher";
pub(crate) const SECRET: &str = "a-secret-that-somebody-gave-away";
/// Streams that one key may have open at one interface, as the processes are told.
pub(crate) const STREAMS: usize = 8;
/// Bounds of connections, as the processes are told; shorter than their defaults, so that they are met often.
pub(crate) const HEADER_MS: u64 = 3_000;
pub(crate) const IDLE_MS: u64 = 8_000;
pub(crate) const WRITE_MS: u64 = 5_000;
/// Of one interface; three quarters of them for one address. A crowd is more than that.
pub(crate) const CONNECTIONS: usize = 256;
const CROWD: usize = 224;
/// As `api.read_timeout_ms` and the time of every answer are by themselves.
const ANSWER_MS: u64 = 10_000;

/// A port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// An interface.
    Interface,
    /// Where an owner is asked.
    Live,
    /// Where a worker shows its logs, and ships them.
    Output,
    /// Where a store shows logs.
    Store,
}

/// Where it is.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) role: String,
    pub(crate) address: String,
    pub(crate) door: Door,
}

/// Every port of the site.
pub(crate) fn targets(fixture: &Fixture) -> Vec<Target> {
    let target = |role: &crate::role::Role| {
        let door = match role.part {
            Part::Api => Door::Interface,
            Part::Dispatcher => Door::Live,
            Part::Executor => Door::Output,
            Part::Logs => Door::Store,
            Part::Projector | Part::Producers => return None,
        };
        Some(Target { role: role.name.clone(), address: role.address.clone(), door })
    };
    fixture.roles.iter().filter_map(target).collect()
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Act {
    /// Connects, and says nothing.
    Silence,
    /// More of the same than one address may have.
    Crowd,
    /// Half a head, and no more.
    HalfHead,
    /// A head byte by byte.
    SlowHead,
    /// A head that is larger than any.
    HugeHead,
    /// A body byte by byte.
    SlowBody,
    /// A body that says it is large, and one that does not say how large it is.
    HugeBody,
    /// A key that is none, or may not do this.
    WrongKey,
    /// No HTTP.
    Garbage,
    /// Says that nothing more comes, in the middle of a request or behind one.
    HalfClosed,
    /// Is gone in the middle of a request, by RST.
    Vanish,
    /// Stays after an answer.
    Linger,
    /// Asks for much, and takes nothing.
    Deaf,
    /// More event streams than a key may have.
    Streams,
}

impl Act {
    /// All of them.
    pub(crate) const ALL: [Self; 14] = [
        Self::Silence,
        Self::Crowd,
        Self::HalfHead,
        Self::SlowHead,
        Self::HugeHead,
        Self::SlowBody,
        Self::HugeBody,
        Self::WrongKey,
        Self::Garbage,
        Self::HalfClosed,
        Self::Vanish,
        Self::Linger,
        Self::Deaf,
        Self::Streams,
    ];

    /// Its name in reports.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Silence => "silence",
            Self::Crowd => "crowd",
            Self::HalfHead => "half-head",
            Self::SlowHead => "slow-head",
            Self::HugeHead => "huge-head",
            Self::SlowBody => "slow-body",
            Self::HugeBody => "huge-body",
            Self::WrongKey => "wrong-key",
            Self::Garbage => "garbage",
            Self::HalfClosed => "half-closed",
            Self::Vanish => "vanish",
            Self::Linger => "linger",
            Self::Deaf => "deaf",
            Self::Streams => "streams",
        }
    }

    /// Whether it can be done there. Silence between two requests has the bound of the tests at interfaces only: roles
    /// keep their connections to each other. Only interfaces have much to say to everybody.
    #[must_use]
    pub(crate) fn suits(self, door: Door) -> bool {
        door == Door::Interface || !matches!(self, Self::Linger | Self::Deaf | Self::Streams)
    }
}

/// The head of a write.
struct Post {
    head: String,
    /// Whether somebody has to look the key up.
    shows_key: bool,
    /// Whether the call says in its body that it refused, with status 200, as the job calls do whose form is given from
    /// outside (API-1, API-2). That nothing came of it, the journal shows: nothing there has [`MARK`].
    refused_with_200: bool,
}

/// One of them.
pub(crate) struct Intruder {
    targets: Vec<Target>,
    rng: Rng,
    conduct: Arc<Conduct>,
}

impl Intruder {
    /// The `number`-th of a seed.
    #[must_use]
    pub(crate) fn new(targets: &[Target], seed: u64, number: u64, conduct: &Arc<Conduct>) -> Self {
        let rng = Rng::new(seed, &format!("intruder {number}"));
        Self { targets: targets.to_vec(), rng, conduct: Arc::clone(conduct) }
    }

    /// Goes on until told to stop. Each act comes once, in any order, before one comes twice.
    pub(crate) fn run(mut self, is_over: &AtomicBool) {
        let mut hand = Vec::new();
        while !is_over.load(Ordering::SeqCst) {
            if hand.is_empty() {
                hand.extend(Act::ALL);
                self.rng.shuffle(&mut hand);
            }
            let Some(act) = hand.pop() else { break };
            let suited: Vec<_> = self.targets.iter().filter(|it| act.suits(it.door)).cloned().collect();
            let Some(target) = self.rng.pick(&suited).cloned() else { continue };
            let manner = self.manner(act, target.door);
            let needs_tables = target.door == Door::Interface && manner.shows_key;
            let watching = Watching { role: &target.role, act: act.name(), needs_tables };
            let ends = drive(&target.address, &manner, is_over);
            self.conduct.note(&watching, &manner, &ends);
            std::thread::sleep(Duration::from_millis(self.rng.range(20, 400)));
        }
    }

    /// How it is done at such a port.
    fn manner(&mut self, act: Act, door: Door) -> Manner {
        let few = usize::try_from(self.rng.range(1, 13)).unwrap_or(1);
        let head = format!("GET /none HTTP/1.1\r\nhost: {MARK}\r\n");
        let base = Manner { sockets: few, bound: Duration::from_millis(HEADER_MS), ..Manner::default() };
        match act {
            Act::Silence => base,
            Act::Crowd => Manner { sockets: if door == Door::Interface { CROWD } else { 40 }, ..base },
            Act::HalfHead => base.sending(format!("{head}x-{MARK}: ")),
            Act::SlowHead => base.sending(head + "x-slow: " + &"x".repeat(400)).slowly(20),
            Act::HugeHead => base.sending(format!("{head}x-{MARK}: {}\r\n\r\n", "x".repeat(96 << 10))),
            Act::Garbage => {
                let bytes = self.garbage();
                Manner { bytes, ..base }
            }
            Act::SlowBody => {
                let Post { head, shows_key, .. } = self.post(door, 100_000);
                let first = head.len();
                Manner { shows_key, ..base.answered().sending(head + "{" + &" ".repeat(400)).slowly(first) }
            }
            Act::HugeBody => self.huge_body(base, door),
            Act::WrongKey => {
                let body = format!("{{\"job_name\":\"{MARK}\",\"jobs\":[{{\"name\":\"{MARK}\"}}]}}");
                let Post { head, shows_key, refused_with_200 } = self.post(door, body.len());
                Manner { shows_key, may_succeed: refused_with_200, ..base.answered().sending(head + &body) }
            }
            Act::HalfClosed => {
                let Post { head, shows_key, refused_with_200 } = self.post(door, 2);
                let whole = self.rng.chance(50);
                let text = if whole { head + "{}" } else { head[..head.len() / 2].to_owned() };
                Manner {
                    shows_key,
                    half_closes: true,
                    may_succeed: whole && refused_with_200,
                    ..base.answered().sending(text)
                }
            }
            Act::Vanish => {
                let Post { head, .. } = self.post(door, 1_000);
                let most = head.len() as u64;
                let cut = usize::try_from(self.rng.range(1, most + 1)).unwrap_or(1);
                Manner { vanishes: true, ..base.sending(head[..cut].to_owned()) }
            }
            Act::Linger => Manner {
                bound: Duration::from_millis(ANSWER_MS + IDLE_MS),
                until_closed: true,
                ..base.sending(head + "\r\n")
            },
            Act::Deaf => deaf(base),
            Act::Streams => {
                let key = format!("authorization: Bearer {WATCHER}:{SECRET}\r\n");
                Manner {
                    sockets: STREAMS + 24,
                    may_succeed: true,
                    most_succeed: Some(STREAMS),
                    shows_key: true,
                    stays: Duration::from_millis(self.rng.range(500, 4_000)),
                    ..base
                        .answered()
                        .sending(format!("GET /api/events HTTP/1.1\r\nhost: {MARK}\r\n{key}\r\n"))
                }
            }
        }
    }

    fn huge_body(&mut self, base: Manner, door: Door) -> Manner {
        let many = "x".repeat(4 << 20);
        let base = Manner { sockets: base.sockets.min(4), ..base.answered() };
        if self.rng.chance(50) {
            let Post { head, shows_key, .. } = self.post(door, 1 << 30);
            return Manner { shows_key, ..base.sending(head + &many) };
        }
        let Post { head, shows_key, .. } = self.post(door, 0);
        let head = head.replace("content-length: 0", "transfer-encoding: chunked");
        let chunk = format!("10000\r\n{}\r\n", &many[..0x10000]);
        Manner { shows_key, ..base.sending(head + &chunk.repeat(64)) }
    }

    /// A write that nobody of them may do.
    fn post(&mut self, door: Door, length: usize) -> Post {
        let path = match door {
            Door::Live => "/live?shard=1",
            Door::Output if self.rng.chance(50) => "/output",
            Door::Output => "/logs/1/download",
            Door::Store => "/kept/1/bytes?type=1",
            Door::Interface => self
                .rng
                .pick(&[
                    "/api/job/submit",
                    "/api/jobs/apply",
                    "/api/keys",
                    "/api/groups",
                    "/api/pull",
                    "/api/worker/status",
                    "/api/attempts/1/code",
                    "/api/admin/rebuild",
                    "/api/batches/1/kill",
                ])
                .expect("there are some"),
        };
        let long = "k".repeat(8_000);
        let watcher = format!("authorization: Bearer {WATCHER}:{SECRET}\r\n");
        let keys = [
            String::new(),
            "authorization: Bearer admin:wrong\r\n".to_owned(),
            format!("authorization: Bearer {MARK}:wrong\r\n"),
            format!("authorization: Bearer {long}\r\n"),
            "authorization: Basic \u{ff}\r\n".to_owned(),
            "x-app-name: admin\r\nx-app-key: wrong\r\n".to_owned(),
            format!("authorization: Bearer {}\r\n", "0".repeat(64)),
            watcher,
        ];
        // A pull is what a looker may not, and neither is anything else here.
        let key = self.rng.pick(&keys).cloned().unwrap_or_default();
        let shows_key = !key.is_empty();
        let refused_with_200 =
            matches!(path, "/api/job/submit" | "/api/worker/status") && key.contains(WATCHER);
        let method = if matches!(path, "/logs/1/download" | "/kept/1/bytes?type=1") { "GET" } else { "POST" };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {MARK}\r\ncontent-type: application/json\r\n{key}\
             idempotency-key: {MARK}-{}\r\ncontent-length: {length}\r\n\r\n",
            self.rng.range(0, 1_000_000)
        );
        Post { head, shows_key, refused_with_200 }
    }

    /// Another protocol, or none.
    fn garbage(&mut self) -> Vec<u8> {
        let known: [&[u8]; 5] = [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\0\0\0\x10\0\x12\0\x03\0\0\0\x01",
            b"GET / HTTP/9.9\r\n\r\n",
            b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        ];
        if self.rng.chance(40) {
            return self.rng.pick(&known).map(|bytes| bytes.to_vec()).unwrap_or_default();
        }
        let length = self.rng.range(1, 2_048);
        (0..length).map(|_| u8::try_from(self.rng.range(0, 256)).unwrap_or(0)).collect()
    }
}

/// Many answers are asked for, and none is read.
fn deaf(base: Manner) -> Manner {
    let ask = format!("GET /api/openapi.json HTTP/1.1\r\nhost: {MARK}\r\n\r\n");
    let last = format!("GET /healthz HTTP/1.1\r\nhost: {MARK}\r\nconnection: close\r\n\r\n");
    Manner {
        sockets: base.sockets.min(4),
        bound: Duration::from_millis(ANSWER_MS),
        deaf_for: Duration::from_millis(WRITE_MS + 3_000),
        until_closed: true,
        may_succeed: true,
        ..base.sending(ask.repeat(64) + &last)
    }
}
