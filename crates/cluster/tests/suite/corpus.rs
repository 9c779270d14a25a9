//! Questions as anybody may ask them on the live port, and answers of what stands where an owner should.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidemill_cluster::{HttpLive, Live, live_router};
use tidemill_corpus::{Peer, corpus};
use tidemill_model::{BatchId, LiveAnswer, LiveQuery, ShardId};

use crate::wire::{impatient, is_fine, speak, statuses, with_secret};

const SECRET: &str = "internal-secret";

/// API-5: the live port answers any question or refuses it, and without the secret nothing reaches an owner.
#[test]
fn any_question_on_the_live_port_is_answered_or_refused() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let here = Arc::new(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(LiveAnswer::NotFound)
    });
    let limits = impatient(tidemill_serving::Config::default().for_own_roles());
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let router = live_router(SECRET, here, Arc::new(|_, _| None));
    runtime.spawn(tidemill_serving::serve(listener, router, limits, std::future::pending()));
    corpus!("live").fuzz(400, |input| {
        let before = asked.load(Ordering::SeqCst);
        let said = with_secret(input, SECRET);
        let heard = statuses(&speak(address, &said));
        assert!(is_fine(&heard), "{heard:?}: {}", String::from_utf8_lossy(input));
        let knows = said.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
        let reached = asked.load(Ordering::SeqCst) > before;
        assert!(knows || !reached, "{}", String::from_utf8_lossy(input));
    });
}

/// Whatever stands where an owner is said to be, asking it ends: by an answer, or by why there is none.
#[test]
fn any_answer_of_an_owner_is_taken_or_told() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let peer = Peer::listen();
    let address = peer.address().to_string();
    let find = Arc::new(move |_| Some(address.clone()));
    let live = HttpLive::new(1, "internal", Duration::from_secs(5), find, None).unwrap();
    corpus!("live-answer").fuzz(150, |input| {
        peer.says(input);
        let query = LiveQuery::Why { batch: BatchId(4097) };
        if let Err(error) = runtime.block_on(live.query(ShardId(1), query)) {
            assert!(!error.to_string().is_empty());
        }
    });
}
