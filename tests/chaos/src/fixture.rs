//! Everything that runs: services, networks, disks, proxies and processes of one run.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tidemill_log::{KafkaConfig, KafkaLog};

use crate::command::run;
use crate::disk::Disk;
use crate::fault::Kind;
use crate::intruder;
use crate::network::Network;
use crate::ports::Ports;
use crate::proxy::Link;
use crate::pulled;
use crate::rng::Rng;
use crate::role::{Part, Role};
use crate::services::{Listener, Service, Services};

const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// One for the catalogue, one for each of two groups, and as many more, so that each dispatcher owns some.
const PARTITIONS: u32 = 6;
/// The group with two executors, and the one with a single executor that can be cut off.
pub(crate) const GROUPS: [&str; 2] = ["alpha", "beta"];

/// Name, part, group of an executor, and whether it has a network of its own.
const ROLES: [(&str, Part, &str, bool); 12] = [
    ("dispatcher-1", Part::Dispatcher, "", false),
    ("dispatcher-2", Part::Dispatcher, "", false),
    ("dispatcher-3", Part::Dispatcher, "", true),
    ("executor-1", Part::Executor, "alpha", false),
    ("executor-2", Part::Executor, "alpha", false),
    ("executor-3", Part::Executor, "beta", true),
    ("projector", Part::Projector, "", false),
    ("logs-1", Part::Logs, "", false),
    ("logs-2", Part::Logs, "", false),
    ("api-1", Part::Api, "", false),
    ("api-2", Part::Api, "", false),
    ("producers", Part::Producers, "", false),
];
/// The executor whose disk can be filled.
pub(crate) const SMALL_DISK: &str = "executor-1";
/// The executor that leaves its jobs to its next life when it stops, as on a host; the others end them, as in a container.
const KEEPS_JOBS: &str = "executor-2";

/// Where files and services are.
#[derive(Clone, Debug)]
pub struct Place {
    /// All files of the run.
    pub dir: PathBuf,
    /// The program.
    pub program: PathBuf,
    /// `deploy/dev/services`.
    pub services: PathBuf,
    /// The Python that the client package is installed with; none: that of `services`.
    pub python: Option<PathBuf>,
}

/// What this machine does not permit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    /// By the kind of fault that needs it, why not.
    pub not_possible: BTreeMap<Kind, String>,
}

/// All that runs. It ends when this is dropped.
pub(crate) struct Fixture {
    // In this order they go: processes, then what they use.
    pub(crate) roles: Vec<Role>,
    pub(crate) disk: Option<Disk>,
    pub(crate) services: Services,
    /// A copy, which a build does not replace.
    program: PathBuf,
    environment: BTreeMap<String, String>,
    pub(crate) dir: PathBuf,
}

/// What of a role is known before anything runs.
struct Plan {
    network: Option<Network>,
    log: Link,
}

impl Fixture {
    /// Starts services and processes; what the machine does not permit is noted, and left out.
    ///
    /// # Errors
    /// Something does not start.
    pub(crate) fn start(place: &Place, machine: &mut Machine) -> Result<Self> {
        let number = std::process::id();
        let mut ports = Ports::new(Rng::new(u64::from(number), &place.dir.to_string_lossy()));
        let dir = place.dir.clone();
        for name in ["keys", "witness", "logs"] {
            fs::create_dir_all(dir.join(name))?;
        }
        let program = dir.join("tidemill");
        fs::copy(&place.program, &program).with_context(|| format!("{}", place.program.display()))?;

        let (mut plans, mut listeners) = (Vec::new(), Vec::new());
        for (index, (.., apart)) in ROLES.into_iter().enumerate() {
            let network = if apart { network(number, index, machine) } else { None };
            let port = ports.next()?;
            let listen = network.as_ref().map_or(LOCAL, Network::outer);
            let log = Link::open(listen, SocketAddr::from(([127, 0, 0, 1], port)))?;
            listeners.push(Listener { port, advertised: log.address() });
            plans.push(Plan { network, log });
        }
        let services = Services::start(&place.services, &dir.join("services"), &listeners)?;
        let disk = disk(&dir.join(SMALL_DISK), machine);
        let kafka = services.direct(Service::Kafka)?.to_string();
        let database = format!("mysql://tidemill:tidemill@{}/tidemill", services.direct(Service::Mariadb)?);
        let environment = environment(&dir, &kafka, &database);
        let mut fixture = Self { roles: Vec::new(), disk, services, program, environment, dir };
        for (role, plan) in ROLES.into_iter().zip(plans) {
            let role = fixture.role_of(role, plan, &mut ports)?;
            fixture.roles.push(role);
        }
        fixture.set_up()?;
        Ok(fixture)
    }

    fn role_of(&self, role: (&str, Part, &str, bool), plan: Plan, ports: &mut Ports) -> Result<Role> {
        let (name, part, group, _) = role;
        let Plan { network, log } = plan;
        let port = ports.next()?;
        let (outer, inner) = network.as_ref().map_or((LOCAL, LOCAL), |it| (it.outer(), it.inner()));
        let address = SocketAddr::new(inner, port).to_string();
        let mut environment = self.environment.clone();
        let mut set = |setting: &str, value: &str| {
            environment.insert(format!("TIDEMILL__{setting}"), value.to_owned());
        };
        let open = |service| anyhow::Ok(Link::open(outer, self.services.direct(service)?)?);
        let mut links = BTreeMap::new();
        if matches!(part, Part::Projector | Part::Api | Part::Producers | Part::Logs) {
            let link = open(Service::Mariadb)?;
            set("STORE__URL", &format!("mysql://tidemill:tidemill@{}/tidemill", link.address()));
            links.insert("tables", link);
        }
        if matches!(part, Part::Projector | Part::Api) {
            let link = open(Service::Redis)?;
            set("REDIS__URL", &format!("redis://{}", link.address()));
            links.insert("hints", link);
        }
        set("LOG__BROKERS", &log.address().to_string());
        match part {
            Part::Dispatcher => set("DISPATCHER__ADDRESS", &address),
            Part::Executor => {
                set("EXECUTOR__GROUP", group);
                set("EXECUTOR__HOST", name);
                set("EXECUTOR__KEEP_JOBS_ON_STOP", &(name == KEEPS_JOBS).to_string());
                set("EXECUTOR__LISTEN", &address);
                // Stores of logs ask it through this one, and so do interfaces.
                let link = Link::open(LOCAL, SocketAddr::new(inner, port))?;
                set("EXECUTOR__ADVERTISE", &link.address().to_string());
                links.insert("output", link);
            }
            Part::Api => {
                set("API__LISTEN", &address);
                let stores: Vec<_> = self.of_part(Part::Logs).map(|role| role.address.as_str()).collect();
                set("API__LOG_STORES", &stores.join(","));
                set("API__MAX_STREAMS_PER_KEY", &intruder::STREAMS.to_string());
                set("HTTP__MAX_CONNECTIONS", &intruder::CONNECTIONS.to_string());
                // Roles keep their connections to each other for longer.
                set("HTTP__IDLE_TIMEOUT_MS", &intruder::IDLE_MS.to_string());
                let link = Link::open(LOCAL, SocketAddr::new(inner, port))?;
                links.insert(pulled::LINK, link);
            }
            Part::Logs => {
                set("LOGS__LISTEN", &address);
                // One place for all, so that each can go on with what another one has begun.
                set("LOGS__PLACE", &self.dir.join("kept").to_string_lossy());
                // Attempts are short here, and are to have several segments all the same.
                set("LOGS__FLUSH_S", "1");
            }
            Part::Projector | Part::Producers => {}
        }
        links.insert("log", log);
        environment.insert("TIDEMILL_DATA".to_owned(), self.dir.join(name).to_string_lossy().into_owned());
        Ok(Role {
            name: name.to_owned(),
            part,
            address,
            network,
            links,
            program: Mutex::new(self.program.clone()),
            environment,
            lines: self.dir.join("logs").join(format!("{name}.log")),
            state: Mutex::default(),
        })
    }

    /// Topics and keys, and all processes but executors, which need a group.
    fn set_up(&self) -> Result<()> {
        self.admin(&["topics", "create"])?;
        for part in [Part::Dispatcher, Part::Projector, Part::Producers] {
            self.of_part(part).try_for_each(Role::start)?;
        }
        self.admin(&["bootstrap"])?;
        self.of_part(Part::Logs).chain(self.of_part(Part::Api)).try_for_each(Role::start)
    }

    /// Runs an operator's command, beside everyone else and without proxies.
    pub(crate) fn admin(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(&self.dir).env_clear().envs(&self.environment);
        run(&mut command).with_context(|| format!("tidemill {}", arguments.join(" ")))
    }

    pub(crate) fn of_part(&self, part: Part) -> impl Iterator<Item = &Role> {
        self.roles.iter().filter(move |role| role.part == part)
    }

    pub(crate) fn role(&self, name: &str) -> Result<&Role> {
        self.roles.iter().find(|role| role.name == name).ok_or_else(|| anyhow!("there is no {name}"))
    }

    /// A way of one process, `role/log`, `role/tables` or `role/hints`; or the way to one, `role/output`.
    pub(crate) fn link(&self, target: &str) -> Result<&Link> {
        let (name, service) = target.split_once('/').unwrap_or((target, "log"));
        self.role(name)?.links.get(service).ok_or_else(|| anyhow!("there is no {target}"))
    }

    /// What a kind of fault can strike here.
    #[must_use]
    pub(crate) fn targets(&self, kind: Kind) -> Vec<String> {
        let of = |part| self.of_part(part).map(|role| role.name.clone()).collect();
        match kind {
            Kind::KillDispatcher | Kind::PauseDispatcher => of(Part::Dispatcher),
            Kind::KillExecutor | Kind::PauseExecutor | Kind::RestartExecutor | Kind::UpgradeExecutor => {
                of(Part::Executor)
            }
            Kind::KillProjector | Kind::PauseProjector => of(Part::Projector),
            Kind::KillApi | Kind::PauseApi => of(Part::Api),
            Kind::KillProducers | Kind::PauseProducers => of(Part::Producers),
            Kind::KillLogs | Kind::PauseLogs => of(Part::Logs),
            Kind::BrokerKill | Kind::BrokerRestart | Kind::BrokerPause => vec!["kafka".to_owned()],
            Kind::DatabaseKill | Kind::DatabaseLock => vec!["mariadb".to_owned()],
            Kind::RedisFlush | Kind::RedisKill => vec!["redis".to_owned()],
            Kind::DiskFull => self.disk.iter().map(|_| SMALL_DISK.to_owned()).collect(),
            Kind::Cut => {
                let apart = self.roles.iter().filter(|role| role.network.is_some());
                apart.map(|role| role.name.clone()).collect()
            }
            Kind::Delay | Kind::Stall | Kind::Reset | Kind::LoseSent | Kind::LoseReceived => {
                let of = |role: &Role| {
                    let name = role.name.clone();
                    role.links.keys().map(move |link| format!("{name}/{link}")).collect::<Vec<_>>()
                };
                self.roles.iter().flat_map(of).collect()
            }
        }
    }

    /// The log as it is, without proxies.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn log(&self) -> Result<KafkaLog> {
        let mut config = KafkaConfig::new(self.services.direct(Service::Kafka)?.to_string());
        config.partitions = PARTITIONS;
        config.single_broker = true;
        Ok(KafkaLog::open(&config)?)
    }

    /// Starts again what has ended by itself, until told to stop.
    pub(crate) fn watch(&self, is_over: &dyn Fn() -> bool) {
        while !is_over() {
            for role in &self.roles {
                if let Err(error) = role.watch() {
                    eprintln!("{}: {error:#}", role.name);
                }
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

fn network(run: u32, index: usize, machine: &mut Machine) -> Option<Network> {
    let made = u8::try_from(index).map_err(anyhow::Error::from).and_then(|index| Network::make(run, index));
    made.map_err(|error| machine.not_possible.insert(Kind::Cut, format!("{error:#}"))).ok()
}

fn disk(path: &Path, machine: &mut Machine) -> Option<Disk> {
    Disk::mount(path).map_err(|error| machine.not_possible.insert(Kind::DiskFull, format!("{error:#}"))).ok()
}

fn environment(dir: &Path, kafka: &str, database: &str) -> BTreeMap<String, String> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let secret = || {
        let mut secret = [0_u8; 16];
        getrandom::fill(&mut secret).expect("the operating system gives random bytes");
        secret.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let settings = [
        ("KEYS_DIR", text(dir.join("keys"))),
        ("INTERNAL_KEY", secret()),
        ("LOGS_KEY", secret()),
        ("LOG__BACKEND", "kafka".to_owned()),
        ("LOG__BROKERS", kafka.to_owned()),
        ("LOG__PARTITIONS", PARTITIONS.to_string()),
        ("LOG__SINGLE_BROKER", "true".to_owned()),
        ("STORE__URL", database.to_owned()),
        ("HTTP__HEADER_TIMEOUT_MS", intruder::HEADER_MS.to_string()),
        ("HTTP__WRITE_TIMEOUT_MS", intruder::WRITE_MS.to_string()),
        ("EXECUTOR__GROUP", GROUPS[0].to_owned()),
        ("EXECUTOR__HEARTBEAT_MS", "300".to_owned()),
        ("EXECUTOR__STOP_GRACE_MS", "3000".to_owned()),
        ("EXECUTOR__SLOTS", "shell=4,noop=100".to_owned()),
    ];
    let settings = settings.into_iter().map(|(name, value)| (format!("TIDEMILL__{name}"), value));
    let data = ("TIDEMILL_DATA".to_owned(), text(dir.join("keys")));
    let own = ["PATH", "HOME", "LANG"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
    settings.chain([data]).chain(own).collect()
}
