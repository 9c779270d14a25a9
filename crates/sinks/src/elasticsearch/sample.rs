//! What tests send.

use std::sync::Arc;

use crate::{Change, Given, State};

/// What became of a grant with this fact, the fourth of its record.
pub(super) fn change(grant: i64, offset: u64, state: State) -> Change {
    let given = Given {
        grant,
        task: 1,
        task_version: 1,
        task_name: None,
        template: None,
        parameters: "{}".into(),
        group: "demo".into(),
        user: "ann".into(),
        start_at: 0,
        granted_at: 0,
        expires_at: None,
    };
    Change { offset, index: 3, at: 0, given: Arc::new(given), state }
}
