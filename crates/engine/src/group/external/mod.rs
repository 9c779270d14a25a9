//! What batches wait for outside: paths, reports of third parties, the quality service.

pub(crate) mod external_dependencies;
pub(crate) mod quality;
