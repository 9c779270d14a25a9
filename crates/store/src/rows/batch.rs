//! Batches, what they wait for, and their attempts.

use std::sync::Arc;

use crate::Kind::{Bool, Int, Json, Name, Text, Time};
use crate::Shown::{As, Hidden, Words};
use crate::table::row;

row! {
    /// A batch: one run of a job for one logical time.
    BatchRow in "batches", key (id: i64),
    fixed (job_id, job_version, calendar_version, job_name, group_name, job_type, logical_time, run, origin, rerun_id, rerun_number, triggered_by, parameters, counted_parents, generated_at),
    indexes [[generated_at], [job_id, generated_at], [group_name, generated_at], [triggered_by, generated_at], [state, result, generated_at]] {
        /// Its id. Grows within a job.
        id: i64 = Int,
        /// Its job.
        job_id: i64 = Int => As("job"),
        /// The version of the definition that it keeps.
        job_version: i64 = Int,
        /// The version of the calendar that its job keeps to, when it was generated.
        calendar_version: Option<i64> = Int,
        /// Its job's name when it was generated.
        job_name: Arc<str> = Name(200),
        /// Its job's group.
        group_name: Arc<str> = Name(64) => As("group"),
        /// What kind of program it is.
        job_type: Arc<str> = Name(32) => As("type"),
        /// For which logical time.
        logical_time: i64 = Time,
        /// 0 for the first, then + 1.
        run: i64 = Int,
        /// Where it came from: `schedule`, `parent`, `manual`, `rerun`, `cold_start` or `submission`.
        origin: Arc<str> = Name(16),
        /// The rerun or cold start whose plan it belongs to.
        rerun_id: Option<i64> = Int => As("rerun"),
        /// Its number in that plan.
        rerun_number: Option<i64> = Int,
        /// Who asked for it: application, or application/person; null: its schedule or a parent made it, or a plan, which says who
        /// requested that.
        triggered_by: Option<Arc<str>> = Name(300),
        /// Parameters over those of the definition.
        parameters: Arc<str> = Json,
        /// How far it is.
        state: i64 = Int => Words(&["waiting", "assigned", "running", "finished"]),
        /// Once finished: `success`, `failed`, `killed` or `skipped`.
        result: Option<Arc<str>> = Name(16),
        /// Parents' dependencies that are not met.
        unmet: i64 = Int,
        /// Parents at its own logical time that are not among its dependencies, for they are many: those of its job. Those
        /// that are not met count in `unmet`.
        counted_parents: i64 = Int,
        /// Number of the newest attempt, from 1; 0: it was never assigned.
        attempt: i64 = Int,
        /// How many attempts were granted.
        attempts: i64 = Int => As("attempt_count"),
        /// How many assignments came back without an attempt.
        returned: i64 = Int => As("return_count"),
        /// The worker that has it, or had it last.
        worker_id: Option<Arc<str>> = Name(512) => As("worker"),
        /// The assignment that counts, while assigned or running.
        token: Option<i64> = Int,
        /// For people: why it ended as it did, or why it came back.
        message: Arc<str> = Text,
        /// Who ended it, or wants it ended: application, or application/person.
        killed_by: Option<Arc<str>> = Text,
        /// When it came into being.
        generated_at: i64 = Time,
        /// When its last parent's dependency was met.
        ready_at: Option<i64> = Time,
        /// When it was assigned, the last time.
        assigned_at: Option<i64> = Time,
        /// When the worker must have asked to start.
        start_by: Option<i64> = Time,
        /// When the process of its first attempt was reported to run.
        started_at: Option<i64> = Time,
        /// No further attempt before.
        retry_at: Option<i64> = Time,
        /// When somebody asked for its end.
        kill_requested_at: Option<i64> = Time,
        /// When it ended.
        finished_at: Option<i64> = Time,
        /// It is not assigned before.
        earliest_start_at: Option<i64> = Time,
        /// When it was marked for still waiting, its dependency timeout past.
        dependency_timeout_at: Option<i64> = Time,
        /// When it was marked for not having succeeded, its output timeout past.
        output_timeout_at: Option<i64> = Time,
        /// When it was marked for not having succeeded by its time of day.
        not_successful_by_at: Option<i64> = Time,
        /// Since when a failed parent blocks it: what it waits for comes only if somebody acts.
        blocked_since: Option<i64> = Time,
        /// The parent that failed, or is blocked itself.
        blocked_by: Option<i64> = Int,
        /// For this logical time.
        blocked_by_time: Option<i64> = Time,
        /// How a person says that it ended: `success`, `failed` or `skipped`.
        overridden_result: Option<Arc<str>> = Name(16),
        /// When they said so.
        result_overridden_at: Option<i64> = Time,
        /// Who: application, or application/person.
        result_overridden_by: Option<Arc<str>> = Text,
        /// Why.
        result_override_reason: Option<Arc<str>> = Text,
        /// The token of its final command, while a worker has it and after.
        final_token: Option<i64> = Int,
        /// How that ended: `success`, `failed`, `timed_out`, `lost` or `not_run`.
        final_result: Option<Arc<str>> = Name(16),
        /// For people: why it ended as it did.
        final_message: Option<Arc<str>> = Text,
        /// When its end was recorded.
        final_ended_at: Option<i64> = Time,
    }
}

row! {
    /// A path that a batch makes, as its job says it. Batches that were generated before these were recorded have none.
    BatchOutputRow in "batch_outputs", key (batch_id: i64, position: i64),
    fixed (path, mark), indexes [] {
        /// The batch that makes it.
        batch_id: i64 = Int => Hidden,
        /// Its place in the list of the job, from 1; what resolves to the same path stands once.
        position: i64 = Int => Hidden,
        /// The path, templates resolved for the batch's logical time.
        path: Arc<str> = Text,
        /// Name of the file in it that says that it is complete.
        mark: Option<Arc<str>> = Text,
    }
}

row! {
    /// A logical time of a parent that a batch waits for, or waited for; where it waits for very many, `batches` counts
    /// those of its own logical time, and they have no rows.
    BatchDependencyRow in "batch_dependencies", key (batch_id: i64, parent_id: i64, logical_time: i64),
    fixed (mapping), indexes [[parent_id, logical_time]] {
        /// The batch that waits.
        batch_id: i64 = Int => Hidden,
        /// The job waited for.
        parent_id: i64 = Int => As("parent"),
        /// Its logical time.
        logical_time: i64 = Time,
        /// The mappings that gave this time, `same`, `offset`, `all`, `latest`, `any`, with commas between.
        mapping: Arc<str> = Text,
        /// Whether it holds.
        met: bool = Bool,
        /// Since when.
        met_at: Option<i64> = Time,
    }
}

row! {
    /// An attempt: one granted execution of a batch on one worker.
    AttemptRow in "attempts", key (id: i64),
    fixed (batch_id, job_id, attempt, worker_id, incarnation, granted_at), indexes [[batch_id], [job_id], [worker_id]] {
        /// The token that fences it.
        id: i64 = Int,
        /// Its batch.
        batch_id: i64 = Int => As("batch"),
        /// Its job.
        job_id: i64 = Int => As("job"),
        /// Its number, from 1.
        attempt: i64 = Int,
        /// On which worker.
        worker_id: Arc<str> = Name(512) => As("worker"),
        /// Which life of that worker.
        incarnation: Arc<str> = Text => Hidden,
        /// When the worker was allowed to start.
        granted_at: i64 = Time,
        /// When the process was reported to run.
        started_at: Option<i64> = Time,
        /// When its end was recorded.
        finished_at: Option<i64> = Time,
        /// `success`, `failed`, `killed`, `lost` or `timed_out`.
        result: Option<Arc<str>> = Name(16),
        /// Whether its worker ended it because it was stopped itself: then it used up no retry.
        interrupted: bool = Bool,
        /// Exit code, where there was one.
        exit_code: Option<i64> = Int,
        /// Signal, where one ended it.
        signal_number: Option<i64> = Int => As("signal"),
        /// The code that its program reported: 0 if it ever did, else the last one.
        user_code: Option<i64> = Int,
        /// For people.
        message: Arc<str> = Text,
        /// Small values that it passed on to children.
        passed_values: Arc<str> = Json => As("values"),
        /// From exec to the end of the process tree, milliseconds.
        duration_ms: Option<i64> = Int,
        /// User and system time, milliseconds.
        cpu_ms: Option<i64> = Int,
        /// The most memory of all its processes together that was seen, or of the largest one, KiB.
        peak_memory_kib: Option<i64> = Int,
        /// The most processes and threads at once that were seen.
        peak_processes: Option<i64> = Int,
        /// Read from disks, KiB.
        read_kib: Option<i64> = Int,
        /// Written to disks, KiB.
        written_kib: Option<i64> = Int,
        /// What it wanted more of than there was for it: `memory`, `host_memory`, `memory_alarm`, `processes` or `output`.
        excess: Option<Arc<str>> = Name(16),
        /// The limit of that: MiB of memory or output, else a number.
        excess_limit: Option<i64> = Int,
        /// The most that was seen of it, in the same unit.
        excess_seen: Option<i64> = Int,
        /// Limits that it had and that its worker could not keep.
        unenforced_limits: Arc<str> = Json,
        /// Ids of what it has started elsewhere: applications of YARN, containers, pods.
        external_work: Arc<str> = Json,
        /// Whether it ended and nobody confirmed that all of that has ended.
        external_work_unconfirmed: bool = Bool,
    }
}

row! {
    /// An assignment that ended without an attempt.
    AssignmentReturnRow in "assignment_returns", key (token: i64),
    fixed (batch_id, job_id, attempt, worker_id, assigned_at, returned_at, reason, message), indexes [[batch_id]] {
        /// The assignment.
        token: i64 = Int,
        /// Its batch.
        batch_id: i64 = Int => Hidden,
        /// Its job.
        job_id: i64 = Int => Hidden,
        /// The attempt that it would have been.
        attempt: i64 = Int,
        /// Who had it.
        worker_id: Arc<str> = Name(512) => As("worker"),
        /// Since when.
        assigned_at: Option<i64> = Time,
        /// Until when.
        returned_at: i64 = Time,
        /// `rejected`, `not_started`, `worker_lost` or `worker_restarted`.
        reason: Arc<str> = Name(32),
        /// What the worker said.
        message: Arc<str> = Text,
    }
}

row! {
    /// The user-code log: a code that the program of an attempt reported. Codes that were refused are not in it.
    UserCodeRow in "user_code_reports", key (journal_partition: i64, journal_offset: i64, event_index: i64),
    fixed (batch_id, job_id, attempt_id, attempt, code, effective_code, reported_at), indexes [[batch_id], [job_id]] {
        /// Partition of the journal that holds the fact.
        journal_partition: i64 = Int => Hidden,
        /// Its offset there.
        journal_offset: i64 = Int => Hidden,
        /// Its place in that record, from 0.
        event_index: i64 = Int => Hidden,
        /// Its batch.
        batch_id: i64 = Int => Hidden,
        /// Its job.
        job_id: i64 = Int => Hidden,
        /// The token of the attempt, as in `attempts`.
        attempt_id: i64 = Int => Hidden,
        /// The attempt's number, from 1.
        attempt: i64 = Int,
        /// 0: success; anything else: failure.
        code: i64 = Int,
        /// The code that counted for the attempt from this report on.
        effective_code: i64 = Int,
        /// When.
        reported_at: i64 = Time,
    }
}
