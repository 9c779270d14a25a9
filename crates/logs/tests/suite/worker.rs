//! A worker as a store sees it: `POST /output`, with spools in memory.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use tidemill_logs::{WorkerPlace, WorkerState};
use tidemill_model::{
    InstanceId, LogStream, MAX_FRAME_BYTES, MAX_SHIPPED_AT_ONCE, ShardId, ShipFrame, ShipRequest, Shipped,
    Token,
};

use crate::kit::{GROUP, LOGS_KEY, SHARD};

/// The spool of an attempt.
#[derive(Default)]
pub(crate) struct Spool {
    pub(crate) files: [Vec<u8>; 3],
    pub(crate) has_ended: bool,
    pub(crate) is_done: bool,
    /// Where to go on; nothing before the store has said so.
    cursors: Option<[usize; 3]>,
    is_told: bool,
}

#[derive(Default)]
pub(crate) struct Spools {
    pub(crate) spools: BTreeMap<Token, Spool>,
    session: Option<(InstanceId, u64)>,
    /// Bytes of output that were sent.
    pub(crate) sent: usize,
    /// Stores that have asked.
    pub(crate) asked_by: Vec<InstanceId>,
}

#[derive(Clone)]
pub(crate) struct FakeWorker {
    pub(crate) address: SocketAddr,
    shared: Arc<Mutex<Spools>>,
    name: Arc<str>,
    shard: ShardId,
}

impl FakeWorker {
    pub(crate) fn start() -> Self {
        Self::start_as("w-1", SHARD)
    }

    pub(crate) fn start_as(name: &str, shard: ShardId) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::<Mutex<Spools>>::default();
        let router = Router::new().route("/output", post(output)).with_state(Arc::clone(&shared));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                axum::serve(listener, router).await.unwrap();
            });
        });
        Self { address, shared, name: name.into(), shard }
    }

    pub(crate) fn place(&self) -> WorkerPlace {
        WorkerPlace {
            worker: Arc::clone(&self.name),
            shard: self.shard,
            groups: vec![(self.shard, GROUP.try_into().unwrap())],
            address: self.address.to_string().into(),
            state: WorkerState::There,
        }
    }

    pub(crate) fn spools(&self) -> MutexGuard<'_, Spools> {
        self.shared.lock().unwrap()
    }

    /// An attempt prints this, the first time or more.
    pub(crate) fn print(&self, token: Token, stream: LogStream, bytes: &[u8]) {
        self.spools().spools.entry(token).or_default().files[stream.index()].extend_from_slice(bytes);
    }

    pub(crate) fn end(&self, token: Token) {
        self.spools().spools.entry(token).or_default().has_ended = true;
    }

    pub(crate) fn is_done(&self, token: Token) -> bool {
        self.spools().spools[&token].is_done
    }
}

async fn output(
    State(shared): State<Arc<Mutex<Spools>>>,
    headers: HeaderMap,
    Json(request): Json<ShipRequest>,
) -> Result<Vec<u8>, StatusCode> {
    if headers["authorization"] != format!("Bearer {LOGS_KEY}") {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let wait_until = tokio::time::Instant::now() + Duration::from_millis(request.wait_ms);
    shared.lock().unwrap().begin(&request);
    loop {
        let bytes = shared.lock().unwrap().frames(&request);
        if !bytes.is_empty() || tokio::time::Instant::now() >= wait_until {
            return Ok(bytes);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Spools {
    fn begin(&mut self, request: &ShipRequest) {
        if !self.asked_by.contains(&request.store) {
            self.asked_by.push(request.store.clone());
        }
        let goes_on = self.session.as_ref() == Some(&(request.store.clone(), request.turn));
        if request.turn == 0 || !goes_on {
            for spool in self.spools.values_mut() {
                (spool.cursors, spool.is_told) = (None, false);
            }
        }
        self.session = Some((request.store.clone(), request.turn + 1));
        for token in &request.done {
            self.spools.get_mut(token).unwrap().is_done = true;
        }
        for from in &request.from {
            let spool = self.spools.get_mut(&from.token).unwrap();
            spool.cursors = Some(from.offsets.map(|offset| usize::try_from(offset).unwrap()));
        }
    }

    fn frames(&mut self, request: &ShipRequest) -> Vec<u8> {
        let room = usize::try_from(request.room_bytes).unwrap().min(MAX_SHIPPED_AT_ONCE);
        let (mut bytes, mut sent) = (Vec::new(), 0);
        for (token, spool) in self.spools.iter_mut().filter(|(_, spool)| !spool.is_done) {
            let mut tell = |shipped| ShipFrame::new(*token, shipped).write(&mut bytes);
            let Some(cursors) = &mut spool.cursors else {
                if !std::mem::replace(&mut spool.is_told, true) {
                    tell(Shipped::Known);
                }
                continue;
            };
            for stream in LogStream::ALL {
                let (file, cursor) = (&spool.files[stream.index()], &mut cursors[stream.index()]);
                let end = (*cursor + MAX_FRAME_BYTES).min(file.len());
                if *cursor < end && sent < room {
                    sent += end - *cursor;
                    let (offset, bytes) = (*cursor as u64, file[*cursor..end].to_vec());
                    tell(Shipped::Piece { stream, offset, times: vec![(offset, 1_000)], bytes });
                    *cursor = end;
                }
            }
            let lengths = spool.files.each_ref().map(Vec::len);
            if spool.has_ended && *cursors == lengths && spool.is_told {
                spool.is_told = false;
                tell(Shipped::Ended { bytes: lengths.map(|length| length as u64) });
            }
        }
        self.sent += sent;
        bytes
    }
}
