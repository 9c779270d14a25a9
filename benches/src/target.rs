//! What is to be reached, and whether it was.

use crate::row::Row;

/// One figure that is to be reached.
struct Target {
    workload: &'static str,
    /// Absent: on every back end.
    backend: Option<&'static str>,
    figure: Figure,
    bound: f64,
}

#[derive(Clone, Copy)]
enum Figure {
    PerSecond,
    MedianMs,
    /// Of all that is counted.
    Seconds,
    BytesPerWaiting,
    /// Of the machine's limit.
    Ratio,
}

/// Whether a target was reached.
#[derive(Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) workload: &'static str,
    pub(crate) backend: String,
    pub(crate) target: String,
    pub(crate) measured: String,
    pub(crate) is_met: bool,
}

const fn target(workload: &'static str, backend: Option<&'static str>, figure: Figure, bound: f64) -> Target {
    Target { workload, backend, figure, bound }
}

const TARGETS: [Target; 8] = [
    target("lifecycle", Some("embedded"), Figure::PerSecond, 10_000.0),
    target("lifecycle", Some("kafka"), Figure::PerSecond, 5_000.0),
    target("chain", Some("embedded"), Figure::MedianMs, 1.5),
    target("chain", Some("kafka"), Figure::MedianMs, 8.0),
    target("fan", None, Figure::PerSecond, 5_000.0),
    target("burst", None, Figure::Seconds, 3.0),
    target("burst", None, Figure::BytesPerWaiting, 1_536.0),
    target("processes", None, Figure::Ratio, 0.4),
];

/// Every target, for each row that it is about.
pub(crate) fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    TARGETS.iter().flat_map(|target| rows.iter().filter_map(|row| target.judge(row))).collect()
}

impl Target {
    fn judge(&self, row: &Row) -> Option<Verdict> {
        let is_about = self.workload == row.workload && self.backend.is_none_or(|name| name == row.backend);
        let measured = is_about.then(|| self.figure.of(row)).flatten()?;
        let is_met = if self.figure.is_floor() { measured >= self.bound } else { measured <= self.bound };
        let sign = if self.figure.is_floor() { '≥' } else { '≤' };
        Some(Verdict {
            workload: self.workload,
            backend: row.backend.clone(),
            target: format!("{sign} {}", self.figure.show(self.bound)),
            measured: self.figure.show(measured),
            is_met,
        })
    }
}

impl Figure {
    fn of(self, row: &Row) -> Option<f64> {
        match self {
            Figure::PerSecond => Some(row.per_second),
            Figure::MedianMs => row.p50_ms,
            Figure::Seconds => Some(row.n as f64 / row.per_second),
            Figure::BytesPerWaiting => row.bytes_per_waiting,
            Figure::Ratio => Some(row.ratio),
        }
    }

    fn is_floor(self) -> bool {
        match self {
            Figure::PerSecond | Figure::Ratio => true,
            Figure::MedianMs | Figure::Seconds | Figure::BytesPerWaiting => false,
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Figure::PerSecond => format!("{value:.0} per second"),
            Figure::MedianMs => format!("{value:.2} ms per hop, median"),
            Figure::Seconds => format!("{value:.2} s until the last is generated"),
            Figure::BytesPerWaiting => format!("{value:.0} bytes per waiting batch"),
            Figure::Ratio => format!("{value:.2} of what the machine can start"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::example;

    #[test]
    fn figure_beyond_its_bound_misses() {
        let good = example();
        let bad = Row { per_second: 4_999.0, ..good.clone() };
        let slow = Row { workload: "chain".to_owned(), p50_ms: Some(8.1), ..good.clone() };
        let met: Vec<bool> = verdicts(&[good, bad, slow]).iter().map(|verdict| verdict.is_met).collect();
        assert_eq!(met, [true, false, false]);
    }

    #[test]
    fn burst_has_two_targets_and_latency_none() {
        let burst = Row { workload: "burst".to_owned(), bytes_per_waiting: Some(900.0), ..example() };
        let latency = Row { workload: "latency".to_owned(), ..example() };
        assert_eq!(verdicts(&[burst, latency]).len(), 2);
    }
}
