//! How roles hear that they should end: SIGTERM or SIGINT once for an orderly end, twice for one at once. An
//! executor's end at once is orderly too: it kills what runs and says so; the third signal ends the process.

use std::process;
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use tidemill_cli::{Done, Failure, output};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from now on; the channel gives one message at the first signal, and the second ends the process.
pub(crate) fn on_signal() -> Done<Receiver<()>> {
    on_signals(1)
}

/// Listens from now on; the channel gives a message at each of the first `count` signals, and the next one ends
/// the process.
pub(crate) fn on_signals(count: usize) -> Done<Receiver<()>> {
    let (tell, told) = bounded(count);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(|error| Failure::caused("cannot listen for signals", &error))?;
    let (terminate, interrupt) = {
        let _inside = runtime.enter();
        (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?)
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(wait(terminate, interrupt, &tell, count)))
        .map_err(|error| Failure::caused("cannot start the thread that waits for signals", &error))?;
    Ok(told)
}

fn listen(kind: SignalKind) -> Done<Signal> {
    signal(kind).map_err(|error| Failure::caused("cannot listen for signals", &error))
}

async fn wait(mut terminate: Signal, mut interrupt: Signal, tell: &Sender<()>, count: usize) {
    for signal in 1..=count {
        let number = next(&mut terminate, &mut interrupt).await;
        output::note(match (signal, number) {
            (1, 2) => "\nStopping; once more stops at once.",
            (1, _) => "Stopping.",
            _ => "Stopping at once; what runs is killed.",
        });
        // Nobody listens once the roles have ended by themselves.
        let _ = tell.try_send(());
    }
    let number = next(&mut terminate, &mut interrupt).await;
    process::exit(128 + number);
}

/// The number of the next signal.
async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> i32 {
    tokio::select! {
        _ = terminate.recv() => 15,
        _ = interrupt.recv() => 2,
    }
}
