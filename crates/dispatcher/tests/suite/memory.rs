//! The dispatcher on the memory log.

crate::kit::suite::suite!(crate::kit::cluster::Cluster::memory());
