//! The conformance suite of hints in Redis, each test on a server of its own that it starts, and what may become of
//! such a server: restarted from an older copy, stopped, killed, one that drops keys.

use std::time::{Duration, Instant};

use super::conformance::{Asker, Bench, ByHand, place, prepared};
use super::server::Server;
use tidemill_store::hints::{Hints, Life, Mark, RedisHints};

const MINUTE: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(60);

struct Redis {
    hints: RedisHints,
    server: Server,
}

impl Redis {
    fn on(server: Server) -> Self {
        let hints = RedisHints::open(&server.url(), None, "log-1").unwrap();
        Self { hints, server }
    }

    fn asker(&self) -> Asker<'_> {
        Asker::new(&self.hints)
    }

    /// Until it answers again.
    fn recovers(&self) {
        let begun_at = Instant::now();
        while self.asker().try_look(&place("ann")).is_err() || self.hints.clock_ms().is_err() {
            assert!(begun_at.elapsed() < PATIENCE, "it does not answer again");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Bench for Redis {
    fn new() -> Self {
        Self::on(Server::start(&[]))
    }

    fn hints(&self) -> &dyn Hints {
        &self.hints
    }

    fn flush(&self) {
        self.server.ask("FLUSHALL");
    }
}

super::conformance::suite!(Redis);

/// PUL-8: a server that comes back from an older copy has lost its last marks, and the keeper notices at its next
/// step, although everything that the copy has is in order.
#[test]
fn marks_lost_with_an_older_copy_are_noticed_before_a_hint_counts_again() {
    let mut bench = Redis::new();
    let mut keeper = prepared(&bench.hints, &["ann"]);
    assert!(keeper.turn(&bench.hints, &[], Duration::from_millis(750)));
    bench.server.ask("SAVE");
    assert!(keeper.turn(&bench.hints, &[(Mark::Group { shard: 17 }, 11)], Duration::from_millis(750)));
    assert!(!bench.asker().counts(&place("ann")));
    bench.server.kill();
    bench.server.again();
    bench.recovers();
    let look = bench.asker().look(&place("ann"));
    assert!(look.hint.is_some() && look.group_mark == Some(9), "the copy is the older one: {look:?}");
    bench.asker().until(&place("ann"), |look| look.life.is_none());
    assert!(!keeper.turn(&bench.hints, &[], MINUTE));
    assert!(!bench.asker().counts(&place("ann")));
    let mut again = ByHand::begin(&bench.hints);
    assert!(again.turn(&bench.hints, &[], MINUTE));
    assert!(!bench.asker().counts(&place("ann")), "the hint is of the life before");
}

/// PUL-6: a server that does not answer costs those who look a tenth of a second, once in a second.
#[test]
fn server_that_hangs_is_left_alone_for_a_moment() {
    let bench = Redis::new();
    prepared(&bench.hints, &["ann"]);
    bench.server.signal("STOP");
    let asker = bench.asker();
    let begun_at = Instant::now();
    assert!(asker.try_look(&place("ann")).unwrap_err().is_outage());
    let first = begun_at.elapsed();
    assert!(first >= Duration::from_millis(90), "{first:?}");
    let begun_at = Instant::now();
    for _ in 0..1_000 {
        assert!(asker.try_look(&place("ann")).is_err());
    }
    // Asked each time, it would take 100 s.
    assert!(
        begun_at.elapsed() < Duration::from_secs(40),
        "it is asked all the same: {:?}",
        begun_at.elapsed()
    );
    bench.server.signal("CONT");
    bench.recovers();
    assert!(asker.counts(&place("ann")));
}

#[test]
fn server_that_was_killed_is_used_again_when_it_is_back() {
    let mut bench = Redis::new();
    let mut keeper = prepared(&bench.hints, &["ann"]);
    bench.server.kill();
    assert!(bench.asker().try_look(&place("ann")).is_err());
    assert!(bench.hints.clock_ms().is_err());
    bench.server.again();
    bench.recovers();
    assert!(!keeper.turn(&bench.hints, &[], MINUTE), "it came back empty");
    let mut again = ByHand::begin(&bench.hints);
    assert!(again.turn(&bench.hints, &[], MINUTE));
    assert_eq!(bench.asker().look(&place("ann")).life, Some(again.life));
}

/// One that drops single keys could drop a mark and keep the hint.
#[test]
fn server_that_may_drop_keys_is_refused() {
    let dropping = ["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"];
    let bench = Redis::on(Server::start(&dropping));
    let error = bench.hints.begin(3, &Life::draw()).unwrap_err();
    let told = format!("{:?}", std::error::Error::source(&error).unwrap());
    assert!(told.contains("allkeys-lru") && told.contains("noeviction"), "{told}");
    let bounded = Redis::on(Server::start(&["--maxmemory", "64mb", "--maxmemory-policy", "noeviction"]));
    assert!(bounded.hints.begin(3, &Life::draw()).unwrap());
}

/// The server that all share answers like those that the tests start: `TIDEMILL_TEST_REDIS` names it.
#[test]
fn shared_server_serves_two_logs_side_by_side() {
    let url = std::env::var("TIDEMILL_TEST_REDIS").expect(
        "TIDEMILL_TEST_REDIS names a server: run `deploy/dev/services start redis`, \
         then `eval \"$(deploy/dev/services env)\"`",
    );
    let open = || RedisHints::open(&url, None, Life::draw().as_str()).unwrap();
    let (first, second) = (open(), open());
    prepared(&first, &["ann"]);
    prepared(&second, &["bob"]);
    assert!(Asker::new(&first).counts(&place("ann")) && !Asker::new(&second).counts(&place("ann")));
}

#[test]
fn address_that_is_none_is_refused_without_its_password() {
    let error = RedisHints::open("redis://me:secret@", None, "log-1")
        .err()
        .or_else(|| RedisHints::open("reddis://me:secret@host", None, "log-1").err());
    let error = error.unwrap();
    assert!(!error.to_string().contains("secret"), "{error}");
}
