//! Rows, and how they are shown.

use serde::{Deserialize, Serialize};

/// One measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) workload: String,
    pub(crate) backend: String,
    /// Batches, or hops of a chain.
    pub(crate) n: usize,
    pub(crate) per_second: f64,
    /// Milliseconds; of a chain per hop, of *latency* from submitting to started, else from generated to finished.
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    /// Processor time of this process and its children, seconds.
    pub(crate) cpu_s: f64,
    pub(crate) peak_rss_mb: f64,
    /// What the machine gives without Tidemill, in the unit that `raw_unit` names.
    pub(crate) raw_limit: f64,
    pub(crate) raw_unit: String,
    /// Of throughput: per_second / raw_limit. Of times: p50_ms / raw_limit.
    pub(crate) ratio: f64,
    /// Resident bytes per waiting batch, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_per_waiting: Option<f64>,
}

pub(crate) fn percentile(values: &mut [f64], part: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    values.get((last as f64 * part).round() as usize).copied()
}

/// Processor seconds and peak resident megabytes so far.
pub(crate) fn usage() -> (f64, f64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = field_kib(&status, "VmHWM:") / 1024.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name in parentheses: state is field 3; utime, stime, cutime, cstime are 14 to 17.
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks: f64 = after_name.split(' ').skip(11).take(4).filter_map(|n| n.parse::<f64>().ok()).sum();
    (ticks / 100.0, peak)
}

/// Resident bytes now.
pub(crate) fn resident() -> f64 {
    field_kib(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), "VmRSS:") * 1024.0
}

fn field_kib(status: &str, name: &str) -> f64 {
    let line = status.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_whitespace().nth(1)).and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

pub(crate) fn line(row: &Row) -> String {
    format!("{} on {}: {:.0}/s, ratio {:.3}", row.workload, row.backend, row.per_second, row.ratio)
}

/// A Markdown table.
pub(crate) fn table(rows: &[Row]) -> String {
    let head = "| workload | backend | n | per second | p50 ms | p99 ms | cpu s | peak MB | raw limit | ratio | bytes per waiting batch |";
    let rule = "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|";
    let milliseconds = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
    let line = |row: &Row| {
        let cells = [
            row.workload.clone(),
            row.backend.clone(),
            row.n.to_string(),
            format!("{:.0}", row.per_second),
            milliseconds(row.p50_ms),
            milliseconds(row.p99_ms),
            format!("{:.1}", row.cpu_s),
            format!("{:.0}", row.peak_rss_mb),
            format!("{:.2} {}", row.raw_limit, row.raw_unit),
            format!("{:.3}", row.ratio),
            row.bytes_per_waiting.map_or_else(String::new, |bytes| format!("{bytes:.0}")),
        ];
        format!("| {} |", cells.join(" | "))
    };
    let lines = [head.to_owned(), rule.to_owned()].into_iter().chain(rows.iter().map(line));
    lines.collect::<Vec<_>>().join("\n")
}
