//! Every role in one process, on the embedded log and SQLite tables; nothing to install or configure.
//!
//! ```text
//!  start   log ─► dispatcher ─► first start ─► projector ─► sinks ─► logs ─► interface ─► producers ─► executor
//!  stop    interface ─► executor ─► logs ─► producers ─► dispatcher ─► projector ─► sinks ─► log
//! ```
//! The interface goes first, so that nothing new comes; the executor before the dispatcher, so that what
//! ends is still decided; the projector last, so that the tables have seen it.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use tidemill_api::{Deps, JournalFeed, JournalPast, LogCommands};
use tidemill_cli::{Done, Exit, Failure};
use tidemill_cluster::{InProcessLive, Submitter, instance_id};
use tidemill_directory::Known;
use tidemill_dispatcher::{Dispatcher, OpenLine};
use tidemill_journal::{Progress, Shutdown};
use tidemill_log::{Log, Topic};
use tidemill_model::Reply;
use tidemill_seal::OwnersSecret;
use tidemill_serving::tls::Roles;
use tidemill_store::Tables;
use tidemill_store::hints::Hints;

use super::archive::{self, Archiving};
use super::catalogue::Following;
use super::in_process::{LocalCluster, Probes, owners};
use super::interface::{Interface, check_address};
use super::operator::Operator;
use super::producers::{self, Producers};
use super::registration::{Registration, too_old};
use super::storage::Storage;
use super::tls::Tls;
use super::{executor, first_start, hints, log, logs, sinks, snapshots, tables};
use crate::address::Published;
use crate::config::Settings;

/// The tables have caught up within this; they lack only what was written in the last moment before a stop.
const TABLES_PATIENCE: Duration = Duration::from_secs(120);
/// The catalogue has an owner within this, or there is something that the first start tells.
const OWNED_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks for it.
const OWNED_LOOK: Duration = Duration::from_millis(5);
/// Between two looks whether a role has ended by itself.
const LOOK: Duration = Duration::from_millis(200);

/// A running standalone.
pub(crate) struct Standalone {
    interface: Interface,
    following: Following,
    logs: tidemill_logs::Running,
    executor: Role<Sender<()>>,
    producers: Producers,
    dispatcher: Dispatcher,
    projector: Role<Shutdown>,
    keeper: Role<Shutdown>,
    sinks: Role<Shutdown>,
    archiver: Option<Role<Shutdown>>,
    submitter: Submitter,
    /// By which the submitter has its replies.
    line: Option<OpenLine>,
    registration: Registration,
    operator: Operator,
    published: Published,
    url: String,
}

/// A role on a thread of its own, and what tells it to stop.
struct Role<S> {
    stop: S,
    thread: JoinHandle<Done>,
}

impl Standalone {
    /// Starts every role; gives it back when all of them work.
    #[expect(clippy::too_many_lines, reason = "the roles in the order in which they start")]
    pub(crate) fn start(settings: &Settings, stop: &Receiver<()>) -> Done<Self> {
        let tls = Tls::open(settings)?;
        check_address(&settings.api)?;
        let passing_on = sinks::openers(&settings.sinks)?;
        let keys = settings.keys()?;
        let embedded = log::embedded(settings)?;
        let archiving = Archiving::default();
        let log: Arc<dyn Log> = Arc::clone(&embedded) as Arc<dyn Log>;
        let tables = tables::open(settings)?;
        let incarnation = instance_id("standalone");
        let mut owning = settings.dispatcher.clone();
        owning.reads = settings.process.level();
        // The interface, the owners and the prober of one process know each other by one key.
        let internal_key = settings.api_config(&keys)?.internal_key;
        owning.reports = Some(OwnersSecret::of(&internal_key));
        let kept = snapshots::of(settings, &*log)?;
        let taken = snapshots::taken(settings, kept.as_ref())?;
        let (name, own) = (incarnation.as_str(), Arc::clone(&log));
        let dispatcher = tidemill_dispatcher::run_with_snapshots(owning, own, name, taken)
            .map_err(|error| Failure::caused("cannot start the dispatcher", &error))?;
        let submitter = Submitter::start(Arc::clone(&log), incarnation, settings.api.submit.clone())
            .map_err(|error| Failure::caused("cannot start to submit commands", &error))?;
        let hears = submitter.clone();
        let take = move |reply: &Reply| {
            hears.replied(reply.clone());
            true
        };
        let line = dispatcher.live().open_line(submitter.instance().clone(), 1, Arc::new(take));
        let name = executor::group_name(settings)?;
        let goes_on = || match stop.try_recv() {
            Ok(()) => Err(Failure::new(Exit::Failure, "stopped before it was up")),
            Err(_) if let Some(reason) = dispatcher.too_new() => Err(too_old(reason)),
            Err(_) if dispatcher.has_given_up(0) => Err(Failure::new(
                Exit::Failure,
                "the catalogue cannot be owned, so nothing can be decided; see the error above",
            )),
            Err(_) => Ok(()),
        };
        until_owned(&dispatcher, &goes_on)?;
        let id = submitter.instance().clone();
        let following = Following::start(&log)?;
        let ready = first_start::run((&log, kept.as_ref()), &submitter, &keys, &name, &goes_on)?;
        let registration = Registration::start_as(settings, &log, &["standalone"], id)?;
        let progress = Progress::new();
        let projector = start_role(|stop| project(settings, &log, &tables, progress.clone(), stop))?;
        let (partition, offset) = ready.position;
        let deadline = Instant::now() + TABLES_PATIENCE;
        while !progress.wait_until(partition, offset, LOOK) {
            goes_on()?;
            if projector.thread.is_finished() {
                return Err(Failure::new(
                    Exit::Failure,
                    "the read tables cannot be kept; see the error above",
                ));
            }
            // Keys are read from the journal, whatever needs no table works, and reads are told how far it is.
            if let Err(building @ tidemill_store::Error::Building { .. }) = tables.in_use() {
                tracing::warn!("{building}; reads answer once they have caught up");
                break;
            }
            if Instant::now() < deadline {
                continue;
            }
            return Err(Failure::new(Exit::Failure, "the read tables do not reach the end of the journal")
                .hint(tables::why_behind(settings)));
        }
        let hints = hints::here();
        let keeper = start_role(|stop| hints::keep(&log, Arc::clone(&hints), stop))?;
        let passed_on = tidemill_sinks::Progress::new();
        let sinks = start_role(|stop| sinks::start(passing_on, &log, &tables, &passed_on, stop))?;
        let operator = Operator::new(settings, &log, &tables, &hints);
        let cluster = LocalCluster {
            log: Arc::clone(&log),
            tables: Arc::clone(&tables),
            live: dispatcher.live(),
            progress: progress.clone(),
            probes: Probes::default(),
            sinks: passed_on,
            storage: Storage::new(Arc::clone(&embedded), archiving.clone(), kept.clone()),
        };
        let archiver = archive::of_standalone(settings, &embedded, &archiving).map(start_role).transpose()?;
        let past = JournalPast::new(Arc::clone(&log), kept, JournalPast::PATIENCE);
        let deps = deps(
            &cluster,
            (past, following.known()),
            &tables,
            (&submitter, &operator),
            &hints,
            tls.roles.clone(),
        );
        let instance = submitter.instance().clone();
        let logs = logs::start(settings, (&keys, internal_key.clone()), &log, &tables, instance, &tls)?;
        let mut api = settings.api_config(&keys)?;
        api.log_stores = vec![logs.address().to_string()];
        if api.operator_key.is_empty() && settings.operator_key.is_none() {
            api.operator_key = keys.operator()?;
        }
        let interface = Interface::start(api, deps, settings.http.for_everybody(), tls.api.clone())?;
        let published = Published::new(&settings.data_dir, interface.address(), &settings.tls.api)?;
        let mut config =
            executor::config(settings, &keys, ready.group.shard, keys.group_private(name.as_str())?)?;
        config.tls = tls.for_roles();
        // Whoever ends the one process that there is means all of it.
        config.keep_jobs_on_stop = settings.executor.keep_jobs_on_stop.unwrap_or(false);
        let url = settings.tls.api.url(interface.address());
        let ask = owners(dispatcher.live(), log.partitions(Topic::Journal));
        let outside = producers::outside(&log, &tables, &submitter, &internal_key, ask);
        let producers = Producers::start(settings, &outside, Some(url.clone()))?;
        // Nobody else sets it.
        let _ = cluster.probes.set(producers.probes());
        if config.api_url.is_empty() {
            config.api_url.clone_from(&url);
        }
        let executor = start_executor(config, log)?;
        Ok(Self {
            interface,
            following,
            logs,
            executor,
            producers,
            dispatcher,
            projector,
            keeper,
            sinks,
            archiver,
            submitter,
            line,
            registration,
            operator,
            published,
            url,
        })
    }

    /// How the interface is called.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Serves until `stop` gives a message, or a role ends by itself; then ends all of them in order.
    pub(crate) fn serve(self, stop: &Receiver<()>) -> Done<Exit> {
        while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(LOOK) {
            if let Some(failure) = self.registration.too_old() {
                tracing::error!("{}", failure.message);
                self.stop()?;
                return Err(failure);
            }
            if self.has_ended() {
                tracing::error!("a role has ended by itself; the others end too");
                self.stop()?;
                return Err(Failure::new(
                    Exit::Failure,
                    "a role has ended by itself; see the log lines above",
                ));
            }
        }
        self.stop()?;
        Ok(Exit::Success)
    }

    /// Whether a role has ended by itself. A sink that somebody has to fix is none of the others' business.
    pub(crate) fn has_ended(&self) -> bool {
        self.interface.has_ended()
            || self.following.has_ended()
            || self.logs.has_ended()
            || self.executor.thread.is_finished()
            || self.producers.has_ended()
            || self.dispatcher.has_ended()
            || self.projector.thread.is_finished()
            || self.keeper.thread.is_finished()
            || self.archiver.as_ref().is_some_and(|archiver| archiver.thread.is_finished())
    }

    /// Ends every role in order; the first failure is told, and the others end all the same.
    pub(crate) fn stop(self) -> Done {
        let removed = self.published.withdraw();
        let interface = self.interface.stop();
        let following = self.following.stop();
        let operator = self.operator.stop();
        drop(self.executor.stop);
        let executor = join("executor", self.executor.thread);
        let logs = logs::stop(self.logs);
        let producers = self.producers.stop();
        self.submitter.stop();
        drop(self.line);
        // Decided by its own owner, or by the next one.
        let registered = self.registration.end(Ok(()));
        let dispatcher =
            self.dispatcher.stop().map_err(|error| Failure::caused("the dispatcher has failed", &error));
        self.projector.stop.request();
        let projector = join("projector", self.projector.thread);
        self.sinks.stop.request();
        let sinks = join("sinks", self.sinks.thread);
        self.keeper.stop.request();
        let keeper = join("keeper of hints", self.keeper.thread);
        let archiver = self.archiver.map_or(Ok(()), |archiver| {
            archiver.stop.request();
            join("archiver", archiver.thread)
        });
        let projector = projector.and(keeper).and(sinks).and(archiver);
        removed
            .and(interface)
            .and(following)
            .and(operator)
            .and(executor)
            .and(logs)
            .and(producers)
            .and(dispatcher)
            .and(projector)
            .and(registered)
    }
}

/// Waits until the catalogue has an owner, so that a process which is too old for the log appends nothing to it.
fn until_owned(dispatcher: &Dispatcher, goes_on: &dyn Fn() -> Done) -> Done {
    let owners = dispatcher.live();
    let deadline = Instant::now() + OWNED_WITHIN;
    while Instant::now() < deadline {
        goes_on()?;
        if owners.status().iter().any(|owner| owner.partition == 0 && owner.owning) {
            break;
        }
        thread::sleep(OWNED_LOOK);
    }
    Ok(())
}

/// Waits for a thread; its panic is a failure like others.
pub(super) fn join(name: &str, thread: JoinHandle<Done>) -> Done {
    thread
        .join()
        .unwrap_or_else(|_| Err(Failure::new(Exit::Failure, format!("the thread of the {name} panicked"))))
}

fn deps(
    cluster: &LocalCluster,
    (past, known): (JournalPast, Known),
    tables: &Arc<dyn Tables>,
    (submitter, operator): (&Submitter, &Operator),
    hints: &Arc<dyn Hints>,
    roles: Option<Roles>,
) -> Deps {
    let partitions = cluster.log.partitions(Topic::Journal);
    Deps {
        tables: Arc::clone(tables),
        submitter: submitter.clone(),
        live: Arc::new(InProcessLive::new(owners(cluster.live.clone(), partitions))),
        past: Arc::new(past),
        known,
        commands: Arc::new(LogCommands::new(Arc::clone(&cluster.log))),
        freshness: Arc::new(cluster.progress.clone()),
        feed: Arc::new(JournalFeed::new(Arc::clone(&cluster.log), Arc::clone(tables))),
        cluster: Arc::new(cluster.clone()),
        admin: Arc::new(operator.clone()),
        roles,
        hints: Arc::clone(hints),
        partitions,
    }
}

/// The projector, which hears of the stop by `shutdown`.
pub(super) fn project(
    settings: &Settings,
    log: &Arc<dyn Log>,
    tables: &Arc<dyn Tables>,
    progress: Progress,
    shutdown: &Shutdown,
) -> Done<JoinHandle<Done>> {
    let (config, log, tables) = (settings.projector.clone(), Arc::clone(log), Arc::clone(tables));
    let told = shutdown.clone();
    spawn("projector", move || {
        tidemill_projector::run(&config, &log, &tables, &progress, &told)
            .map_err(|error| Failure::caused("the projector has failed", &error))
    })
}

fn start_role(start: impl FnOnce(&Shutdown) -> Done<JoinHandle<Done>>) -> Done<Role<Shutdown>> {
    let stop = Shutdown::new();
    let thread = start(&stop)?;
    Ok(Role { stop, thread })
}

fn start_executor(config: tidemill_executor::Config, log: Arc<dyn Log>) -> Done<Role<Sender<()>>> {
    let (stop, stopped) = bounded(1);
    let thread = spawn("executor", move || {
        tidemill_executor::run(config, log, stopped)
            .map_err(|error| Failure::caused("the executor has failed", &error))
    })?;
    Ok(Role { stop, thread })
}

pub(super) fn spawn(name: &str, role: impl FnOnce() -> Done + Send + 'static) -> Done<JoinHandle<Done>> {
    let logged = move || role().inspect_err(|failure| tracing::error!("{}", failure.message));
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(logged)
        .map_err(|error| Failure::caused(format!("cannot start the thread of the {name}"), &error))
}
