//! Kafka, MariaDB and Redis of this run alone, so that they may be killed.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::command::run;
use crate::database::Locked;

const END: Duration = Duration::from_secs(30);

/// One of the services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// The log.
    Kafka,
    /// The tables.
    Mariadb,
    /// Queues.
    Redis,
}

impl Service {
    /// Its name.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::Mariadb => "mariadb",
            Self::Redis => "redis",
        }
    }
}

/// A way into Kafka for one process: where the broker listens for it, and where the process believes it does.
pub(crate) struct Listener {
    pub(crate) port: u16,
    pub(crate) advertised: SocketAddr,
}

/// The services of this run. They end when this is dropped.
pub(crate) struct Services {
    script: PathBuf,
    dir: PathBuf,
}

impl Services {
    pub(crate) fn start(script: &Path, dir: &Path, listeners: &[Listener]) -> Result<Self> {
        fs::create_dir_all(dir.join("kafka"))?;
        fs::write(dir.join("kafka/more.properties"), more_properties(listeners))?;
        let services = Self { script: script.to_owned(), dir: dir.to_owned() };
        services.script(&["start", "kafka", "mariadb", "redis"])?;
        Ok(services)
    }

    fn script(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.script);
        command.arg("--dir").arg(&self.dir).args(arguments);
        run(&mut command).with_context(|| format!("deploy/dev/services {}", arguments.join(" ")))
    }

    /// The Python that the script has made for tests.
    ///
    /// # Errors
    /// It has made none.
    pub(crate) fn python(&self) -> Result<PathBuf> {
        let mut command = Command::new("bash");
        command.arg("-c").arg(r#"eval "$("$@")"; printf %s "${TIDEMILL_TEST_PYTHON:-}""#).arg("bash");
        command.arg(&self.script).arg("--dir").arg(&self.dir).args(["env", "redis"]);
        command.env_remove("TIDEMILL_TEST_PYTHON");
        let python = run(&mut command).context("deploy/dev/services env")?;
        if python.is_empty() {
            bail!(
                "no Python for the pull workers: `deploy/dev/services env` names none; \
                 run `deploy/dev/services install redis`, or name one with TIDEMILL_TEST_PYTHON or --python"
            );
        }
        Ok(PathBuf::from(python))
    }

    fn address(&self, service: Service) -> Result<SocketAddr> {
        let file = self.dir.join("state").join(format!("{}.port", service.name()));
        let port: u16 = fs::read_to_string(&file)?.trim().parse()?;
        Ok(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    /// Where it listens, without a proxy.
    pub(crate) fn direct(&self, service: Service) -> Result<SocketAddr> {
        self.address(service).with_context(|| format!("{} has no port", service.name()))
    }

    fn pid(&self, service: Service) -> Result<Pid> {
        let file = self.dir.join("state").join(format!("{}.pid", service.name()));
        let pid: i32 = fs::read_to_string(&file)?.trim().parse()?;
        Pid::from_raw(pid).ok_or_else(|| anyhow!("{} has no process", service.name()))
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// It does not run.
    pub(crate) fn signal(&self, service: Service, signal: Signal) -> Result<()> {
        kill_process(self.pid(service)?, signal).with_context(|| format!("signal to {}", service.name()))
    }

    /// Sends it a signal that ends it, and waits for that.
    ///
    /// # Errors
    /// It does not run, or does not end.
    pub(crate) fn end(&self, service: Service, signal: Signal) -> Result<()> {
        let pid = self.pid(service)?;
        self.signal(service, signal)?;
        let begun_at = Instant::now();
        while test_kill_process(pid).is_ok() && !is_zombie(pid) {
            if begun_at.elapsed() > END {
                bail!("{} does not end within {END:?}", service.name());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Starts it again, and waits until it answers.
    ///
    /// # Errors
    /// It does not come up.
    pub(crate) fn restart(&self, service: Service) -> Result<()> {
        self.script(&["start", service.name()]).map(drop)
    }

    /// Redis forgets everything.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) fn flush_redis(&self) -> Result<()> {
        let mut stream = TcpStream::connect(self.direct(Service::Redis)?)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"FLUSHALL\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        if &answer != b"+OK\r\n" {
            bail!("redis answers {:?}", String::from_utf8_lossy(&answer));
        }
        Ok(())
    }

    /// Locks every table against reads and writes of others, until the connection is dropped.
    ///
    /// # Errors
    /// The server refuses.
    pub(crate) fn lock_tables(&self) -> Result<Locked> {
        Locked::all(&format!("mysql://tidemill:tidemill@{}/tidemill", self.direct(Service::Mariadb)?))
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        for service in [Service::Kafka, Service::Mariadb, Service::Redis] {
            // Nothing here has to end in good order; a stopped process would not even hear the word.
            let _ = self.signal(service, Signal::KILL);
        }
        if let Err(error) = self.script(&["stop", "kafka", "mariadb", "redis"]) {
            eprintln!("services are left behind in {}: {error:#}", self.dir.display());
        }
    }
}

/// Whoever started it may not have asked for its end yet.
fn is_zombie(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z'))
}

fn more_properties(listeners: &[Listener]) -> String {
    let mut listen =
        "listeners=PLAINTEXT://127.0.0.1:@PORT@,CONTROLLER://127.0.0.1:@CONTROLLER_PORT@".to_owned();
    let mut advertise = "advertised.listeners=PLAINTEXT://127.0.0.1:@PORT@".to_owned();
    let mut protocols = "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT".to_owned();
    for (index, Listener { port, advertised }) in listeners.iter().enumerate() {
        listen += &format!(",CLIENT{index}://127.0.0.1:{port}");
        advertise += &format!(",CLIENT{index}://{advertised}");
        protocols += &format!(",CLIENT{index}:PLAINTEXT");
    }
    format!(
        "\n# One listener for each proxied process.\n{listen}\n{advertise}\n{protocols}\nnum.network.threads=1\n"
    )
}
