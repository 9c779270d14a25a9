//! All partitions that are suggested to this process, each on a thread of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use tidemill_log::{Log, Topic};
use tidemill_snapshots::Snapshots;

use crate::live::LiveHandle;
use crate::owner::Start;
use crate::owning::{Order, Owning};
use crate::snapshotter::{Snapshotter, Snapshotting};
use crate::{Config, Error};

/// How often the suggestion is asked for at least.
const SUGGESTION_PATIENCE: Duration = Duration::from_millis(200);

/// A running dispatcher. Stop it with [`Dispatcher::stop`]; dropped, it is only told to.
#[derive(Debug)]
pub struct Dispatcher {
    live: LiveHandle,
    failed: Arc<Mutex<BTreeSet<u32>>>,
    too_new: TooNew,
    stop: Sender<()>,
    thread: JoinHandle<Result<(), Error>>,
    snapshotter: Option<Snapshotter>,
}

/// Why the process is too old for the log, once that is known.
type TooNew = Arc<OnceLock<String>>;

struct Partition {
    orders: Sender<Order>,
    thread: JoinHandle<Result<(), Error>>,
}

/// Starts a dispatcher. `incarnation` names this life of this process in its claims.
///
/// # Errors
/// The log does not take the process as a member, or a thread cannot be started.
pub fn run(config: Config, log: Arc<dyn Log>, incarnation: &str) -> Result<Dispatcher, Error> {
    run_with_snapshots(config, log, incarnation, None)
}

/// The same, which begins with snapshots and takes them.
///
/// # Errors
/// The log does not take the process as a member, or a thread cannot be started.
pub fn run_with_snapshots(
    config: Config,
    log: Arc<dyn Log>,
    incarnation: &str,
    snapshotting: Option<Snapshotting>,
) -> Result<Dispatcher, Error> {
    let (stop, stopped) = bounded(1);
    let live = LiveHandle::default();
    let failed = Arc::<Mutex<BTreeSet<u32>>>::default();
    let too_new = TooNew::default();
    let config = Config { keeps_acknowledged: log.keeps_acknowledged(), ..config };
    let reads = config.reads;
    let coordinator = Coordinator {
        config,
        log: Arc::clone(&log),
        incarnation: incarnation.to_owned(),
        live: live.clone(),
        snapshots: snapshotting.as_ref().map(|with| with.snapshots.clone()),
        partitions: BTreeMap::new(),
        failed: Arc::clone(&failed),
        too_new: Arc::clone(&too_new),
    };
    let thread = thread::Builder::new()
        .name("dispatcher".to_owned())
        .spawn(move || coordinator.run(&stopped))
        .map_err(Error::Thread)?;
    let snapshotter =
        snapshotting.map(|with| Snapshotter::start(with, log, live.clone(), reads)).transpose()?;
    Ok(Dispatcher { live, failed, too_new, stop, thread, snapshotter })
}

impl Dispatcher {
    /// Questions to the owners of this process.
    pub fn live(&self) -> LiveHandle {
        self.live.clone()
    }

    /// Whether it leaves the partition alone from now on, for an error that it has told.
    pub fn has_given_up(&self, partition: u32) -> bool {
        lock(&self.failed).contains(&partition)
    }

    /// Why it has ended by itself, where the log goes on with a level that it does not read.
    pub fn too_new(&self) -> Option<&str> {
        self.too_new.get().map(String::as_str)
    }

    /// Whether it has ended by itself, which only an error makes it do.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Hands every partition over and ends. What is under way is finished first.
    ///
    /// # Errors
    /// What ended the dispatcher before.
    pub fn stop(self) -> Result<(), Error> {
        drop(self.stop);
        if let Some(snapshotter) = self.snapshotter {
            snapshotter.stop();
        }
        self.thread.join().unwrap_or_else(|_| Err(Error::stopped(0, "the dispatcher's thread panicked")))
    }
}

struct Coordinator {
    config: Config,
    log: Arc<dyn Log>,
    incarnation: String,
    live: LiveHandle,
    snapshots: Option<Snapshots>,
    partitions: BTreeMap<u32, Partition>,
    failed: Arc<Mutex<BTreeSet<u32>>>,
    too_new: TooNew,
}

impl Coordinator {
    fn run(mut self, stopped: &Receiver<()>) -> Result<(), Error> {
        let mut membership = self.log.membership(&self.incarnation).map_err(Error::Membership)?;
        let mut ended = Ok(());
        while matches!(stopped.try_recv(), Err(crossbeam_channel::TryRecvError::Empty)) {
            let suggested = membership.suggested(SUGGESTION_PATIENCE).map_err(Error::Membership)?;
            self.leave(|partition| !suggested.contains(&partition));
            ended = self.reap();
            if ended.is_err() {
                break;
            }
            for partition in suggested {
                if !self.partitions.contains_key(&partition) && !lock(&self.failed).contains(&partition) {
                    let owned = self.own(partition)?;
                    self.partitions.insert(partition, owned);
                }
            }
            if stopped.recv_timeout(Duration::from_millis(50)).is_err_and(|e| e.is_disconnected()) {
                break;
            }
        }
        self.leave(|_| true);
        let partitions = std::mem::take(&mut self.partitions);
        partitions.into_values().map(end).fold(ended, Result::and)
    }

    fn own(&self, partition: u32) -> Result<Partition, Error> {
        let (orders, ordered) = bounded(1);
        let owning = Owning {
            start: Start {
                partition,
                count: self.log.partitions(Topic::Journal),
                incarnation: self.incarnation.clone(),
                config: self.config.clone(),
            },
            log: Arc::clone(&self.log),
            live: self.live.clone(),
            snapshots: self.snapshots.clone(),
            orders: ordered,
        };
        let name = format!("partition-{partition}");
        let thread = thread::Builder::new().name(name).spawn(|| owning.run()).map_err(Error::Thread)?;
        Ok(Partition { orders, thread })
    }

    fn leave(&mut self, which: impl Fn(u32) -> bool) {
        for (_, partition) in self.partitions.iter().filter(|(number, _)| which(**number)) {
            // Told before, or just ended.
            let _ = partition.orders.try_send(Order::Leave);
        }
    }

    /// Forgets the partitions whose threads have ended. One that failed is left alone from now on (rule 12);
    /// the others go on.
    ///
    /// # Errors
    /// The clock cannot be trusted (rule 10), or the log goes on with a level that is not read here (rule 13). Both concern
    /// all partitions: this process must leave the group, or they would be suggested to it for ever and nobody else would
    /// take them over.
    fn reap(&mut self) -> Result<(), Error> {
        let ended: Vec<u32> = self
            .partitions
            .iter()
            .filter(|(_, partition)| partition.thread.is_finished())
            .map(|(number, _)| *number)
            .collect();
        for number in ended {
            let Some(partition) = self.partitions.remove(&number) else { continue };
            match end(partition) {
                Ok(()) => {}
                Err(error @ Error::Clock { .. }) => {
                    tracing::error!(partition = number, %error, "this process leaves all partitions to others");
                    return Err(error);
                }
                Err(error @ Error::TooNew { .. }) => {
                    let _ = self.too_new.set(error.to_string());
                    return Err(error);
                }
                Err(error) => {
                    tracing::error!(partition = number, %error, "this process leaves the partition alone from now on");
                    lock(&self.failed).insert(number);
                }
            }
        }
        Ok(())
    }
}

fn lock(failed: &Mutex<BTreeSet<u32>>) -> MutexGuard<'_, BTreeSet<u32>> {
    failed.lock().unwrap_or_else(PoisonError::into_inner)
}

fn end(partition: Partition) -> Result<(), Error> {
    let Partition { orders, thread } = partition;
    // However often it begins anew, it hears that it is to leave.
    drop(orders);
    thread.join().unwrap_or_else(|_| Err(Error::stopped(0, "a partition's thread panicked")))
}
