//! Roles in processes of their own, on a log that they share.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use tidemill_api::{Deps, JournalFeed, JournalPast, LogCommands, TablePositions};
use tidemill_cli::{Done, Exit, Failure};
use tidemill_cluster::{AskOwner, HttpLive, Live, OwnerAddress, ReplyLines, Submitter, instance_id};
use tidemill_directory::Known;
use tidemill_journal::{Progress, Shutdown};
use tidemill_log::{Log, Topic};
use tidemill_projector::PublishConfig;
use tidemill_seal::OwnersSecret;

use super::archive::Archiving;
use super::catalogue::Following;
use super::cluster::{self, SharedCluster};
use super::in_process::{lines, owners};
use super::interface::Interface;
use super::live;
use super::operator::Operator;
use super::producers::{self, Producers};
use super::registration::{Registration, too_old};
use super::standalone::{join, project, spawn};
use super::storage::Storage;
use super::tls::Tls;
use super::{executor, first_start, hints, log, sinks, snapshots, tables};
use crate::address::Published;
use crate::config::Settings;
use crate::privacy;

/// Between two looks whether a role has ended by itself.
const LOOK: Duration = Duration::from_millis(200);
/// Until the read tables have to show what the first start made.
const SHOWN_WITHIN: Duration = Duration::from_secs(2);
/// Between two looks at them.
const SHOWN_LOOK: Duration = Duration::from_millis(20);

/// `tidemill dispatcher`: owns partitions, and answers questions about them.
pub(crate) fn dispatcher(settings: &Settings, stop: &Receiver<()>) -> Done<Exit> {
    let tls = Tls::open(settings)?;
    let keys = settings.keys()?;
    let log = log::shared(settings)?;
    let partitions = log.partitions(Topic::Journal);
    let (listener, address) = listen(&settings.dispatcher.address)?;
    let mut config = settings.dispatcher.clone();
    config.address = address;
    config.reads = settings.process.level();
    config.reports = Some(OwnersSecret::of(&settings.internal_key(&keys)?));
    let incarnation = instance_id("dispatcher");
    let kept = snapshots::of(settings, &*log)?;
    let taken = snapshots::taken(settings, kept.as_ref())?;
    let (name, own) = (incarnation.as_str(), Arc::clone(&log));
    let dispatcher = tidemill_dispatcher::run_with_snapshots(config, own, name, taken)
        .map_err(|error| Failure::caused("cannot start the dispatcher", &error))?;
    // It is an owner like this one that registers it.
    let registration = Registration::start_as(settings, &log, &["dispatcher"], incarnation)?;
    let here = owners(dispatcher.live(), partitions);
    let limits = settings.http.for_own_roles();
    let lines = lines(dispatcher.live(), &limits);
    let router = tidemill_cluster::live_router(&settings.internal_key(&keys)?, here, lines);
    let live = live::serve(listener, router, limits, tls.for_roles())?;
    let ended = until(stop, &registration, || dispatcher.has_ended() || live.has_ended());
    let too_new = dispatcher.too_new().map(too_old);
    let dispatcher = dispatcher.stop().map_err(|error| Failure::caused("the dispatcher has failed", &error));
    let outcome = dispatcher.and(live.stop()).and(ended);
    registration.end(too_new.map_or(outcome, Err))
}

/// Where questions are answered: the address that claims name, on every interface unless it is a local one.
fn listen(address: &str) -> Done<(TcpListener, String)> {
    let bad = || Failure::bad_input(format!("dispatcher.address: {address:?}: must be host:port"));
    let (host, port) = address.rsplit_once(':').ok_or_else(bad)?;
    let port: u16 = port.parse().map_err(|_| bad())?;
    let interface = if matches!(host, "127.0.0.1" | "localhost") { [127, 0, 0, 1] } else { [0, 0, 0, 0] };
    let cannot = |error: std::io::Error| {
        Failure::caused(format!("cannot listen for questions on port {port}"), &error)
            .hint("name another port with dispatcher.address; port 0 takes a free one")
    };
    let listener = TcpListener::bind(SocketAddr::from((interface, port))).map_err(cannot)?;
    let port = listener.local_addr().map_err(cannot)?.port();
    Ok((listener, format!("{host}:{port}")))
}

/// `tidemill projector`: journal to tables, and to the public feed.
pub(crate) fn projector(settings: &Settings, stop: &Receiver<()>) -> Done<Exit> {
    let log = log::shared(settings)?;
    let tables = tables::open(settings)?;
    let hints = hints::shared(settings, &*log)?;
    let shutdown = Shutdown::new();
    let project = project(settings, &log, &tables, Progress::new(), &shutdown)?;
    let publish = {
        let (log, told) = (Arc::clone(&log), shutdown.clone());
        spawn("publisher", move || {
            tidemill_projector::publish(&PublishConfig::default(), &log, &Progress::new(), &told)
                .map_err(|error| Failure::caused("publishing the feed has failed", &error))
        })?
    };
    let keep = hints.map(|hints| hints::keep(&log, hints, &shutdown)).transpose()?;
    let roles: Vec<_> =
        [("projector", Some(project)), ("publisher", Some(publish)), ("keeper of hints", keep)]
            .into_iter()
            .filter_map(|(name, thread)| Some((name, thread?)))
            .collect();
    let registration = Registration::start(settings, &log, &["projector", "publisher"])?;
    let ended = until(stop, &registration, || roles.iter().any(|(_, thread)| thread.is_finished()));
    shutdown.request();
    registration.end(join_all(roles).and(ended))
}

/// `tidemill sink`: journal and tables to where people look for task logs.
pub(crate) fn sink(settings: &Settings, stop: &Receiver<()>) -> Done<Exit> {
    if !settings.sinks.is_any() {
        return Err(Failure::bad_input("there is no sink to run").hint(
            "set sinks.mysql.url, sinks.elasticsearch.url or sinks.parquet.root in the configuration",
        ));
    }
    let openers = sinks::openers(&settings.sinks)?;
    let log = log::shared(settings)?;
    let tables = tables::open(settings)?;
    let shutdown = Shutdown::new();
    let progress = tidemill_sinks::Progress::new();
    let running = sinks::start(openers, &log, &tables, &progress, &shutdown)?;
    // Until the sinks have ended, so that the last note is of what they have stored at the end.
    let ended_all = Shutdown::new();
    let noting = tidemill_sinks::keep_noting(progress, tables, ended_all.clone())
        .map_err(|error| Failure::caused("cannot note how far the sinks are", &error))?;
    let registration = Registration::start(settings, &log, &["sink"])?;
    let ended = until(stop, &registration, || running.is_finished());
    shutdown.request();
    let joined = join("sinks", running);
    ended_all.request();
    let noted =
        noting.join().map_err(|_| Failure::new(Exit::Failure, "noting how far the sinks are has failed"));
    registration.end(joined.and(noted).and(ended))
}

/// The first failure is told; the others are waited for all the same.
fn join_all(roles: Vec<(&str, JoinHandle<Done>)>) -> Done {
    let joined: Vec<_> = roles.into_iter().map(|(name, thread)| join(name, thread)).collect();
    joined.into_iter().collect()
}

/// `tidemill producers`: looks outside for what owners wait for.
pub(crate) fn producers(settings: &Settings, stop: &Receiver<()>) -> Done<Exit> {
    let tls = Tls::open(settings)?;
    let keys = settings.keys()?;
    let archived = log::shared_with_archive(settings)?;
    let log: Arc<dyn Log> = archived.clone();
    let tables = tables::open(settings)?;
    let submitter = submitter(settings, &log, "producers")?;
    let kept = snapshots::of(settings, &*archived)?;
    let storage = Storage::new(archived, Archiving::default(), kept.clone());
    let known = Known::new();
    let cluster = SharedCluster { log: Arc::clone(&log), tables: Arc::clone(&tables), storage, known };
    let internal_key = settings.internal_key(&keys)?;
    let live = HttpLive::new(
        log.partitions(Topic::Journal),
        &internal_key,
        Duration::from_millis(settings.api.peer_timeout_ms),
        remembered(cluster.owner_address()),
        tls.roles.as_ref(),
    )
    .map_err(|error| Failure::caused("cannot ask owners", &error))?;
    let asking = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("ask-owners")
        .enable_all()
        .build()
        .map_err(|error| Failure::caused("cannot ask owners", &error))?;
    let runtime = asking.handle().clone();
    let ask: AskOwner = Arc::new(move |shard, query| {
        runtime.block_on(live.query(shard, query)).map_err(|error| error.to_string())
    });
    let outside = producers::outside(&log, &tables, &submitter, &internal_key, ask);
    let running = Producers::start(settings, &outside, None)?;
    tracing::info!("what owners wait for is looked for");
    let registration = Registration::start(settings, &log, &["producers"])?;
    let ended = until(stop, &registration, || running.has_ended());
    let stopped = running.stop();
    submitter.stop();
    asking.shutdown_background();
    registration.end(stopped.and(ended))
}

/// While the tables do not say who owns a partition, whoever owned it last is asked.
fn remembered(find: OwnerAddress) -> OwnerAddress {
    let known: Mutex<BTreeMap<u32, String>> = Mutex::default();
    Arc::new(move |partition| {
        let found = find(partition);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Some(address) => {
                known.insert(partition, address.clone());
                Some(address)
            }
            None => known.get(&partition).cloned(),
        }
    })
}

/// `tidemill api`: the interface.
pub(crate) fn api(settings: &Settings, stop: &Receiver<()>) -> Done<Exit> {
    let Tls { api: encrypted, roles } = Tls::open(settings)?;
    let keys = settings.keys()?;
    let archived = log::shared_with_archive(settings)?;
    let log: Arc<dyn Log> = archived.clone();
    let tables = tables::open(settings)?;
    let config = settings.api_config(&keys)?;
    let submitter = submitter(settings, &log, "api")?;
    let kept = snapshots::of(settings, &*archived)?;
    let storage = Storage::new(archived, Archiving::default(), kept.clone());
    let following = Following::start(&log)?;
    let known = following.known();
    let cluster = SharedCluster { log: Arc::clone(&log), tables: Arc::clone(&tables), storage, known };
    let patience = Duration::from_millis(config.peer_timeout_ms);
    let partitions = log.partitions(Topic::Journal);
    let owners = remembered(cluster.owner_address());
    let live = HttpLive::new(partitions, &config.internal_key, patience, owners, roles.as_ref())
        .map_err(|error| Failure::caused("cannot ask owners", &error))?;
    let (addresses, internal_key, between) =
        (cluster.owner_addresses(), config.internal_key.clone(), roles.clone());
    // Nobody keeps those of this process alone, so none of them ever counts.
    let hints = hints::shared(settings, &*log)?.unwrap_or_else(hints::here);
    let operator = Operator::new(settings, &log, &tables, &hints);
    let deps = Deps {
        hints,
        partitions,
        roles,
        admin: Arc::new(operator.clone()),
        tables: Arc::clone(&tables),
        submitter: submitter.clone(),
        live: Arc::new(live),
        past: Arc::new(JournalPast::new(Arc::clone(&log), kept, JournalPast::PATIENCE)),
        known: following.known(),
        commands: Arc::new(LogCommands::new(Arc::clone(&log))),
        freshness: Arc::new(TablePositions::new(Arc::clone(&tables))),
        feed: Arc::new(JournalFeed::new(Arc::clone(&log), tables)),
        cluster: Arc::new(cluster),
    };
    let interface = Interface::start(config, deps, settings.http.for_everybody(), encrypted)?;
    let runtime = interface.runtime();
    let lines = ReplyLines::keep(runtime, submitter.clone(), addresses, &internal_key, between.as_ref())
        .map_err(|error| Failure::caused("cannot hear owners", &error))?;
    privacy::make_dir(&settings.data_dir)?;
    let published = Published::new(&settings.data_dir, interface.address(), &settings.tls.api)?;
    tracing::info!(address = %interface.address(), "the interface listens on {}", interface.address());
    let registration = Registration::start(settings, &log, &["api"])?;
    let ended = until(stop, &registration, || interface.has_ended() || following.has_ended());
    let withdrawn = published.withdraw();
    let stopped = interface.stop();
    let operated = operator.stop();
    drop(lines);
    submitter.stop();
    let followed = following.stop();
    registration.end(withdrawn.and(stopped).and(operated).and(followed).and(ended))
}

fn submitter(settings: &Settings, log: &Arc<dyn Log>, role: &str) -> Done<Submitter> {
    Submitter::start(Arc::clone(log), instance_id(role), settings.api.submit.clone())
        .map_err(|error| Failure::caused("cannot start to submit commands", &error))
}

/// `tidemill logs`: keeps logs of attempts.
pub(crate) fn logs(settings: &Settings, stop: &Receiver<()>) -> Done<Exit> {
    let tls = Tls::open(settings)?;
    let keys = settings.keys()?;
    let log = log::shared(settings)?;
    let tables = tables::open(settings)?;
    let instance = instance_id("logs");
    let running = super::logs::start(
        settings,
        (&keys, settings.internal_key(&keys)?),
        &log,
        &tables,
        instance.clone(),
        &tls,
    )?;
    tracing::info!(address = %running.address(), "logs of attempts are kept");
    let registration = Registration::start_as(settings, &log, &["logs"], instance)?;
    let ended = until(stop, &registration, || running.has_ended());
    registration.end(super::logs::stop(running).and(ended))
}

/// `tidemill bootstrap`: the first start of a cluster. A dispatcher has to run.
pub(crate) fn bootstrap(settings: &Settings) -> Done<Exit> {
    let keys = settings.keys()?;
    keys.internal()?;
    keys.logs()?;
    let log = log::shared(settings)?;
    let submitter = submitter(settings, &log, "bootstrap")?;
    let name = executor::group_name(settings)?;
    let kept = snapshots::of(settings, &*log)?;
    let ready = first_start::run((&log, kept.as_ref()), &submitter, &keys, &name, &|| Ok(()))?;
    submitter.stop();
    let (partition, offset) = ready.position;
    if !show(settings, partition, offset) {
        tidemill_cli::output::note(format!(
            "warning: it is done, but the read tables do not show it yet (position {partition}:{offset}): \
             does a projector run?"
        ));
    }
    let keys_dir = settings.keys_dir().display();
    tidemill_cli::output::line(format!(
        "Group {name} is defined, with shard {}.\nKeys are in {keys_dir}: admin.key for the client commands, \
         group-{name}.key for the executors of the group.",
        ready.group.shard,
    ));
    Ok(Exit::Success)
}

/// Waits until the tables that the roles share show a position, so that whoever looks next sees it.
fn show(settings: &Settings, partition: u32, offset: u64) -> bool {
    let begun_at = Instant::now();
    let Some(Ok(tables)) = tables::are_there(settings).then(|| tables::open(settings)) else { return false };
    loop {
        let positions = cluster::positions(&*tables).unwrap_or_default();
        if positions.get(&partition).is_some_and(|position| position.offset >= offset) {
            return true;
        }
        if begun_at.elapsed() >= SHOWN_WITHIN {
            return false;
        }
        thread::sleep(SHOWN_LOOK);
    }
}

/// Waits for the word to stop; an error if a role ends before it, or the process is too old for the log.
fn until(stop: &Receiver<()>, registration: &Registration, has_ended: impl Fn() -> bool) -> Done<Exit> {
    while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(LOOK) {
        if let Some(failure) = registration.too_old() {
            tracing::error!("{}", failure.message);
            return Err(failure);
        }
        if has_ended() {
            return Err(Failure::new(Exit::Failure, "the role has ended by itself; see the log lines above"));
        }
    }
    Ok(Exit::Success)
}
