-- Of to_sql.py; SQLite and MariaDB take it as it is.

-- How far a topic is loaded: the offset of the next record of each partition. Each transaction that adds events moves it.
CREATE TABLE IF NOT EXISTS feed_positions (
  topic VARCHAR(249) NOT NULL,
  partition_number INTEGER NOT NULL,
  next_offset BIGINT NOT NULL,
  PRIMARY KEY (topic, partition_number)
);

-- Every event, once. The key is what drops repeats.
CREATE TABLE IF NOT EXISTS feed_events (
  source VARCHAR(100) NOT NULL,
  id VARCHAR(50) NOT NULL,
  type VARCHAR(100) NOT NULL,
  subject VARCHAR(200) NOT NULL,
  time CHAR(24) NOT NULL,
  data LONGTEXT NOT NULL,
  PRIMARY KEY (source, id)
);

-- What is known of jobs and batches. A column …_by has the place of the event that the columns before it are from: only a later
-- one changes them.
CREATE TABLE IF NOT EXISTS feed_jobs (
  id BIGINT NOT NULL PRIMARY KEY,
  group_name VARCHAR(200),
  name VARCHAR(500),
  defined_by VARCHAR(80) NOT NULL DEFAULT ''
);

CREATE TABLE IF NOT EXISTS feed_batches (
  id BIGINT NOT NULL PRIMARY KEY,
  job BIGINT,
  logical_time CHAR(24),
  run INTEGER,
  generated_at CHAR(24),
  generated_by VARCHAR(80) NOT NULL DEFAULT '',
  ended_at CHAR(24),
  ended_by VARCHAR(80) NOT NULL DEFAULT '',
  result VARCHAR(20),
  result_by VARCHAR(80) NOT NULL DEFAULT ''
);

-- What most ask for. Jobs and batches come from partitions that are not ordered with one another, so a name may come later.
CREATE VIEW IF NOT EXISTS batch_results AS
  SELECT b.id AS batch, j.group_name, j.name AS job_name, b.logical_time, b.run, b.result, b.generated_at, b.ended_at
  FROM feed_batches b LEFT JOIN feed_jobs j ON j.id = b.job;
