//! How the machine stands: memory and load, as `/proc` says them, and the clock that leases count on.

use std::fs;
use std::num::NonZeroUsize;

use rustix::time::{ClockId, clock_gettime};
use tidemill_model::Measure;

/// Now; `limit_mb` is what jobs may have of the machine's memory. Absent where `/proc` does not say it.
pub(crate) fn measure(limit_mb: Option<u32>) -> Option<Measure> {
    let memory = fs::read_to_string("/proc/meminfo").ok()?;
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    of_texts(&memory, &load, processors, limit_mb)
}

fn of_texts(memory: &str, load: &str, processors: usize, limit_mb: Option<u32>) -> Option<Measure> {
    let kib = |name: &str| {
        let line = memory.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let mib = |kib: u64| u32::try_from(kib / 1024).unwrap_or(u32::MAX);
    let (all, free) = (mib(kib("MemTotal")?), mib(kib("MemAvailable")?));
    let total = limit_mb.map_or(all, |limit| limit.min(all));
    let hundredths: f64 = load.split_whitespace().next()?.parse::<f64>().ok()? * 100.0;
    let load_percent = (hundredths / processors as f64).round().clamp(0.0, f64::from(u32::MAX)) as u32;
    Some(Measure { memory_total_mb: total, memory_free_mb: free.min(total), load_percent })
}

/// Whether what a worker of this process starts can outlive it: not in a container, where all ends together with its first
/// process. The kernel gives the machine's own process namespace this number, and no other.
#[must_use]
pub fn jobs_can_outlive_their_worker() -> bool {
    const OF_THE_MACHINE: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").is_ok_and(|namespace| namespace.as_os_str() == OF_THE_MACHINE)
}

/// CLOCK_BOOTTIME, in milliseconds: it goes on while the machine sleeps.
pub(crate) fn boottime_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or(0) * 1000 + nanos.unwrap_or(0) / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: &str =
        "MemTotal:       16384000 kB\nMemFree:          204800 kB\nMemAvailable:    8192000 kB\n";

    /// EXE-8, MON-7: memory that can be had, not just what is free, and load by processor.
    #[test]
    fn memory_and_load_are_read_from_proc() {
        let measured = of_texts(MEMORY, "3.00 1.00 0.50 1/200 999\n", 2, None);
        let whole = Measure { memory_total_mb: 16_000, memory_free_mb: 8_000, load_percent: 150 };
        assert_eq!(measured, Some(whole));
        let limited = Measure { memory_total_mb: 4_000, memory_free_mb: 4_000, load_percent: 150 };
        assert_eq!(of_texts(MEMORY, "3.00", 2, Some(4_000)), Some(limited));
        assert_eq!(of_texts("", "3.00", 2, None), None);
    }

    #[test]
    fn this_machine_says_how_it_stands() {
        let measured = measure(None).expect("a Linux machine");
        assert!(measured.memory_total_mb > 0 && measured.memory_free_mb <= measured.memory_total_mb);
    }
}
