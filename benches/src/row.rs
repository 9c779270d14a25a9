//! One measurement, as `docs/reference/benchmarks.json` has it.

use serde::{Deserialize, Serialize};

/// One measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) workload: String,
    pub(crate) backend: String,
    /// Of how many runs it is the one in the middle.
    pub(crate) runs: usize,
    /// Batches, or hops of a chain.
    pub(crate) n: usize,
    pub(crate) per_second: f64,
    /// Milliseconds; what of, says the workload.
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    /// Processor time of this process and of all that it started, seconds. A broker's is not in it.
    pub(crate) cpu_s: f64,
    pub(crate) peak_rss_mb: f64,
    /// What the machine gives without Tidemill, in the unit that `raw_unit` names.
    pub(crate) raw_limit: f64,
    /// Of throughput: per_second / raw_limit. Of times: p50_ms / raw_limit.
    pub(crate) ratio: f64,
    pub(crate) raw_unit: String,
    /// Resident bytes per waiting batch, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_per_waiting: Option<f64>,
    /// What else was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) more: Vec<More>,
    /// The file system of the attempts' directories, where there were attempts with processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attempts_on: Option<String>,
}

/// One figure that only some workloads have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct More {
    /// What it is, with its unit.
    pub(crate) figure: String,
    pub(crate) value: f64,
}

impl Row {
    /// Adds a figure.
    pub(crate) fn with(mut self, figure: &str, value: f64) -> Self {
        self.more.push(More { figure: figure.to_owned(), value });
        self
    }

    pub(crate) fn figure(&self, figure: &str) -> Option<f64> {
        self.more.iter().find(|more| more.figure == figure).map(|more| more.value)
    }
}

/// The value that so large a part of all does not exceed. Sorts them.
pub(crate) fn percentile(values: &mut [f64], part: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    values.get((last as f64 * part).round() as usize).copied()
}

#[cfg(test)]
pub(crate) fn example() -> Row {
    Row {
        workload: "lifecycle".to_owned(),
        backend: "kafka".to_owned(),
        runs: 3,
        n: 10,
        per_second: 5_000.0,
        p50_ms: Some(1.5),
        cpu_s: 0.5,
        peak_rss_mb: 20.0,
        raw_limit: 100_000.0,
        ratio: 0.05,
        raw_unit: "records/s".to_owned(),
        ..Row::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_has_the_fields_that_readers_know() {
        let value = serde_json::to_value(example()).unwrap();
        let fields: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        for known in [
            "workload",
            "backend",
            "n",
            "per_second",
            "p50_ms",
            "p99_ms",
            "cpu_s",
            "peak_rss_mb",
            "raw_limit",
            "ratio",
        ] {
            assert!(fields.contains(&known), "{known} is not among {fields:?}");
        }
    }

    #[test]
    fn percentile_of_nothing_is_none_and_of_few_is_one_of_them() {
        assert_eq!(percentile(&mut [], 0.5), None);
        assert_eq!(percentile(&mut [3.0, 1.0, 2.0], 0.5), Some(2.0));
        assert_eq!(percentile(&mut [3.0, 1.0, 2.0], 0.99), Some(3.0));
    }
}
