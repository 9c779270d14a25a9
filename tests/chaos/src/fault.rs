//! What can go wrong, by name.

use serde::Serialize;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident => $name:literal, $low:literal..$high:literal;)+) => {
        /// A kind of fault. It has a start, and a heal some time after it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Kind {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Kind] = &[$(Kind::$variant,)+];

            /// Its name in schedules and reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Kind::$variant => $name,)+
                }
            }

            /// From start to heal, milliseconds: at least, and less than.
            #[must_use]
            pub const fn lasts_ms(self) -> (u64, u64) {
                match self {
                    $(Kind::$variant => ($low, $high),)+
                }
            }
        }
    };
}

kinds! {
    /// SIGKILL to a dispatcher; the heal starts it again.
    KillDispatcher => "kill-dispatcher", 500..12_000;
    /// SIGKILL to an executor; shims and jobs go on, until their lease is over.
    KillExecutor => "kill-executor", 500..12_000;
    /// An executor stops in good order: it leaves its jobs to its next life, or ends them, as it is set.
    RestartExecutor => "restart-executor", 200..10_000;
    /// The same, and the heal starts another file of the program; the one before is gone.
    UpgradeExecutor => "upgrade-executor", 200..4_000;
    /// SIGKILL to the projector.
    KillProjector => "kill-projector", 200..8_000;
    /// SIGKILL to an interface.
    KillApi => "kill-api", 200..8_000;
    /// SIGKILL to what looks for paths.
    KillProducers => "kill-producers", 200..8_000;
    /// SIGKILL to a store of logs.
    KillLogs => "kill-logs", 200..8_000;
    /// SIGSTOP to a dispatcher; the heal is SIGCONT, and what it then writes is late.
    PauseDispatcher => "pause-dispatcher", 2_000..20_000;
    /// SIGSTOP to an executor, for longer than its lease or not; shims and jobs go on.
    PauseExecutor => "pause-executor", 1_000..14_000;
    /// SIGSTOP to the projector.
    PauseProjector => "pause-projector", 1_000..8_000;
    /// SIGSTOP to an interface: requests reach it, and are done when it goes on.
    PauseApi => "pause-api", 1_000..14_000;
    /// SIGSTOP to what looks for paths: others would take its part over.
    PauseProducers => "pause-producers", 1_000..14_000;
    /// SIGSTOP to a store of logs: another one takes its part over, and the heal wakes one that does not know.
    PauseLogs => "pause-logs", 1_000..14_000;
    /// SIGKILL to the broker.
    BrokerKill => "broker-kill", 500..6_000;
    /// The broker stops in good order, and starts again.
    BrokerRestart => "broker-restart", 100..2_000;
    /// SIGSTOP to the broker.
    BrokerPause => "broker-pause", 1_000..14_000;
    /// SIGKILL to MariaDB.
    DatabaseKill => "mariadb-kill", 500..8_000;
    /// Write locks on every table, held by somebody else.
    DatabaseLock => "mariadb-lock", 1_000..10_000;
    /// Redis forgets everything.
    RedisFlush => "redis-flush", 100..1_000;
    /// SIGKILL to Redis.
    RedisKill => "redis-kill", 500..5_000;
    /// No byte is left on the disk of one executor.
    DiskFull => "disk-full", 2_000..12_000;
    /// A host's network goes down, and nobody is told.
    Cut => "cut", 1_000..15_000;
    /// Bytes arrive late, both ways.
    Delay => "delay", 3_000..12_000;
    /// Connections stay and carry nothing.
    Stall => "stall", 1_000..14_000;
    /// Connections are reset, new ones too.
    Reset => "reset", 500..8_000;
    /// What a process sends is lost, what it is sent arrives.
    LoseSent => "lose-sent", 1_000..12_000;
    /// What a process sends arrives, the answers are lost.
    LoseReceived => "lose-received", 1_000..14_000;
}

impl Kind {
    /// Whether the short set has it.
    #[must_use]
    pub const fn is_short(self) -> bool {
        !matches!(
            self,
            Kind::PauseProjector
                | Kind::PauseApi
                | Kind::PauseProducers
                | Kind::BrokerRestart
                | Kind::BrokerPause
        )
    }

    /// Whether it strikes Kafka as a whole.
    #[must_use]
    pub const fn strikes_broker(self) -> bool {
        matches!(self, Kind::BrokerKill | Kind::BrokerRestart | Kind::BrokerPause)
    }
}
