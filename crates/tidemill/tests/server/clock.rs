//! A wall clock that is not the machine's, for the real program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jiff::SignedDuration;
use tidemill_model::Timestamp;

use super::Server;

/// What is preloaded into a process that has another clock.
pub(crate) struct Clock {
    library: PathBuf,
}

impl Clock {
    /// Made below the directory, which has to outlive its servers.
    pub(crate) fn build(dir: &Path) -> Self {
        let library = dir.join("clock.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/clock.c");
        let mut compiler = Command::new("cc");
        let built = compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status();
        assert!(built.expect("a C compiler, which the build needs, too").success());
        let clock = Self { library };
        clock.is_believed();
        clock
    }

    /// It takes effect, or no test that uses it shows anything.
    fn is_believed(&self) {
        let mut date = Command::new("date");
        date.arg("+%s").stdout(Stdio::piped());
        let wanted: Timestamp = "2020-02-02T00:00:00.000Z".parse().unwrap();
        self.set(&mut date, wanted);
        let told = super::text(&date.output().unwrap().stdout);
        let told = Timestamp::from_second(told.trim().parse().unwrap()).unwrap();
        assert!(told.duration_since(wanted).abs() < SignedDuration::from_mins(10), "{told}, not {wanted}");
    }

    /// The process that is started next begins at `now`.
    fn set(&self, command: &mut Command, now: Timestamp) {
        let ahead = now.duration_since(Timestamp::from(jiff::Timestamp::now())).as_secs();
        command.env("LD_PRELOAD", &self.library).env("TIDEMILL_TEST_CLOCK_AHEAD_S", ahead.to_string());
    }

    /// A running `tidemill standalone` for which it is `now` when it starts.
    pub(crate) fn start(&self, now: Timestamp, data: &Path, settings: &[(&str, &str)]) -> Server {
        let mut command = Command::new(super::TIDEMILL);
        self.set(&mut command, now);
        Server::begin(command, data, settings)
    }
}
