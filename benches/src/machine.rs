//! The machine, in words.

use std::fs;
use std::path::Path;

use crate::place;

/// Processor, memory, kernel and file systems, one line each.
pub(crate) fn describe() -> Vec<String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let model = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned());
    let kib = field("/proc/meminfo", "MemTotal");
    let kib = kib.and_then(|text| text.split(' ').next()?.parse::<f64>().ok()).unwrap_or(0.0);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let file_system =
        |path: &Path| place::file_system(path).unwrap_or_else(|| "of an unknown kind".to_owned());
    vec![
        format!("processor: {model}, {cores} cores"),
        format!("memory: {:.0} GiB", kib / f64::from(1 << 20)),
        format!("kernel: Linux {}", kernel.trim()),
        format!(
            "file system of logs and tables: {}; of the attempts' directories of *processes*: {}",
            file_system(&place::on_disk()),
            file_system(&place::in_memory()),
        ),
    ]
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
