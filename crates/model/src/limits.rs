//! What an attempt may use, and what is known of one that wanted more (EXE-2, EXE-7).

use tidemill_derive::{Word, vocabulary};

use crate::{Token, bounds};

/// What all processes of one attempt may use together. Absent: no limit.
#[vocabulary(Copy, Eq, Default)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Memory, MiB. Beyond it the kernel ends a process of the attempt, or the worker all of them.
    #[schemars(range(min = 1, max = bounds::MEMORY_MB))]
    pub memory_mb: Option<u32>,
    /// Memory, MiB, beyond which an alarm is raised and the attempt goes on.
    #[schemars(range(min = 1, max = bounds::MEMORY_MB))]
    pub memory_alarm_mb: Option<u32>,
    /// Processor time in percent of one processor: 100 is one, 250 two and a half. The attempt is slowed down to it.
    #[schemars(range(min = 1, max = bounds::CPU_PERCENT))]
    pub cpu_percent: Option<u32>,
    /// Processes and threads at once. Beyond it none can be started.
    #[schemars(range(min = 1, max = bounds::PROCESSES))]
    pub processes: Option<u32>,
    /// Open files of each single process.
    #[schemars(range(min = bounds::OPEN_FILES.0, max = bounds::OPEN_FILES.1))]
    pub open_files: Option<u32>,
    /// What its log keeps of its standard output, and as much of its errors, MiB.
    #[schemars(range(min = 1, max = bounds::OUTPUT_MB))]
    pub output_mb: Option<u32>,
    /// Run time, seconds. An attempt that runs longer is ended, TERM first, and is *timed out*. A job names it as
    /// `execution_timeout_s`.
    #[schemars(range(min = 1, max = bounds::TIMEOUT_S))]
    pub run_time_s: Option<u32>,
}

/// One of the limits.
#[vocabulary(Copy, Eq, PartialOrd, Ord, Word)]
pub enum LimitKind {
    /// `memory_mb`
    Memory,
    /// `memory_alarm_mb`
    MemoryAlarm,
    /// `cpu_percent`
    Cpu,
    /// `processes`
    Processes,
    /// `open_files`
    OpenFiles,
    /// `output_mb`
    Output,
    /// `run_time_s`
    RunTime,
}

impl LimitKind {
    /// All of them, in the order of the fields.
    pub const ALL: [Self; 7] = [
        Self::Memory,
        Self::MemoryAlarm,
        Self::Cpu,
        Self::Processes,
        Self::OpenFiles,
        Self::Output,
        Self::RunTime,
    ];

    /// The field of [`Limits`] that says it.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Memory => "memory_mb",
            Self::MemoryAlarm => "memory_alarm_mb",
            Self::Cpu => "cpu_percent",
            Self::Processes => "processes",
            Self::OpenFiles => "open_files",
            Self::Output => "output_mb",
            Self::RunTime => "run_time_s",
        }
    }

    /// The least and the most that it may be.
    #[must_use]
    pub const fn range(self) -> (u32, u32) {
        match self {
            Self::Memory | Self::MemoryAlarm => (1, bounds::MEMORY_MB),
            Self::Cpu => (1, bounds::CPU_PERCENT),
            Self::Processes => (1, bounds::PROCESSES),
            Self::OpenFiles => bounds::OPEN_FILES,
            Self::Output => (1, bounds::OUTPUT_MB),
            Self::RunTime => (1, bounds::TIMEOUT_S),
        }
    }
}

impl Limits {
    /// What it says of one kind.
    #[must_use]
    pub const fn of(&self, kind: LimitKind) -> Option<u32> {
        match kind {
            LimitKind::Memory => self.memory_mb,
            LimitKind::MemoryAlarm => self.memory_alarm_mb,
            LimitKind::Cpu => self.cpu_percent,
            LimitKind::Processes => self.processes,
            LimitKind::OpenFiles => self.open_files,
            LimitKind::Output => self.output_mb,
            LimitKind::RunTime => self.run_time_s,
        }
    }

    /// The limits of all kinds, each made of its kind.
    #[must_use]
    pub fn from_each(limit: impl Fn(LimitKind) -> Option<u32>) -> Self {
        Self {
            memory_mb: limit(LimitKind::Memory),
            memory_alarm_mb: limit(LimitKind::MemoryAlarm),
            cpu_percent: limit(LimitKind::Cpu),
            processes: limit(LimitKind::Processes),
            open_files: limit(LimitKind::OpenFiles),
            output_mb: limit(LimitKind::Output),
            run_time_s: limit(LimitKind::RunTime),
        }
    }

    /// Those that are set.
    pub fn set(&self) -> impl Iterator<Item = (LimitKind, u32)> + '_ {
        LimitKind::ALL.into_iter().filter_map(|kind| Some((kind, self.of(kind)?)))
    }

    /// The first that is above that of `most`: the kind, its value, and the most that it may be.
    #[must_use]
    pub fn above(&self, most: &Limits) -> Option<(LimitKind, u32, u32)> {
        self.set().find_map(|(kind, value)| Some((kind, value, most.of(kind).filter(|most| value > *most)?)))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The limits of a group's attempts.
#[vocabulary(Copy, Eq, Default)]
#[serde(default, deny_unknown_fields)]
pub struct GroupLimits {
    /// Where neither the job nor the worker's type of job names a limit.
    #[serde(skip_serializing_if = "Limits::is_empty")]
    pub default: Limits,
    /// The most that a job may name. It is the limit, too, where nothing else is.
    #[serde(skip_serializing_if = "Limits::is_empty")]
    pub max: Limits,
}

/// How a worker keeps a limit.
#[vocabulary(Copy, Eq, Word)]
pub enum LimitMeans {
    /// The kernel does, by a control group of the attempt.
    ControlGroup,
    /// The worker looks at the processes once a second, and ends those of an attempt that is beyond it.
    Looks,
    /// It cannot.
    Nothing,
}

/// How a worker keeps the limits that not every system can keep.
#[vocabulary(Copy, Eq)]
pub struct LimitsKept {
    /// `memory_mb`
    pub memory: LimitMeans,
    /// `cpu_percent`
    pub cpu: LimitMeans,
    /// `processes`
    pub processes: LimitMeans,
}

/// What an attempt wanted more of than there was.
#[vocabulary(Copy, Eq, PartialOrd, Ord, Word)]
pub enum ExcessKind {
    /// Memory, beyond its own limit: a process of it was ended, or all were.
    Memory,
    /// Memory, beyond that of its host: the kernel ended a process of it.
    HostMemory,
    /// Memory, beyond the amount at which an alarm is raised. It went on.
    MemoryAlarm,
    /// Processes: some could not be started, or all were ended.
    Processes,
    /// Output, beyond what its log keeps.
    Output,
}

impl ExcessKind {
    /// Whether it can be reported of an attempt that goes on. An end by want of memory is only judged when it is over.
    #[must_use]
    pub const fn is_of_running(self) -> bool {
        match self {
            Self::MemoryAlarm | Self::Processes | Self::Output => true,
            Self::Memory | Self::HostMemory => false,
        }
    }
}

/// An attempt wanted more than there was.
#[vocabulary(Copy, Eq)]
pub struct Excess {
    /// Of what.
    pub kind: ExcessKind,
    /// The limit: MiB of memory or output, else a number. Absent: the host set it.
    pub limit: Option<u32>,
    /// The most that was seen, in the same unit; absent: nobody saw it.
    pub seen: Option<u32>,
}

/// The same of an attempt that runs.
#[vocabulary(Copy, Eq)]
pub struct RunningExcess {
    /// Which attempt.
    pub token: Token,
    /// What it wants.
    #[serde(flatten)]
    pub excess: Excess,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EXE-2: a limit is compared with the one of the same kind, and what is not bounded is not above it.
    #[test]
    fn a_limit_is_above_another_of_its_kind_alone() {
        let most = Limits { memory_mb: Some(512), processes: Some(10), ..Limits::default() };
        let below = Limits { memory_mb: Some(512), cpu_percent: Some(900), ..Limits::default() };
        assert_eq!(below.above(&most), None);
        let above = Limits { processes: Some(11), ..below };
        assert_eq!(above.above(&most), Some((LimitKind::Processes, 11, 10)));
        assert_eq!(Limits::default().above(&most), None);
    }

    /// EXE-2: every field has a kind, and every kind its field.
    #[test]
    fn every_field_has_its_kind() {
        let all = Limits::from_each(|kind| Some(kind.range().1));
        let written = serde_json::to_value(all).unwrap();
        for kind in LimitKind::ALL {
            assert_eq!(written[kind.field()], kind.range().1, "{}", kind.field());
            assert_eq!(all.of(kind), Some(kind.range().1));
        }
        assert_eq!(written.as_object().unwrap().len(), LimitKind::ALL.len());
        assert_eq!(serde_json::from_value::<Limits>(written).unwrap(), all);
        assert!(serde_json::from_str::<Limits>(r#"{"memory": 1}"#).is_err());
    }
}
