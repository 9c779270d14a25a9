//! How synchronous callers wait for sqlx: its sockets, timers and the pool's own work live on one thread of the process,
//! and whoever calls polls its own question until the answer is there. Nobody gives up a question halfway but by closing
//! its connection, so that no `COMMIT` is cancelled and its connection used again.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// Never dropped, for that must not happen inside another runtime; it holds nothing but its thread.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("mysql")
            .enable_all()
            .build()
            .expect("the system gives one more thread")
    })
}

/// Waits for it. Callers are threads that may block: never a task of a runtime, where this panics.
pub(super) fn wait<T>(question: impl Future<Output = T>) -> T {
    runtime().block_on(question)
}

/// Does what starts tasks or ends sockets.
pub(super) fn inside<T>(act: impl FnOnce() -> T) -> T {
    let _context = runtime().enter();
    act()
}

/// Goes on with this on the runtime's thread; nobody waits for it.
pub(super) fn leave(work: impl Future<Output = ()> + Send + 'static) {
    runtime().spawn(work);
}

/// What has no answer after so long failed.
pub(super) async fn within<T>(
    longest: Duration,
    question: impl Future<Output = sqlx::Result<T>>,
) -> sqlx::Result<T> {
    tokio::time::timeout(longest, question).await.unwrap_or_else(|_| {
        let told = format!("no answer within {} s", longest.as_secs());
        Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, told)))
    })
}
