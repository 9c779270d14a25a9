//! The dispatcher on the embedded log.

crate::kit::suite::suite!(crate::kit::cluster::Cluster::sqlite());
