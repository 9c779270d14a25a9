//! Dispatcher processes: the real owners, and the log as each of them sees it.

mod append;
mod owner;
mod read;
mod seat;

use jiff::SignedDuration;
use tidemill_dispatcher::{Config, Moment, Owner};
use tidemill_model::Level;

pub(crate) use self::append::Fate;
pub(crate) use self::owner::text_of;
use crate::{Rng, World};

/// One turn of ownership of one partition.
pub(crate) struct Seat {
    pub(crate) owner: Owner,
    pub(crate) turn: u64,
    journal_read: usize,
    pub(crate) commands_read: Option<usize>,
    journal_polled: bool,
    commands_polled: bool,
    effects_lost: bool,
    leaving_since: Option<u64>,
    wake_at: u64,
}

#[derive(Default)]
pub(crate) struct Host {
    pub(crate) life: u64,
    pub(crate) up: bool,
    pub(crate) wall_offset: i64,
    boot_offset: u64,
    pub(crate) paused_until: u64,
    pub(crate) cut_until: u64,
    pub(crate) slow_until: u64,
    pub(crate) seats: Vec<Option<Seat>>,
    pub(crate) suggested: Vec<bool>,
    pub(crate) fates: Vec<Fate>,
    /// What ended lives left under way: up to which life, and what becomes of it.
    pub(crate) dead: Vec<(u64, Option<u64>)>,
    pub(crate) config: Config,
    /// How long a partition's journal was when its commands turned out to be lost.
    lost_at: Vec<Option<usize>>,
    turns: u64,
    /// No effect of its on a commands partition lands before this, so that they keep their order.
    floors: Vec<u64>,
}

impl Host {
    pub(crate) fn new(count: u32, rng: &mut Rng) -> Self {
        let config = Config {
            claim_after_ms: rng.range(500, 2_500),
            tick_ms: rng.range(250, 1_000),
            read_batch: rng.range(2, 500) as usize,
            checkpoint_after_commands: rng.range(20, 500),
            checkpoint_after_ms: rng.range(1_000, 10_000),
            // What registers and reads more raises it.
            reads: Level::FIRST,
            ..Config::default()
        };
        Self {
            life: 1,
            up: true,
            wall_offset: rng.range(0, 400) as i64 - 200,
            boot_offset: rng.range(1_000, 100_000_000),
            seats: (0..count).map(|_| None).collect(),
            suggested: vec![false; count as usize],
            config,
            lost_at: vec![None; count as usize],
            floors: vec![0; count as usize],
            ..Self::default()
        }
    }
}

impl World {
    pub(crate) fn moment(&self, host: usize) -> Moment {
        let host = &self.hosts[host];
        let wall = self.wall() + SignedDuration::from_millis(host.wall_offset);
        Moment { wall, boot_ms: self.now + host.boot_offset }
    }

    pub(crate) fn host_begins(&mut self, host: usize) {
        if self.hosts[host].up {
            return;
        }
        self.hosts[host].up = true;
        self.tell(|| format!("host {host} begins"));
        for partition in 0..self.plan.partitions {
            if self.hosts[host].suggested[partition as usize] {
                self.begin_seat(host, partition);
            }
        }
    }

    /// The process is gone; what it had under way lands, lands late or is lost.
    pub(crate) fn crash_host(&mut self, host: usize, late: Option<u64>) {
        let known = &mut self.hosts[host];
        if !known.up {
            return;
        }
        known.dead.push((known.life, late));
        known.life += 1;
        known.up = false;
        known.paused_until = 0;
        known.fates.clear();
        known.seats.iter_mut().for_each(|seat| *seat = None);
    }
}
