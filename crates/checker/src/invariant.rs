//! What has to hold, each rule with a stable name and one sentence.

macro_rules! invariants {
    ($($(#[doc = $doc:literal])+ $variant:ident => $name:literal,)+) => {
        /// A rule that every history keeps.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Invariant {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Invariant {
            /// All of them, in the order in which a report names them.
            pub const ALL: &'static [Invariant] = &[$(Invariant::$variant,)+];

            /// Its name; never changes.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Invariant::$variant => $name,)+
                }
            }

            /// Its sentence.
            #[must_use]
            pub fn sentence(self) -> &'static str {
                match self {
                    $(Invariant::$variant => concat!($($doc,)+).trim_start(),)+
                }
            }
        }
    };
}

invariants! {
    // ---- the journal itself
    /// Offsets of a journal begin at 0 and have no gap, no repeat and no step back.
    OffsetsDense => "offsets_dense",
    /// Every record links to the last one that counts, or is void for a reason that a sound log can have.
    ChainUnbroken => "chain_unbroken",
    /// Claims raise the epoch by 1, records of an epoch count up by 1, and nobody writes without owning.
    EpochsRiseSeqContiguous => "epochs_rise_seq_contiguous",
    /// A record and one decision stay within their size, and an envelope can be read.
    EnvelopesBounded => "envelopes_bounded",
    /// The causes of an envelope account for exactly its events.
    CausesCoverEvents => "causes_cover_events",
    /// An envelope's time is not before the last one's, unless an operator set it.
    NowNeverGoesBack => "now_never_goes_back",
    /// An envelope's time is not ahead of the log's time of its append.
    NowNotAheadOfTheLog => "now_not_ahead_of_the_log",
    /// Events stand in the partition of their shard.
    ShardsStayInTheirPartition => "shards_stay_in_their_partition",

    /// No envelope, and no event in it, is of a level above the one that stood in its partition's journal before.
    NothingAboveTheLevel => "nothing_above_the_level",
    /// The level is raised to one that every registered process reads, while no operator holds it, and never lowered; none that reads less registers after that.
    LevelRaisedWhenAllReadIt => "level_raised_when_all_read_it",

    /// A snapshot that the journal names is of a record before that one which counts: its offset, epoch, number and hash are those of the record.
    SnapshotsNameAcceptedRecords => "snapshots_name_accepted_records",

    // ---- commands and requests
    /// The resume point never goes back or away, unless an operator accepted a loss, and its hash is that of the command at its offset.
    ResumePointMovesForward => "resume_point_moves_forward",
    /// Each command is decided at most once, in order; with the commands given, none is passed over and each decision names its sender.
    EveryCommandDecidedOnce => "every_command_decided_once",
    /// A request id has one outcome in 24 hours of work; only a repeat of it is answered as one.
    OneOutcomePerRequest => "one_outcome_per_request",
    /// What was refused, or was a repeat, has no event; what was set aside has that one.
    RefusedChangesNothing => "refused_changes_nothing",
    /// A timer is decided only after every command that the log had taken before its time.
    TimersNeverOvertakeCommands => "timers_never_overtake_commands",
    /// A reply says what a record that counts says.
    AcknowledgedIsOnRecord => "acknowledged_is_on_record",
    /// A work order stands in a record that counts.
    WorkIsOnRecord => "work_is_on_record",

    // ---- between shards
    /// Messages between shards arrive once, in order, with what was sent, and are acknowledged only after that.
    MessagesBetweenShardsOnceInOrder => "messages_between_shards_once_in_order",
    /// What a shard hears of a job of another group stands in that group's journal, in the same order, its values as its newest run passed them on; a job is followed and watched only for a shard that has children of it and batches that wait.
    HeardOfOtherGroupsWasSo => "heard_of_other_groups_was_so",
    /// At quiescence, a shard has heard how every logical time that it watched in another group stood last, and of every generation of the jobs that it followed.
    WatchesAnswered => "watches_answered",
    /// Versions of a definition count up by 1, those of calendars rise, and a shard that takes them in only moves forward, and drops what it has.
    VersionsRise => "versions_rise",
    /// What is staged has no effect before its commit; what is committed is carried out to the letter, and until it is, nothing else changes definitions.
    AppliesCarriedOut => "applies_carried_out",
    /// A name in a group is that of one job; a job that gets another name keeps its id, and the record says which name it had.
    NamesMeanOneJob => "names_mean_one_job",
    /// A job moves to another group only when asked and with nothing unfinished, and takes along every logical time with its newest run and its next fire.
    MovedJobsKeepTheirRuns => "moved_jobs_keep_their_runs",
    /// A job is deleted when its shard has said that nothing of it is unfinished, or together with the end of that; a refused deletion changes nothing.
    JobsDeletedWhenNothingUnfinished => "jobs_deleted_when_nothing_unfinished",
    /// A rerun or cold start runs what its plan says, once, after what it waits for, never more at once than was requested, and nothing after it was cancelled; its plan is approved as it was made.
    RerunsKeepToPlan => "reruns_keep_to_plan",

    /// A job that is new, or gets another owner, gets one who is in the directory as it is then, as a department or as a person who is enabled, or none; unless there is nobody in the directory, or the job is known by its id alone.
    OwnerIsInTheDirectory => "owner_is_in_the_directory",
    /// After each record people are of departments that are there; rotas and successors name people who are there, and who are enabled or followed by somebody who is; whoever is disabled while owning jobs has a successor; no department has the name of a person; and none is deleted who is the owner of a job.
    DirectoryNamesNobodyWhoIsNotThere => "directory_names_nobody_who_is_not_there",
    /// Sessions, tokens, invitations and passwords are of people who are in the directory and enabled, but the first start's invitation; the record that disables or removes a person ends what they have. Each credential has an id of its own, a time that ends, and ends once, and only what has not ended is said to be used.
    CredentialsAreOfWhoMaySignIn => "credentials_are_of_who_may_sign_in",
    /// A job gets a parent that it did not have only from somebody who sees that parent, or may have jobs depend on it: by groups and department of the key, role and departments of the person, and grants.
    ParentsAreSeenOrDependedOn => "parents_are_seen_or_depended_on",

    /// Every batch or job of an operation on many has one outcome, and the last one ends it.
    BulkItemsDecidedOnce => "bulk_items_decided_once",

    // ---- generation
    /// Minted ids of batches and tokens grow in their shard, so that none is given twice.
    MintedIdsGrow => "minted_ids_grow",
    /// There is one batch per job, logical time and run.
    OneGeneratedPerRun => "one_generated_per_run",
    /// Runs of one logical time count up by 1.
    RunNumbersWithoutGaps => "run_numbers_without_gaps",
    /// Neither schedule nor parent makes a batch of a job that is switched off.
    GeneratedOnlyWhenEnabled => "generated_only_when_enabled",
    /// A run by hand that was not asked for beside others finds no unfinished batch of its job.
    ManualRunsAlone => "manual_runs_alone",
    /// A batch keeps a version of its definition that the shard knew.
    GeneratedFromKnownVersion => "generated_from_known_version",
    /// Every due time of an enabled job is generated or skipped on record, once, not before its time, and the one after it is the next.
    DueTimesGeneratedOrSkipped => "due_times_generated_or_skipped",
    /// A batch names the version of its job's calendar; when a calendar changes, the next fires of its jobs are those that it asks for.
    CalendarsFollowed => "calendars_followed",
    /// A fire that finds an earlier scheduled batch unfinished does what its job says, and one is skipped for that, or for being late, only where its job says so.
    OverlapsAsTheJobSays => "overlaps_as_the_job_says",
    /// A fire that cannot be decided is tried again three times; then its timer is suspended, and people are told, once.
    FailingGenerationTold => "failing_generation_told",
    /// At quiescence, every job without a schedule has a batch for each logical time that a parent got.
    ChildrenGeneratedWithParents => "children_generated_with_parents",

    // ---- a batch's life
    /// A batch makes only the steps that its life allows.
    OnlyAllowedTransitions => "only_allowed_transitions",
    /// Nothing changes a finished batch but a mark by hand.
    FinishedIsFinal => "finished_is_final",
    /// A mark has an actor and a reason, is of the newest run, changes what is on record, and is how the batch ends.
    MarksAreAccountedFor => "marks_are_accounted_for",
    /// A rerun has the parameters of the batch that it repeats, a planned one those of the newest run, and the version of it or of today, as asked, whatever its owner has evicted.
    RerunsKeepTheirFacts => "reruns_keep_their_facts",
    /// A planned rerun has parameters of a batch only if the job ran as the same account then, or runs as none.
    ParametersStayWithTheirAccount => "parameters_stay_with_their_account",
    /// A mark of the newest run of a logical time is not refused, whatever its owner has evicted.
    KnownBatchesCanBeMarked => "known_batches_can_be_marked",
    /// A batch whose end was asked for gets no further attempt, and ends as killed or as it was marked.
    KilledStaysKilled => "killed_stays_killed",
    /// Dependencies are marked satisfied iff the newest run of the parent's logical time succeeded, or there is none and the parent skipped it on record, for a parent in another group as it was heard last, and counted right.
    DependencyEventsMatchNewestRuns => "dependency_events_match_newest_runs",
    /// At quiescence, no batch waits for a logical time that its parent skipped on record and has no batch for; of *any*, such a time is no success.
    SkippedTimesNotWaitedFor => "skipped_times_not_waited_for",
    /// Where a definition of a shard names a job that was deleted, no batch of that shard takes a time of it for met that has no batch and was not skipped before.
    DeletedParentsWaitedFor => "deleted_parents_waited_for",
    /// A job that definitions go on naming as parent is deleted only with a record that says in which shards they are, and how many.
    DeletedParentsOnRecord => "deleted_parents_on_record",
    /// The parents that a batch waits for and does not list are those that its definition names at the same logical time, of its own group, and as many are unmet as have not succeeded.
    CountedParentsAsDeclared => "counted_parents_as_declared",
    /// A batch ends for its parents, or runs on failure only, exactly as its job says and they ended; at quiescence none is left.
    ParentFailureRuleKept => "parent_failure_rule_kept",
    /// A batch is on record as blocked exactly while it waits for a parent's time whose newest run failed or is blocked itself, since that began, and by a time that does; at quiescence every one is.
    BlockedBatchesSaySo => "blocked_batches_say_so",
    /// A batch is assigned only when every condition held: its job is enabled, or it was run by hand or rerun; parents, external dependencies, the quality gate, pause, account, and a worker that is there, fit, neither leaving, draining nor overloaded, on the pinned host, with the wanted label.
    AssignedOnlyWhenConditionsHeld => "assigned_only_when_conditions_held",
    /// No batch is assigned whose logical time is beyond the latest that the shard knew to be allowed.
    NothingAssignedBeyondTheFreeze => "nothing_assigned_beyond_the_freeze",
    /// A batch is assigned at its earliest start or later, which is the base time of its period and its job's minutes.
    EarliestStartKept => "earliest_start_kept",
    /// Neither a job's limit, a worker's slots, nor slots and rate of a group's pool are ever exceeded.
    RunningNeverAboveLimit => "running_never_above_limit",
    /// Neither a worker's memory nor the slots that it keeps for some jobs are given to more than they are for.
    ResourcesNeverOversold => "resources_never_oversold",
    /// Permits for pools that groups share are given only within slots and rate of each, let one batch be assigned each, and come back as they were told; at quiescence all are back that were used.
    PermitsAccountedFor => "permits_accounted_for",
    /// A start is granted once, only to the worker and the life of it that hold the assignment, for the question it asked.
    StartGrantedOnlyToAssigned => "start_granted_only_to_assigned",
    /// An assignment carries a right to start only for conditions that its shard knows alone, in the present life of its worker, and for less than a silent worker takes to be lost; it ends only by its worker's word, the end of its worker's lease, or when the right is over, and where a question may have been lost only by word or lease.
    RightsEndByWordLeaseOrTime => "rights_end_by_word_lease_or_time",
    /// Attempts count up by 1 and stay within the job's maximum.
    AttemptNumbersWithoutGaps => "attempt_numbers_without_gaps",
    /// A batch fails only when its retries are used up, or its exit code says that another attempt would fail too.
    RetriesUsedBeforeFailure => "retries_used_before_failure",
    /// An attempt is on record as over a limit once for each kind, with an alarm at once, and before an end that names it.
    ExcessesAreTold => "excesses_are_told",
    /// A failure for want of memory on the host uses up no retry, five times for each batch, and nothing else is spared so.
    HostMemoryUsesUpNoRetry => "host_memory_uses_up_no_retry",
    /// An id of external work is on record of an attempt once, while it runs, and not too many are.
    ExternalWorkFoundOnce => "external_work_found_once",
    /// Since level 3, an attempt that ends without its worker's word or a person's is on record as leaving external work unconfirmed, right before that end; and so is one whose worker cannot tell.
    UnconfirmedEndsAreTold => "unconfirmed_ends_are_told",
    /// Since level 3, an attempt that is lost is looked for where its job goes by its output path, unless it was to be ended, or its worker says that it never began. A prober's answer counts, or that there is none in time; what has changed since its grant is success, and nothing else is.
    LostAttemptsAreLookedFor => "lost_attempts_are_looked_for",
    /// An attempt that its worker ended because it was stopped itself uses up no retry and is followed by another at once, and no other attempt is excused like that.
    StoppedAttemptsUseNoRetry => "stopped_attempts_use_no_retry",
    /// An exit code that means *skip* skips its batch, and one that means *no retry* ends it.
    ExitCodesKeepTheirMeaning => "exit_codes_keep_their_meaning",
    /// What an attempt passes on to children takes 8 KB at most.
    ValuesWithinBounds => "values_within_bounds",
    /// The next attempt waits for exactly the job's interval, grown as the job says; with jitter at least half of it.
    RetryIntervalKept => "retry_interval_kept",
    /// Neither a batch nor two runs of one logical time ever have two live attempts.
    NeverTwoLiveAttempts => "never_two_live_attempts",
    /// An attempt is given up for lost only when its lease is over or its worker came back without it.
    NoAttemptBeforeLeaseOver => "no_attempt_before_lease_over",
    /// A stray is an attempt of a life of the log that is lost, as its worker says; people are told of it, and until it has ended no batch of its job and logical time is assigned, or granted a start that its worker could not make before.
    StraysHoldTheirTime => "strays_hold_their_time",
    /// A stray ends only by its worker's word, or when a person vouches for its worker; a person requests its end, or adopts it as the attempt of a batch of its job and logical time that no worker has.
    StraysEndAsAttemptsDo => "strays_end_as_attempts_do",
    /// Reports about an attempt that is not live change nothing.
    LateReportsChangeNothing => "late_reports_change_nothing",
    /// An assignment is returned for not starting only once its time is over.
    StartTimeoutKept => "start_timeout_kept",
    /// At quiescence, every assignment has ended.
    EveryAssignmentEnds => "every_assignment_ends",
    /// A batch is marked once for each time by which its job says it should have got somewhere, with an alarm, when that time has passed and not before; at quiescence none is missed.
    TimeoutsMarkedOnce => "timeouts_marked_once",
    /// What batches wait for outside is told before it is waited for, comes and goes in turn with a generation that rises when it goes, and is forgotten only when nobody waits for it; at quiescence it is then.
    ExternalDependenciesComeAndGoInTurn => "external_dependencies_come_and_go_in_turn",
    /// The paths that a new batch makes are those of its definition, resolved for its logical time, each once and in their order.
    OutputsAsDeclared => "outputs_as_declared",
    /// A person lets a batch run only without what it waits for, and what is left is counted right.
    OverridesNameWhatIsWaitedFor => "overrides_name_what_is_waited_for",
    /// The quality service is asked only when all else is met, again only when its time is over, and never after its answer; at quiescence it was asked.
    QualityAskedInTurn => "quality_asked_in_turn",
    /// A batch whose job has a final command ends with exactly one, on the worker of its last attempt; one without an attempt, if its end says so, on a worker with a free slot, or it is not run. It is granted once, and one that does not succeed raises an alarm.
    FinalCommandsOnce => "final_commands_once",
    /// People are told once of an attempt that runs far longer than usual, when it has, and not before.
    LongAttemptsToldOnce => "long_attempts_told_once",
    /// A batch has a bounded number of events.
    EventsPerBatchBounded => "events_per_batch_bounded",
    /// A host is drained, emptied and resumed in turn: it is empty only while nothing is assigned there or runs; at quiescence each that is empty says so.
    HostsDrainInTurn => "hosts_drain_in_turn",
    /// A worker is lost, found, expired, unready and fit only in its present life, in that order; it leaves once, and has left only then, with nothing running.
    WorkerLivesFollow => "worker_lives_follow",

    // ---- tasks that clients pull
    /// A user is a member of at most one shard at a time, the one that the catalogue names; it leaves only without a live grant, and what it has done and its own tasks come along as they were.
    UsersHaveOneHome => "users_have_one_home",
    /// Versions of a task count up by 1, its executor stays, what is deleted stays deleted, its dispatch times never fall below what is given, and rotating tasks are no more than the limit.
    TasksWithinLimits => "tasks_within_limits",
    /// The parameters of a task are at most 32 arrays and objects in one another, wherever a record holds them.
    ParametersWithinDepth => "parameters_within_depth",
    /// A user has at most one live grant.
    OneLiveGrantPerUser => "one_live_grant_per_user",
    /// A grant is of a valid task as it is now, for a member whom it is for, at a start that is on the task's own grid, has come, and is in the user's window.
    TasksGrantedOnlyWhenDue => "tasks_granted_only_when_due",
    /// No user gets an occurrence of a plain task again that it has completed.
    PlainTasksOncePerUser => "plain_tasks_once_per_user",
    /// A user gets the earliest of what is due, of several the one with the lowest number; before them the repeat task that it completed last, while that is in stock.
    EarliestTaskFirst => "earliest_task_first",
    /// An occurrence never has more live and completed grants than its task's dispatch times.
    StockNeverBelowZero => "stock_never_below_zero",
    /// A grant goes back to stock once at most, and only while it is live, so that given = live + completed + returned + expired.
    GrantsAccountedFor => "grants_accounted_for",
    /// Only a live grant is completed, by the user who has it; a late, foreign or second completion changes nothing.
    LateCompletionsChangeNothing => "late_completions_change_nothing",
    /// A grant has the lease of its task and expires when that is over, not before; at quiescence none is overdue.
    GrantLeasesKept => "grant_leases_kept",
    /// What a client is told that it has, or has completed, is so; nothing is due when it is told so, and the next start is the one that it is told.
    PullsAnsweredAsOnRecord => "pulls_answered_as_on_record",
    /// Only what is older than the group keeps is purged, and the horizon never goes back.
    TasksPurgedByAge => "tasks_purged_by_age",
}

impl std::fmt::Display for Invariant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_every_rule_has_a_sentence() {
        let names: BTreeSet<_> = Invariant::ALL.iter().map(|rule| rule.name()).collect();
        assert_eq!(names.len(), Invariant::ALL.len());
        assert!(Invariant::ALL.iter().all(|rule| rule.sentence().ends_with('.')));
    }
}
