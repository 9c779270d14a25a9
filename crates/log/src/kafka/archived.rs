//! Removes records of journals that are archived from their topic.

use rdkafka::TopicPartitionList;
use rdkafka::admin::AdminOptions;
use rdkafka::topic_partition_list::Offset;

use super::connection::{ANSWER, Connection, number};
use super::topics::{admin, wait};
use crate::{Error, Head, LogId, Topic};

/// The broker removes what is below; it keeps no head, so whoever reads on has it from the archive.
pub(crate) fn release(connection: &Connection, id: &LogId, below: u64, head: &Head) -> Result<(), Error> {
    let partition = head.partition;
    let refused = |reason: String| Error::NotReleased { partition, source: reason.into() };
    let end = connection.range(Topic::Journal, partition)?.end;
    if &head.log_id != id || below <= head.offset || below >= end {
        let log = &head.log_id;
        return Err(refused(format!(
            "asked for those below {below} of log {log}; this is log {id}, its journal ends with {end}, and its last record \
             stays"
        )));
    }
    let name = connection.config.topic_name(Topic::Journal);
    let failed = |error: rdkafka::error::KafkaError| refused(format!("{name}: {error}"));
    let mut asked = TopicPartitionList::with_capacity(1);
    let offset = i64::try_from(below).map_err(|error| refused(error.to_string()))?;
    asked.add_partition_offset(&name, number(partition), Offset::Offset(offset)).map_err(failed)?;
    let options = AdminOptions::new().request_timeout(Some(ANSWER)).operation_timeout(Some(ANSWER));
    let done = wait(admin(&connection.config)?.delete_records(&asked, &options)).map_err(failed)?;
    for element in done.elements() {
        element.error().map_err(failed)?;
    }
    let first = connection.range(Topic::Journal, partition)?.start;
    if first < below {
        return Err(refused(format!("{name} still begins with record {first}, not with {below}")));
    }
    Ok(())
}
