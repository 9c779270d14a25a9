//! The real program in processes of its own: standalone, or every role by itself on Kafka, MySQL and Redis.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tidemill_log::{Log, SqliteView, Topic};

use crate::backend::Backend;
use crate::usage;

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
const GROUP: &str = "bench";

/// A running Tidemill with a group.
pub(crate) struct Running {
    program: Program,
    roles: Vec<Role>,
    pub(crate) address: String,
    pub(crate) key: String,
    pub(crate) log: Arc<dyn Log>,
    #[cfg(feature = "kafka")]
    _database: Option<crate::database::Database>,
}

struct Role {
    name: &'static str,
    child: Child,
}

impl Drop for Role {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How the program is started.
struct Program {
    file: PathBuf,
    directory: PathBuf,
    settings: Vec<(&'static str, String)>,
}

impl Program {
    /// Beside this one.
    fn find(directory: &Path, more: &[(&'static str, String)]) -> anyhow::Result<Self> {
        let file = std::env::current_exe()?.with_file_name("tidemill");
        ensure!(file.exists(), "{} is not there: build the program, as `make bench` does", file.display());
        let port = free_port()?;
        let mut settings = vec![
            ("API__LISTEN", format!("127.0.0.1:{port}")),
            ("EXECUTOR__GROUP", GROUP.to_owned()),
            // Next to nothing but pulls comes to the log.
            ("EXECUTOR__HEARTBEAT_MS", "60000".to_owned()),
            ("LOG_FILTER", "warn".to_owned()),
        ];
        settings.extend_from_slice(more);
        Ok(Self { file, directory: directory.to_owned(), settings })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.file);
        command.args(arguments).env("TIDEMILL_DATA", self.directory.join(arguments[0]));
        for variable in ["TIDEMILL_CONFIG", "TIDEMILL_KEY", "TIDEMILL_SERVER"] {
            command.env_remove(variable);
        }
        command.envs(self.settings.iter().map(|(name, value)| (format!("TIDEMILL__{name}"), value)));
        command.stdout(Stdio::null());
        command
    }

    fn start(&self, name: &'static str) -> anyhow::Result<Role> {
        let child = self.command(&[name]).spawn().with_context(|| format!("starting {name}"))?;
        Ok(Role { name, child })
    }

    #[cfg(feature = "kafka")]
    fn succeeds(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let status = self.command(arguments).status()?;
        ensure!(status.success(), "{arguments:?} ended with {status}");
        Ok(())
    }

    fn address(&self) -> &str {
        &self.settings[0].1
    }

    fn key(&self, role: &str) -> anyhow::Result<String> {
        let file = self.directory.join(role).join("admin.key");
        let key = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        Ok(key.trim().to_owned())
    }
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl Running {
    pub(crate) fn start(backend: Backend, directory: &Path) -> anyhow::Result<Self> {
        Self::start_with(backend, directory, &[])
    }

    /// With more settings.
    pub(crate) fn start_with(
        backend: Backend,
        directory: &Path,
        more: &[(&'static str, String)],
    ) -> anyhow::Result<Self> {
        match backend {
            Backend::Embedded => Self::standalone(directory, more),
            Backend::Kafka => Self::cluster(directory, more),
        }
    }

    fn standalone(directory: &Path, more: &[(&'static str, String)]) -> anyhow::Result<Self> {
        let program = Program::find(directory, more)?;
        let roles = vec![program.start("standalone")?];
        until("standalone serves", || fs::exists(directory.join("standalone/api.address")).unwrap_or(false))?;
        Ok(Self {
            roles,
            address: program.address().to_owned(),
            key: program.key("standalone")?,
            program,
            log: Arc::new(SqliteView::open(&directory.join("standalone/log"))?),
            #[cfg(feature = "kafka")]
            _database: None,
        })
    }

    #[cfg(feature = "kafka")]
    fn cluster(directory: &Path, more: &[(&'static str, String)]) -> anyhow::Result<Self> {
        let config = crate::backend::kafka_config()?;
        let database = crate::database::Database::create()?;
        let redis =
            std::env::var("TIDEMILL_TEST_REDIS").context("TIDEMILL_TEST_REDIS has to name a server")?;
        let mut program = Program::find(directory, more)?;
        program.settings.extend([
            ("LOG__BACKEND", "kafka".to_owned()),
            ("LOG__BROKERS", config.brokers.clone()),
            ("LOG__PREFIX", config.prefix.clone()),
            ("LOG__PARTITIONS", config.partitions.to_string()),
            ("LOG__SINGLE_BROKER", "true".to_owned()),
            ("STORE__URL", database.url.clone()),
            ("REDIS__URL", redis),
            ("INTERNAL_KEY", "an internal key for benches".to_owned()),
            ("DISPATCHER__ADDRESS", format!("127.0.0.1:{}", free_port()?)),
        ]);
        program.succeeds(&["topics", "create"])?;
        let names = ["dispatcher", "projector", "api"].into_iter();
        let roles = names.map(|name| program.start(name)).collect::<anyhow::Result<_>>()?;
        program.succeeds(&["bootstrap"])?;
        let address = program.address().to_owned();
        until("the interface serves", || std::net::TcpStream::connect(&address).is_ok())?;
        let log = Arc::new(tidemill_log::KafkaLog::open(&config)?);
        let key = program.key("bootstrap")?;
        Ok(Self { program, roles, address, key, log, _database: Some(database) })
    }

    #[cfg(not(feature = "kafka"))]
    fn cluster(_: &Path, _: &[(&'static str, String)]) -> anyhow::Result<Self> {
        bail!("this program was built without the feature kafka")
    }

    /// Runs a client command to its end. Gives its output.
    pub(crate) fn client(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        let mut command = self.program.command(arguments);
        command.env("TIDEMILL_SERVER", format!("http://{}", self.address)).env("TIDEMILL_KEY", &self.key);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.output().with_context(|| format!("running {arguments:?}"))
    }

    /// Ids of its processes.
    pub(crate) fn processes(&self) -> Vec<u32> {
        self.roles.iter().map(|role| role.child.id()).collect()
    }

    pub(crate) fn group(&self) -> &'static str {
        GROUP
    }

    /// Records that commands and journals have taken so far.
    pub(crate) fn records(&self) -> anyhow::Result<(u64, u64)> {
        let of = |topic| -> anyhow::Result<u64> {
            let ends = (0..self.log.partitions(topic)).map(|partition| self.log.range(topic, partition));
            Ok(ends.map(|range| range.map(|range| range.end)).sum::<Result<u64, _>>()?)
        };
        Ok((of(Topic::Commands)?, of(Topic::Journal)?))
    }

    /// The most memory that each role had at once, MB.
    pub(crate) fn peaks_mb(&self) -> Vec<(&'static str, f64)> {
        self.roles.iter().map(|role| (role.name, usage::peak_mb_of(role.child.id()))).collect()
    }
}

fn until(what: &str, holds: impl Fn() -> bool) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !holds() {
        if begun.elapsed() > PATIENCE {
            bail!("not within {} s: {what}", PATIENCE.as_secs());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
