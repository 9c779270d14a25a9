//! Orders as a worker may give them, of whatever version.

use tidemill_corpus::corpus;

use super::{Lease, Order, Watch};
use crate::attempt_dir::ShimSpec;

/// Far enough that it never runs out here.
const LEASE: Lease = Lease { term_at_ms: u64::MAX / 2, kill_at_ms: u64::MAX / 2 };

fn watch(said: &[u8]) -> Watch {
    let spec = ShimSpec {
        argv: vec!["true".to_owned()],
        env: std::collections::BTreeMap::new(),
        grace_ms: 7,
        lease: Some(LEASE),
        limit_ms: None,
        run_as: None,
        umask: None,
        output_max_bytes: None,
        limits: None,
        external: None,
        mask: Vec::new(),
    };
    Watch::new(&spec, said.to_vec())
}

fn what_is_left(watch: Watch) -> (Vec<u8>, Option<Lease>, Option<super::KillCause>) {
    (watch.control, watch.lease, watch.killing.map(|killing| killing.because))
}

/// EXE-5: orders are obeyed the same however they are cut; none shortens a lease that has an end, and only an order to kill kills. Each reads
/// back from its own line.
#[test]
fn orders_are_obeyed_however_they_are_cut_and_shorten_no_lease() {
    corpus!("order").fuzz(1_000, |input| {
        let mut whole = watch(input);
        whole.obey();
        assert!(!whole.control.contains(&b'\n'));
        let orders: Vec<Order> = String::from_utf8_lossy(input).lines().flat_map(str::parse).collect();
        // After that one, the next is as long as it is.
        let is_unbounded = orders.contains(&Order::Lease(Lease::FOREVER));
        assert!(whole.lease >= Some(LEASE) || is_unbounded);
        let kills = orders.iter().any(|order| matches!(order, Order::Kill { .. }));
        assert!(whole.killing.is_none() || kills || is_unbounded);
        for order in orders {
            assert_eq!(order.to_string().parse(), Ok(order));
        }
        let (begin, end) = input.split_at(input.len() / 2);
        let mut cut = watch(begin);
        cut.obey();
        cut.control.extend(end);
        cut.obey();
        assert_eq!(what_is_left(cut), what_is_left(whole));
    });
}
