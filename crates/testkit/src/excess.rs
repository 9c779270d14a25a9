//! EXE-7: what processes of the simulated world want too much of. It follows from how long they would run, so that no other draw
//! changes.

use tidemill_executor::Input;
use tidemill_model::{Excess, ExcessKind, Token};

use crate::cluster::Process;
use crate::happening::Happening;
use crate::world::World;

fn of(kind: ExcessKind) -> Excess {
    let limit = (kind != ExcessKind::HostMemory).then_some(64);
    Excess { kind, limit, seen: Some(70) }
}

impl Process {
    /// With what it ends by itself: some succeed all the same.
    pub(crate) fn excess(&self) -> Option<Excess> {
        let failed = self.exit_code != 0;
        match self.natural_end % 6 {
            0 | 1 if failed => Some(of(ExcessKind::HostMemory)),
            2 => Some(of(ExcessKind::Memory)),
            3 => Some(of(ExcessKind::MemoryAlarm)),
            _ => None,
        }
    }
}

impl World {
    /// Some are noticed while they run, and noticed again when a worker takes them over.
    pub(crate) fn draw_excess(&mut self, index: usize, life: u64, token: Token) {
        let Some(process) = self.clusters[index].processes.get(&token) else { return };
        let kind = match process.natural_end % 6 {
            3 => ExcessKind::MemoryAlarm,
            4 => ExcessKind::Processes,
            _ => return,
        };
        let input = || Input::Exceeded { token, excess: of(kind) };
        self.stats.add("condition", "over_limit");
        self.after(2, Happening::worker(index, life, input()));
        self.after(900, Happening::worker(index, life, input()));
    }
}
