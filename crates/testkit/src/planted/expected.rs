//! Who has to notice which bug, and within how many histories.

use tidemill_planted::Bug;

use crate::plan::Fault;

/// What is expected of one bug.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// Which.
    pub bug: Bug,
    /// The rules of which one must be broken, the one that says it best first.
    pub by: &'static [&'static str],
    /// Within this many histories.
    pub within: u64,
    /// Faults that every history gets more of than its share.
    pub more: &'static [Fault],
    /// What is run.
    pub stage: Stage,
}

/// Where a bug is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// In a simulated history.
    Simulated,
    /// In one whose journals are projected as well.
    Projected,
    /// In one whose log is restored from a state before its end.
    Restored,
    /// In the embedded log of a process that is killed, and then the power is cut.
    PowerCut,
}

const fn bug(bug: Bug, by: &'static [&'static str], within: u64) -> Expected {
    Expected { bug, by, within, more: &[], stage: Stage::Simulated }
}

const fn with(more: &'static [Fault], expected: Expected) -> Expected {
    Expected { more, ..expected }
}

const fn of_tables(bug: Bug, within: u64) -> Expected {
    Expected { bug, by: &["projection_is_the_fold"], within, more: &[], stage: Stage::Projected }
}

const fn of_restore(bug: Bug, by: &'static [&'static str], within: u64) -> Expected {
    Expected { bug, by, within, more: &[], stage: Stage::Restored }
}

const fn of_power_cut(bug: Bug) -> Expected {
    Expected { bug, by: &["told_outlives_power_cut"], within: 20, more: &[], stage: Stage::PowerCut }
}

/// What happens in every history is found in few; what needs faults that meet, in many.
const FEW: u64 = 50;
const SOME: u64 = 200;
const MANY: u64 = 500;
/// What needs several that meet at one moment, as a program that says something just before its shim is killed.
const RARE: u64 = 4_000;

const PROCESSES: &[&str] = &["nothing_runs_after_its_end", "one_process_per_batch", "one_process_per_run"];

/// What ends, or begins, though a process may have begun under a right.
const RIGHTS: &[&str] = &[
    "one_process_per_batch",
    "one_process_per_run",
    "taken_back_is_not_begun",
    "begun_is_on_record",
    "nothing_runs_after_its_end",
    "rights_end_by_word_lease_or_time",
];

const LEASES: &[&str] =
    &["no_attempt_before_lease_over", "nothing_runs_after_its_end", "one_process_per_batch"];
const MOVED: &[&str] = &[
    "tasks_granted_only_when_due",
    "users_have_one_home",
    "pulls_answered_as_on_record",
    "earliest_task_first",
];
const KEPT: &[&str] = &["moved_jobs_keep_their_runs"];
const ASSIGNED: &[&str] = &["start_granted_only_to_assigned", "every_assignment_ends"];

/// All bugs.
pub const EXPECTED: &[Expected] = &[
    of_power_cut(Bug::JournalNotSynced),
    of_power_cut(Bug::IdleNotSynced),
    of_power_cut(Bug::OpenedWithoutSync),
    of_restore(Bug::GenerationForgotten, &["minted_ids_grow"], FEW),
    of_restore(
        Bug::RestoredNotHeld,
        &["no_attempt_before_lease_over", "only_allowed_transitions", "final_commands_once"],
        SOME,
    ),
    of_restore(Bug::StrayHoldsNothing, &["strays_hold_their_time"], MANY),
    of_restore(Bug::StrayEndsUnsaid, &["strays_end_as_attempts_do"], MANY),
    of_power_cut(Bug::QuestionNotSynced),
    bug(Bug::OwnerNotLookedUp, &["owner_is_in_the_directory"], SOME),
    bug(Bug::DirectoryForgetsWhoIsNamed, &["directory_names_nobody_who_is_not_there"], SOME),
    bug(Bug::ForeignParentTaken, &["parents_are_seen_or_depended_on"], SOME),
    bug(Bug::WhoLeavesStaysSignedIn, &["credentials_are_of_who_may_sign_in"], MANY),
    bug(Bug::LevelRaisedEarly, &["level_raised_when_all_read_it"], SOME),
    bug(Bug::KindWrittenBeforeLevel, &["nothing_above_the_level"], FEW),
    bug(Bug::BodyPackedBeforeLevel, &["nothing_above_the_level"], FEW),
    with(&[Fault::CrashHostWithZombies], bug(Bug::SnapshotByItsOwnHash, &["state_is_the_fold"], MANY)),
    bug(Bug::SnapshotOneRecordAhead, &["snapshot_is_the_fold"], FEW),
    bug(Bug::SnapshotForgetsOutcomes, &["snapshot_is_the_fold"], FEW),
    with(
        &[Fault::CrashHostWithZombies],
        bug(Bug::SnapshotRecordedUnmarked, &["snapshots_name_accepted_records"], MANY),
    ),
    with(&[Fault::RivalClaims], bug(Bug::ClaimsWithOneEpoch, &["chain_unbroken"], SOME)),
    with(&[Fault::CrashHostWithZombies], bug(Bug::EnvelopeWithoutChainCheck, &["chain_unbroken"], SOME)),
    with(&[Fault::UnknownLost], bug(Bug::AckBeforeDurable, &["acknowledged_is_on_record"], SOME)),
    with(&[Fault::UnknownLost], bug(Bug::EffectsBeforeReadBack, &["work_is_on_record"], SOME)),
    with(&[Fault::SlowReader], bug(Bug::TimerOvertakesFact, &["timers_never_overtake_commands"], SOME)),
    with(
        &[Fault::OverdueRejections],
        bug(Bug::OverdueRejectionAccepted, &["only_allowed_transitions", "one_process_per_batch"], SOME),
    ),
    bug(Bug::TimerFiredAgainAfterTakeover, &["one_generated_per_run"], FEW),
    bug(Bug::CommandSkippedAtTakeover, &["every_command_decided_once"], FEW),
    bug(Bug::LeaseCutShort, &["no_attempt_before_lease_over"], SOME),
    bug(Bug::VouchedWithoutKill, &["no_attempt_before_lease_over"], SOME),
    with(
        &[Fault::KillShim, Fault::KillShim],
        bug(Bug::CodeZeroForgotten, &["only_allowed_transitions"], RARE),
    ),
    bug(Bug::LeaseWarningRepeated, &["worker_lives_follow"], SOME),
    with(&[Fault::LostEffects], bug(Bug::OutboxGapSkipped, &["messages_between_shards_once_in_order"], SOME)),
    bug(Bug::OrphansNotRecorded, &["deleted_parents_on_record"], SOME),
    bug(Bug::ParentReleasedTooEarly, &["messages_between_shards_once_in_order"], MANY),
    bug(Bug::DeletedParentNotWaitedFor, &["deleted_parents_waited_for"], MANY),
    bug(Bug::TokensEqual, &["minted_ids_grow"], FEW),
    bug(Bug::DoubleGrant, &["start_granted_only_to_assigned"], SOME),
    bug(Bug::RetryCountOff, &["attempt_numbers_without_gaps"], FEW),
    bug(Bug::HostMemoryUsesUpRetry, &["host_memory_uses_up_no_retry"], FEW),
    bug(Bug::ExcessUntold, &["excesses_are_told"], FEW),
    bug(Bug::ExternalWorkFoundTwice, &["external_work_found_once"], FEW),
    bug(Bug::UnconfirmedEndForgotten, &["unconfirmed_ends_are_told"], SOME),
    with(&[Fault::DelayedCommands], bug(Bug::EndedLifeRegisters, &["worker_lives_follow"], MANY)),
    with(
        &[Fault::RebootWorker, Fault::KillShim, Fault::KillShim],
        bug(Bug::OldOutputProves, &["only_allowed_transitions"], MANY),
    ),
    bug(Bug::LostWithoutLook, &["lost_attempts_are_looked_for"], SOME),
    bug(Bug::UnconfirmedNotPassedOn, &["earlier_external_work_has_ended"], SOME),
    bug(Bug::RetryIntervalIgnored, &["retry_interval_kept"], FEW),
    bug(Bug::ClockADayAhead, &["now_not_ahead_of_the_log"], FEW),
    bug(Bug::RefusedDecidedAgain, &["one_outcome_per_request"], SOME),
    bug(Bug::LimitCheckedBeforeApply, &["running_never_above_limit"], FEW),
    bug(Bug::LateFinishAccepted, &["late_reports_change_nothing"], MANY),
    bug(Bug::ForeignFinishAccepted, &["late_reports_change_nothing"], SOME),
    bug(Bug::KilledTriesAgain, &["killed_stays_killed"], FEW),
    bug(Bug::DependencyForgotten, &["assigned_only_when_conditions_held"], FEW),
    bug(Bug::WaitsForSkipped, &["skipped_times_not_waited_for", "dependency_events_match_newest_runs"], FEW),
    bug(Bug::RerunNotToldToOtherGroups, &["watches_answered"], SOME),
    bug(Bug::FireLost, &["due_times_generated_or_skipped"], FEW),
    bug(Bug::RunNumberReused, &["one_generated_per_run"], FEW),
    bug(Bug::LostParameters, &["reruns_keep_their_facts"], SOME),
    bug(Bug::RefusedChangesState, &["state_is_the_fold"], FEW),
    bug(Bug::ReusedKeyDecided, &["one_outcome_per_request"], SOME),
    bug(Bug::MarkRefused, &["known_batches_can_be_marked"], SOME),
    bug(Bug::WorkForDrainedWorker, &["assigned_only_when_conditions_held"], FEW),
    bug(Bug::DrainEndsWithWorker, &["assigned_only_when_conditions_held"], MANY),
    bug(Bug::LeavingWorkerGetsWork, &["assigned_only_when_conditions_held"], SOME),
    bug(Bug::StopUsesUpRetry, &["stopped_attempts_use_no_retry"], SOME),
    bug(Bug::OtherAccount, &["parameters_stay_with_their_account"], SOME),
    bug(Bug::AccountNotAllowed, &["assigned_only_when_conditions_held"], SOME),
    bug(Bug::UnfinishedLostInMove, KEPT, SOME),
    bug(Bug::RunLostInMove, KEPT, SOME),
    bug(Bug::RunRepeatedInMove, KEPT, MANY),
    bug(Bug::ItemDecidedTwice, &["bulk_items_decided_once"], SOME),
    bug(Bug::ItemNeverDecided, &["bulk_items_decided_once"], SOME),
    bug(Bug::PermitGivenAgain, &["permits_accounted_for"], SOME),
    bug(Bug::OneSlotTooMany, &["running_never_above_limit"], FEW),
    with(&[Fault::CutWorker, Fault::CutAtGrant], bug(Bug::GrantAfterLeaseEnd, PROCESSES, MANY)),
    with(&[Fault::CrashWorker], bug(Bug::LiveShimForgotten, PROCESSES, MANY)),
    with(&[Fault::CrashWorkerLosingDirectory], bug(Bug::StateDirectoryWiped, PROCESSES, MANY)),
    bug(Bug::DstDuplicate, &["due_times_generated_or_skipped"], MANY),
    bug(Bug::PermitReturnedTwice, &["reruns_keep_to_plan"], SOME),
    bug(Bug::StartAfterCancel, &["reruns_keep_to_plan"], SOME),
    bug(Bug::LiveGrantsNotCounted, &["stock_never_below_zero"], FEW),
    bug(Bug::ReturnedToStockTwice, &["stock_never_below_zero"], SOME),
    bug(Bug::ExpiredNotInStock, &["pulls_answered_as_on_record", "earliest_task_first"], FEW),
    bug(Bug::LateCompletionAccepted, &["late_completions_change_nothing"], SOME),
    bug(Bug::ExclusionForgotten, &["plain_tasks_once_per_user"], FEW),
    bug(Bug::AnotherGrantInsteadOfRedo, &["one_live_grant_per_user"], FEW),
    bug(Bug::DepthNotChecked, &["parameters_within_depth"], FEW),
    bug(Bug::HistoryLostInMove, MOVED, SOME),
    of_tables(Bug::ResumeOnVoidSuffix, SOME),
    of_tables(Bug::PositionOutsideTransaction, SOME),
    of_tables(Bug::PastOfChangedRowsForgotten, SOME),
    with(&[Fault::LateWork, Fault::LateAcknowledgements], bug(Bug::RightRenewed, RIGHTS, MANY)),
    with(&[Fault::LateWork, Fault::LateAcknowledgements], bug(Bug::RightFromAcknowledgement, RIGHTS, MANY)),
    with(&[Fault::LostQuestions], bug(Bug::BegunBeforeAcknowledgement, RIGHTS, SOME)),
    with(&[Fault::SlowReader], bug(Bug::RightOverUnread, RIGHTS, MANY)),
    with(
        &[Fault::LateWork, Fault::CrashWorker, Fault::CrashWorker],
        bug(Bug::RightOutlivesLife, RIGHTS, RARE),
    ),
    with(&[Fault::CrashWorker], bug(Bug::RightEndsByRegistration, RIGHTS, MANY)),
    with(&[Fault::LateWork], bug(Bug::WordForgotten, RIGHTS, MANY)),
    with(
        &[Fault::CutAtAssignment],
        bug(
            Bug::AssignedKillEndsAtOnce,
            &["rights_end_by_word_lease_or_time", "taken_back_is_not_begun"],
            SOME,
        ),
    ),
    with(&[Fault::CutAtAssignment], bug(Bug::KillLostOnReturn, &["killed_stays_killed"], MANY)),
    with(&[Fault::CutAtAssignment], bug(Bug::QuestionUnderRightRefused, RIGHTS, RARE)),
    with(&[Fault::CutWorker], bug(Bug::LeaseShortenedAtOnce, LEASES, MANY)),
    with(&[Fault::CutAtGrant], bug(Bug::LapsedLifeGoesOn, PROCESSES, MANY)),
    with(&[Fault::CrashWorker], bug(Bug::RepeatSavesEarlierLife, ASSIGNED, MANY)),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_bug_is_expected_to_be_caught_by_rules_that_there_are() {
        let expected: BTreeSet<Bug> = EXPECTED.iter().map(|expected| expected.bug).collect();
        assert_eq!(expected, Bug::ALL.iter().copied().collect());
        assert_eq!(expected.len(), EXPECTED.len());
        let rules = EXPECTED.iter().flat_map(|expected| expected.by);
        let unknown: Vec<_> = rules.filter(|rule| super::super::sentence(rule).is_none()).collect();
        assert_eq!(unknown, Vec::<&&str>::new());
    }

    /// What was measured is left to `make planted ARGS=--write`; what is planted, by whom it has to be noticed, and
    /// within how many histories is here.
    #[test]
    fn the_page_has_all_bugs_as_they_are_here() {
        let page = include_str!("../../../../docs/reference/planted.md");
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        let rows: Vec<Vec<&str>> =
            rows.map(|row| row.trim_matches(['|', ' ']).split(" | ").collect()).collect();
        let found: Vec<_> = rows.iter().map(|row| (row[0], row[1], row[4])).collect();
        let texts: Vec<_> = EXPECTED
            .iter()
            .map(|it| (format!("`{}`", it.bug.name()), it.bug.what(), it.within.to_string()))
            .collect();
        let wanted: Vec<_> = texts.iter().map(|(name, what, within)| (&**name, &**what, &**within)).collect();
        assert_eq!(found, wanted, "run `make planted ARGS=--write`");
        for (row, expected) in rows.iter().zip(EXPECTED) {
            let rule = row[2].trim_matches(['*', '`']);
            assert!(expected.by.contains(&rule), "{row:?}");
            let histories: u64 = row[3].parse().unwrap();
            assert!((1..=expected.within).contains(&histories), "{row:?}");
        }
        assert!(page.contains(&format!("\n{} bugs, ", EXPECTED.len())));
    }
}
