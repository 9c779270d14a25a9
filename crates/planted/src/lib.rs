//! The bugs that tests plant, and which of them is switched on.
//!
//! A rule that no test would miss is not tested. So each of these mistakes stands in the product's own code,
//! behind the feature `planted` of its crate, and `make planted` shows that the checker names it. Without the
//! feature nothing of this is compiled: a crate's `planted!(…)` is `false`. With it, everything is as it was
//! until somebody calls [`choose`].
//!
//! What this must never become: a way to configure the product.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};

macro_rules! bugs {
    ($($(#[doc = $what:literal])+ $bug:ident = $name:literal,)+) => {
        /// A mistake that can be switched on.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Bug {
            $($(#[doc = $what])+ $bug,)+
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Bug] = &[$(Bug::$bug),+];
            /// Their names, in the same order.
            pub const NAMES: &[&str] = &[$($name),+];

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }

            /// What goes wrong, in one sentence.
            #[must_use]
            pub fn what(self) -> String {
                let whats: [&[&str]; Self::ALL.len()] = [$(&[$($what),+]),+];
                whats[self as usize].concat().trim().to_owned()
            }
        }
    };
}

bugs! {
    /// The embedded log shows a journal's record before it is synced.
    JournalNotSynced = "journal_not_synced",
    /// The embedded log never syncs what nobody acts on alone, however long nothing follows it.
    IdleNotSynced = "idle_not_synced",
    /// The embedded log reads what an earlier process left, and does not sync it first.
    OpenedWithoutSync = "opened_without_sync",
    /// After a restore ids are minted on from where the restored state had them, as in the life that is lost.
    GenerationForgotten = "generation_forgotten",
    /// After a restore the lease of a worker ends what it was assigned and granted before.
    RestoredNotHeld = "restored_not_held",
    /// A fold begins with a snapshot that no accepted record names.
    SnapshotByItsOwnHash = "snapshot_by_its_own_hash",
    /// A snapshot has the state after the record that follows the one it says it is of.
    SnapshotOneRecordAhead = "snapshot_one_record_ahead",
    /// A snapshot leaves out the outcomes of requests.
    SnapshotForgetsOutcomes = "snapshot_forgets_outcomes",
    /// An owner records a snapshot of a record that it has not named as read back.
    SnapshotRecordedUnmarked = "snapshot_recorded_unmarked",
    /// The embedded log acknowledges a question under a right before it is synced.
    QuestionNotSynced = "question_not_synced",
    /// A claim of the present epoch counts as well as one of the next, so that a deposed claim, and what its
    /// writer pipelined behind it, take the partition.
    ClaimsWithOneEpoch = "claims_with_one_epoch",
    /// An envelope counts whatever it links to.
    EnvelopeWithoutChainCheck = "envelope_without_chain_check",
    /// A reply leaves as soon as its envelope is handed to the log.
    AckBeforeDurable = "ack_before_durable",
    /// Messages to workers and shards leave as soon as their envelope is handed to the log.
    EffectsBeforeReadBack = "effects_before_read_back",
    /// A timer is decided before all commands that were in the log at its time.
    TimerOvertakesFact = "timer_overtakes_fact",
    /// A new owner takes the last fire of each schedule for one that is yet to come.
    TimerFiredAgainAfterTakeover = "timer_fired_again_after_takeover",
    /// A new owner goes on one command too late.
    CommandSkippedAtTakeover = "command_skipped_at_takeover",
    /// The lease of a lost worker is taken for over at once.
    LeaseCutShort = "lease_cut_short",
    /// A person may vouch for the end of an attempt whose worker is heard of, and was not asked to end it.
    VouchedWithoutKill = "vouched_without_kill",
    /// A batch starts though a stray of its logical time runs.
    StrayHoldsNothing = "stray_holds_nothing",
    /// A stray counts as ended when its worker is lost or restarted.
    StrayEndsUnsaid = "stray_ends_unsaid",
    /// An attempt that has reported code 0 counts as lost with its worker.
    CodeZeroForgotten = "code_zero_forgotten",
    /// Half of a lease warns people again and again.
    LeaseWarningRepeated = "lease_warning_repeated",
    /// A message between shards is accepted though the one before it is missing.
    OutboxGapSkipped = "outbox_gap_skipped",
    /// A job that others name as parent is deleted, and the record does not say that they do.
    OrphansNotRecorded = "orphans_not_recorded",
    /// The group of a deleted job forgets it once one of the jobs that name it does so no more, whatever the others do.
    ParentReleasedTooEarly = "parent_released_too_early",
    /// A parent that was deleted though jobs name it counts as skipped.
    DeletedParentNotWaitedFor = "deleted_parent_not_waited_for",
    /// Two assignments get one token.
    TokensEqual = "tokens_equal",
    /// A question whose start was granted is granted once more.
    DoubleGrant = "double_grant",
    /// A word that gives an assignment back counts though its worker has asked again since, and been granted it.
    OverdueRejectionAccepted = "overdue_rejection_accepted",
    /// A batch is tried once more than its job allows.
    RetryCountOff = "retry_count_off",
    /// A failure for want of memory on the host uses up a retry.
    HostMemoryUsesUpRetry = "host_memory_uses_up_retry",
    /// An attempt ends with an excess, and nobody is told.
    ExcessUntold = "excess_untold",
    /// External work that a worker names again is on record again.
    ExternalWorkFoundTwice = "external_work_found_twice",
    /// An attempt ends without its worker's word, and that nobody confirmed the end of its external work is not on record.
    UnconfirmedEndForgotten = "unconfirmed_end_forgotten",
    /// The next attempt is not told of external work whose end nobody has confirmed.
    UnconfirmedNotPassedOn = "unconfirmed_not_passed_on",
    /// A life of a worker that another one has replaced registers again, and replaces that.
    EndedLifeRegisters = "ended_life_registers",
    /// The output of a lost attempt is its success, however old it is.
    OldOutputProves = "old_output_proves",
    /// A lost attempt is not looked for.
    LostWithoutLook = "lost_without_look",
    /// A failed batch is tried again at once.
    RetryIntervalIgnored = "retry_interval_ignored",
    /// A job gets an owner whom nobody has looked up in the directory.
    OwnerNotLookedUp = "owner_not_looked_up",
    /// A person goes though jobs, rotas or other people name them.
    DirectoryForgetsWhoIsNamed = "directory_forgets_who_is_named",
    /// A job gets a parent that whoever defines it may not see, nor depend on.
    ForeignParentTaken = "foreign_parent_taken",
    /// A person is disabled or removed, and what they sign in with stays good.
    WhoLeavesStaysSignedIn = "who_leaves_stays_signed_in",
    /// The level is raised as soon as one process reads it.
    LevelRaisedEarly = "level_raised_early",
    /// What a level brings is written before that level stands in the partition.
    KindWrittenBeforeLevel = "kind_written_before_level",
    /// A journal record's body is packed before the level that allows it stands.
    BodyPackedBeforeLevel = "body_packed_before_level",
    /// Now and then an envelope is a day ahead of the clock.
    ClockADayAhead = "clock_a_day_ahead",
    /// The answer to a refused request is not kept, so that its repeat is decided as if it were new.
    RefusedDecidedAgain = "refused_decided_again",
    /// A job's limit is checked against what is assigned, not against what is about to be.
    LimitCheckedBeforeApply = "limit_checked_before_apply",
    /// The late report of an attempt that was given up ends the attempt that replaced it.
    LateFinishAccepted = "late_finish_accepted",
    /// A worker may report the end of another worker's attempt.
    ForeignFinishAccepted = "foreign_finish_accepted",
    /// A killed batch with retries left is tried again.
    KilledTriesAgain = "killed_tries_again",
    /// A batch is ready with one of its dependencies unmet.
    DependencyForgotten = "dependency_forgotten",
    /// A batch waits for times that its parent skipped on record.
    WaitsForSkipped = "waits_for_skipped",
    /// A group that was told how a parent in another group stands is not told of its rerun.
    RerunNotToldToOtherGroups = "rerun_not_told_to_other_groups",
    /// Every second fire of a schedule leaves no trace.
    FireLost = "fire_lost",
    /// Another run of a logical time gets the number of the last one.
    RunNumberReused = "run_number_reused",
    /// A rerun of a logical time that its shard has evicted runs without the parameters that it had.
    LostParameters = "lost_parameters",
    /// A refused command takes a number for a job all the same.
    RefusedChangesState = "refused_changes_state",
    /// A request is decided though its client's key stands for another one.
    ReusedKeyDecided = "reused_key_decided",
    /// A batch whose logical time its shard has evicted cannot be marked.
    MarkRefused = "mark_refused",
    /// A drained worker gets new work.
    WorkForDrainedWorker = "work_for_drained_worker",
    /// A worker that registers on a drained host gets work.
    DrainEndsWithWorker = "drain_ends_with_worker",
    /// A worker that was told to stop gets new work.
    LeavingWorkerGetsWork = "leaving_worker_gets_work",
    /// An attempt that its worker ended because it was stopped uses up a retry.
    StopUsesUpRetry = "stop_uses_up_retry",
    /// A planned rerun hands an account the parameters that were given for another one, or for none.
    OtherAccount = "other_account",
    /// A batch runs as an account that its group does not allow.
    AccountNotAllowed = "account_not_allowed",
    /// A job is let go for another group while a batch of it is unfinished, which is lost with it.
    UnfinishedLostInMove = "unfinished_lost_in_move",
    /// A job that moves does not bring the newest of its logical times.
    RunLostInMove = "run_lost_in_move",
    /// A job that moves brings its run numbers one too low, so that the last run is repeated under its number.
    RunRepeatedInMove = "run_repeated_in_move",
    /// An item of an operation on many gets another outcome each time that somebody reports one.
    ItemDecidedTwice = "item_decided_twice",
    /// An operation on many ends with its last item but one.
    ItemNeverDecided = "item_never_decided",
    /// A permit for shared pools is given once more while its report is on the way.
    PermitGivenAgain = "permit_given_again",
    /// A worker gets one attempt more than it has slots.
    OneSlotTooMany = "one_slot_too_many",
    /// A worker starts on a grant that arrives after the end of its lease, and without a bound.
    GrantAfterLeaseEnd = "grant_after_lease_end",
    /// A worker takes a shim of its last life that still runs for gone.
    LiveShimForgotten = "live_shim_forgotten",
    /// A worker whose state directory was wiped under its live shims keeps its name.
    StateDirectoryWiped = "state_directory_wiped",
    /// A fixed time of day fires in both passes of an hour that the clock repeats.
    DstDuplicate = "dst_duplicate",
    /// A projector stores the place where it stopped reading, void or not, and goes on from there unchecked.
    ResumeOnVoidSuffix = "resume_on_void_suffix",
    /// The permit of a rerun's batch that ended is given out twice.
    PermitReturnedTwice = "permit_returned_twice",
    /// A cancelled rerun goes on starting batches.
    StartAfterCancel = "start_after_cancel",
    /// The position of the tables is committed before their rows.
    PositionOutsideTransaction = "position_outside_transaction",
    /// A rebuild from a time takes rows from before it for new, though something has changed them since.
    PastOfChangedRowsForgotten = "past_of_changed_rows_forgotten",
    /// An occurrence of a pull task is in stock until its grants are completed.
    LiveGrantsNotCounted = "live_grants_not_counted",
    /// A grant that is returned comes back to stock twice.
    ReturnedToStockTwice = "returned_to_stock_twice",
    /// A grant that expired does not come back to stock.
    ExpiredNotInStock = "expired_not_in_stock",
    /// A completion is accepted though its grant has expired.
    LateCompletionAccepted = "late_completion_accepted",
    /// A user gets a plain task again that it has completed.
    ExclusionForgotten = "exclusion_forgotten",
    /// A user who has a grant gets another one instead of the same again.
    AnotherGrantInsteadOfRedo = "another_grant_instead_of_redo",
    /// The parameters of a task may be of any depth.
    DepthNotChecked = "depth_not_checked",
    /// A user who moves to another group brings nothing of what it has done.
    HistoryLostInMove = "history_lost_in_move",
    /// A right to start is renewed by each later heartbeat.
    RightRenewed = "right_renewed",
    /// A right to start counts from the acknowledgement of its heartbeat.
    RightFromAcknowledgement = "right_from_acknowledgement",
    /// A worker starts under a right before the log has its question.
    BegunBeforeAcknowledgement = "begun_before_acknowledgement",
    /// An owner takes a right for over without having read all commands.
    RightOverUnread = "right_over_unread",
    /// A worker starts under a right that an earlier life of it had.
    RightOutlivesLife = "right_outlives_life",
    /// That another life of the worker registers ends what was assigned with a right.
    RightEndsByRegistration = "right_ends_by_registration",
    /// A worker forgets at once that it has spoken of an assignment.
    WordForgotten = "word_forgotten",
    /// To kill what is assigned with a right ends it at once.
    AssignedKillEndsAtOnce = "assigned_kill_ends_at_once",
    /// What was to be ended goes to another worker when its right is over.
    KillLostOnReturn = "kill_lost_on_return",
    /// A question under a right is refused where something changed since the assignment.
    QuestionUnderRightRefused = "question_under_right_refused",
    // Mistakes that the simulator found in the product, made again.
    /// A shortened lease counts at once, also for workers that were told the longer one.
    LeaseShortenedAtOnce = "lease_shortened_at_once",
    /// A worker whose lease was over goes on in the same life, and starts what is granted to that one late.
    LapsedLifeGoesOn = "lapsed_life_goes_on",
    /// A repeated registration saves what an earlier life was assigned.
    RepeatSavesEarlierLife = "repeat_saves_earlier_life",
}

const NONE: u8 = u8::MAX;
static CHOSEN: AtomicU8 = AtomicU8::new(NONE);

thread_local! {
    static NOTES: RefCell<BTreeMap<i64, i64>> = const { RefCell::new(BTreeMap::new()) };
}

/// Switches one bug on in the whole process, or all of them off.
pub fn choose(bug: Option<Bug>) {
    CHOSEN.store(bug.map_or(NONE, |bug| bug as u8), Ordering::Relaxed);
}

/// Whether this bug is switched on.
#[inline]
#[must_use]
pub fn is(bug: Bug) -> bool {
    CHOSEN.load(Ordering::Relaxed) == bug as u8
}

/// Notes something that the product forgets, for a bug that has to remember it. Each thread has its own notes.
pub fn note(key: i64, value: i64) {
    NOTES.with_borrow_mut(|notes| notes.insert(key, value));
}

/// What was noted under this key.
#[must_use]
pub fn noted(key: i64) -> Option<i64> {
    NOTES.with_borrow(|notes| notes.get(&key).copied())
}

/// Before the next history: nothing is noted.
pub fn forget() {
    NOTES.with_borrow_mut(BTreeMap::clear);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_chosen_bug_is_on() {
        let on = || Bug::ALL.iter().copied().filter(|bug| is(*bug)).collect::<Vec<_>>();
        assert_eq!(on(), []);
        choose(Some(Bug::DoubleGrant));
        assert_eq!(on(), [Bug::DoubleGrant]);
        choose(None);
        assert_eq!(on(), []);
    }

    #[test]
    fn every_bug_has_a_name_of_its_own_and_says_what_goes_wrong() {
        let names: std::collections::BTreeSet<_> = Bug::NAMES.iter().collect();
        assert_eq!(names.len(), Bug::ALL.len());
        assert!(Bug::ALL.iter().all(|bug| bug.what().ends_with('.') && !bug.what().contains("  ")));
        assert_eq!(Bug::DoubleGrant.name(), "double_grant");
    }
}
