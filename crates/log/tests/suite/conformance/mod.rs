//! What every log has to do, told once. Each back end's test file runs all of it with [`suite!`].
//!
//! A record that the chain does not accept is *refused* by the embedded log and *stored, then voided by every
//! reader* on the others. So the facts are told of the accepted history: it is the same, and the stale record
//! is not in it.

pub(crate) mod bytes;
pub(crate) mod fixture;
pub(crate) mod journal;

/// Makes a test of every fact. `$make` takes a [`QueueBound`](tidemill_log::QueueBound) and gives a
/// [`Fixture`](site::Site).
macro_rules! suite {
    ($make:path) => {
        suite!(@ $make, bytes:
            offsets_are_dense_and_in_order,
            reader_begins_at_the_start_the_end_or_an_offset,
            offset_that_is_not_there_is_an_error,
            waiting_reader_wakes_on_an_append,
            listener_is_told_whenever_there_is_more_to_read,
            waker_ends_a_wait,
            order_is_kept_per_producer,
            records_appended_together_have_an_outcome_each,
            partitions_and_topics_are_apart,
            poll_gives_no_more_than_asked_for,
            acknowledged_record_is_below_the_end_asked_for_later,
            record_over_the_bound_is_too_large_and_the_largest_is_not,
            full_queue_takes_nothing,
            unknown_partition_is_refused,
            completions_outlive_their_producer,
            only_member_is_suggested_everything,
        );
        suite!(@ $make, journal:
            journal_begins_with_its_genesis,
            second_genesis_does_not_count,
            chain_of_the_owner_counts,
            stale_owner_and_its_pipelined_second_record_do_not_count,
            claim_overtakes_the_record_in_flight,
            one_of_two_claims_of_an_epoch_counts,
            racing_claims_leave_one_owner,
            garbled_record_does_not_count,
            stored_head_goes_on,
        );
    };
    (@ $make:path, $module:ident: $($fact:ident,)*) => {
        $(
            #[test]
            fn $fact() {
                crate::conformance::$module::$fact(&$make);
            }
        )*
    };
}
