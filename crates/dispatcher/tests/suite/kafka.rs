//! The dispatcher on Kafka, against the broker that `TIDEMILL_TEST_KAFKA` names.

crate::kit::suite::suite!(crate::kit::cluster::Cluster::kafka());
