//! What is to be reached, and whether it was.

use crate::fairness::{BESIDE_ALONE, RELEASES_BEYOND, TOGETHER_ALONE};
use crate::files::{APPLIED, VALIDATED};
use crate::logs::{BESIDE, FIRST_BYTE, FOLLOWED_P99};
use crate::pages::{OF_ALL, OF_FEW};
use crate::pull::GROWTH;
use crate::row::Row;
use crate::running::{ADOPTED, MEMORY};

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
    MsPerHop,
    /// From the request to the start of what it asks for.
    StartMedianMs,
    /// Of those, what 99 of 100 do not pass.
    StartP99Ms,
    /// What 99 of 100 do not pass.
    P99Ms,
    /// How far the tables are behind, 99 of 100.
    LagP99Ms,
    /// Of all that is counted.
    Seconds,
    BytesPerWaiting,
    /// Of the machine's limit.
    Ratio,
    /// Beside others, as a multiple of alone.
    BesideAlone,
    /// With others that come at the same moment, as a multiple of alone.
    TogetherAlone,
    /// Slots that became free beyond what was declared.
    Beyond,
    /// Of a shim.
    ShimKib,
    /// Of all attempts that run.
    Adopted,
    /// Of all files, without a server.
    Validated,
    /// Of all files, as one.
    Applied,
    /// What 99 of 100 requests do not pass.
    RequestP99Ms,
    /// Records that came to the log.
    Growth,
    /// Of a log of 1 GB.
    FirstByteMs,
    /// Of a line that was printed.
    FollowedP99Ms,
    /// Of a start, beside a job that prints gigabytes.
    BesidePrinter,
    /// Of a page of a million batches.
    PageMs,
    /// The same, for who may see three jobs of many.
    PageOfFewMs,
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

const EMBEDDED: Option<&str> = Some("embedded");
const KAFKA: Option<&str> = Some("kafka");

const TARGETS: [Target; 35] = [
    target("lifecycle", EMBEDDED, Figure::PerSecond, 30_000.0),
    target("lifecycle", KAFKA, Figure::PerSecond, 15_000.0),
    target("chain", EMBEDDED, Figure::MsPerHop, 0.4),
    target("chain", KAFKA, Figure::MsPerHop, 2.5),
    target("latency", EMBEDDED, Figure::StartMedianMs, 0.6),
    target("latency", EMBEDDED, Figure::StartP99Ms, 2.0),
    target("latency", KAFKA, Figure::StartMedianMs, 2.0),
    target("latency", KAFKA, Figure::StartP99Ms, 6.0),
    target("fan", EMBEDDED, Figure::PerSecond, 30_000.0),
    target("fan", KAFKA, Figure::PerSecond, 15_000.0),
    target("burst", None, Figure::Seconds, 0.6),
    target("lag", None, Figure::LagP99Ms, 1_000.0),
    target("processes", EMBEDDED, Figure::Ratio, 0.7),
    target("processes", KAFKA, Figure::Ratio, 0.5),
    target("running", None, Figure::ShimKib, 1_024.0),
    target("running", None, Figure::Adopted, 2.0),
    target("placement", None, Figure::P99Ms, 100.0),
    target("placement-backlog", None, Figure::P99Ms, 100.0),
    target("waiting", None, Figure::BytesPerWaiting, 500.0),
    target("fairness", None, Figure::BesideAlone, 2.0),
    target("fairness", None, Figure::TogetherAlone, 2.0),
    target("ageing", None, Figure::Beyond, 0.0),
    target("logs", None, Figure::FirstByteMs, 50.0),
    target("logs", None, Figure::FollowedP99Ms, 1_000.0),
    target("logs", None, Figure::BesidePrinter, 1.0),
    target("pages", None, Figure::PageMs, 50.0),
    target("pages", None, Figure::PageOfFewMs, 50.0),
    target("files", None, Figure::Validated, 2.0),
    target("files", None, Figure::Applied, 10.0),
    target("pull-64", EMBEDDED, Figure::PerSecond, 15_000.0),
    target("pull-64", KAFKA, Figure::PerSecond, 8_000.0),
    target("pull-64", EMBEDDED, Figure::RequestP99Ms, 15.0),
    target("pull-64", KAFKA, Figure::RequestP99Ms, 25.0),
    target("pull-empty", None, Figure::PerSecond, 20_000.0),
    target("pull-empty", None, Figure::Growth, 0.0),
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
            Figure::MsPerHop => Some(1_000.0 / row.per_second),
            Figure::StartMedianMs => row.p50_ms,
            Figure::P99Ms | Figure::StartP99Ms | Figure::LagP99Ms | Figure::RequestP99Ms => row.p99_ms,
            Figure::Seconds => Some(row.n as f64 / row.per_second),
            Figure::BytesPerWaiting => row.bytes_per_waiting,
            Figure::Ratio => Some(row.ratio),
            Figure::BesideAlone => row.figure(BESIDE_ALONE),
            Figure::TogetherAlone => row.figure(TOGETHER_ALONE),
            Figure::Beyond => row.figure(RELEASES_BEYOND),
            Figure::ShimKib => row.figure(MEMORY),
            Figure::Adopted => row.figure(ADOPTED),
            Figure::Validated => row.figure(VALIDATED),
            Figure::Applied => row.figure(APPLIED),
            Figure::Growth => row.figure(GROWTH),
            Figure::FirstByteMs => row.figure(FIRST_BYTE),
            Figure::FollowedP99Ms => row.figure(FOLLOWED_P99),
            Figure::BesidePrinter => row.figure(BESIDE),
            Figure::PageMs => row.figure(OF_ALL),
            Figure::PageOfFewMs => row.figure(OF_FEW),
        }
    }

    fn is_floor(self) -> bool {
        matches!(self, Figure::PerSecond | Figure::Ratio)
    }

    fn show(self, value: f64) -> String {
        match self {
            Figure::PerSecond => format!("{value:.0} per second"),
            Figure::MsPerHop => format!("{value:.2} ms per hop"),
            Figure::StartMedianMs => format!("{value:.2} ms until it is started, median"),
            Figure::StartP99Ms => format!("{value:.2} ms until it is started, 99 of 100"),
            Figure::P99Ms => format!("{value:.2} ms until it is assigned, 99 of 100"),
            Figure::LagP99Ms => format!("{value:.2} ms until tables show it, 99 of 100"),
            Figure::Seconds => format!("{value:.2} s until the last is generated"),
            Figure::BytesPerWaiting => format!("{value:.0} bytes per waiting batch"),
            Figure::Ratio => format!("{value:.2} of what the machine can start"),
            Figure::BesideAlone => format!("{value:.2} times as long as alone, 99 of 100"),
            Figure::TogetherAlone => format!("{value:.2} times as long as alone, coming together, 99 of 100"),
            Figure::Beyond => format!("{value:.0} slots beyond the bound"),
            Figure::ShimKib => format!("{value:.0} KiB for a shim"),
            Figure::Adopted => format!("{value:.2} s until all are taken over"),
            Figure::Validated => format!("{value:.2} s until all are checked"),
            Figure::Applied => format!("{value:.2} s until all are applied"),
            Figure::RequestP99Ms => format!("{value:.2} ms of a request, 99 of 100"),
            Figure::Growth => format!("{value:.0} {GROWTH}"),
            Figure::PageMs => format!("{value:.2} ms for a page"),
            Figure::PageOfFewMs => format!("{value:.2} ms for a page of who may see little"),
            Figure::FirstByteMs => format!("{value:.2} ms until the first byte"),
            Figure::FollowedP99Ms => format!("{value:.0} ms until followers have a line, 99 of 100"),
            Figure::BesidePrinter => {
                format!("{value:.2} times as long beside a printer as beside a silent job")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::example;

    #[test]
    fn figure_beyond_its_bound_misses() {
        let good = Row { per_second: 15_000.0, ..example() };
        let bad = Row { per_second: 14_999.0, ..good.clone() };
        let slow = Row { workload: "chain".to_owned(), per_second: 399.0, ..good.clone() };
        let met: Vec<bool> = verdicts(&[good, bad, slow]).iter().map(|verdict| verdict.is_met).collect();
        assert_eq!(met, [true, false, false]);
    }

    /// C6: fairness is judged by its ratio, placement by what 99 of 100 do not pass.
    #[test]
    fn placement_and_fairness_have_targets_of_their_own() {
        let of = |workload: &str| Row { workload: workload.to_owned(), ..example() };
        let placement = |p99_ms| Row { p99_ms: Some(p99_ms), ..of("placement") };
        let fairness = |ratio| of("fairness").with(BESIDE_ALONE, ratio);
        let together = |ratio| of("fairness").with(TOGETHER_ALONE, ratio);
        let ageing = |beyond| of("ageing").with(RELEASES_BEYOND, beyond);
        let rows = [
            placement(99.0),
            placement(101.0),
            fairness(1.9),
            fairness(2.1),
            together(1.9),
            together(2.1),
            ageing(-3.0),
            ageing(0.0),
            ageing(1.0),
        ];
        let met: Vec<bool> = verdicts(&rows).iter().map(|verdict| verdict.is_met).collect();
        assert_eq!(met, [true, false, true, false, true, false, true, true, false]);
    }

    #[test]
    fn each_back_end_has_its_own_targets() {
        let latency = Row { workload: "latency".to_owned(), p99_ms: Some(5.0), ..example() };
        let embedded = Row { backend: "embedded".to_owned(), ..latency.clone() };
        let met: Vec<bool> = verdicts(&[latency, embedded]).iter().map(|verdict| verdict.is_met).collect();
        assert_eq!(met, [false, false, true, true]);
    }
}
