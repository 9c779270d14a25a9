"""A program with the client that openapi-python-client makes: applies a job, runs it, lists its batches, and reads a refusal."""

import datetime
import importlib
import json
import os
import pkgutil
import sys
import time

import made
from made import AuthenticatedClient
from made.api.batches import list_batches
from made.api.jobs import apply_jobs, get_job_by_name, run_job
from made.models import (
    Applied,
    ApplyRequest,
    BatchViewList,
    Generated,
    JobDetail,
    JobSpec,
    ListBatchesState,
    Problem,
    RunRequest,
    RunRequestParameters,
)

PATIENCE_S = 30
JOB = {"group": "default", "name": "from-python", "type_": "noop"}


def done(kind, answer):
    """What was answered, which has to be of this type."""
    if not isinstance(answer, kind):
        sys.exit(f"{kind.__name__} was to come, and this came: {answer}")
    return answer


def run(client):
    body = ApplyRequest(jobs=[JobSpec(**JOB)])
    applied = done(Applied, apply_jobs.sync(client=client, body=body, idempotency_key="from-python"))
    job = done(
        JobDetail,
        get_job_by_name.sync(JOB["group"], JOB["name"], client=client, at_least=applied.position),
    )
    parameters = RunRequestParameters()
    parameters["city"] = "Berlin"
    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    body = RunRequest(logical_time=at, parameters=parameters)
    return job.id, done(Generated, run_job.sync(job.id, client=client, body=body)).batch


def finished(client, job, batch):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        part = done(BatchViewList, list_batches.sync(client=client, job=job, state=ListBatchesState.FINISHED))
        for found in part.items:
            if found.id == batch:
                return found
        time.sleep(0.05)
    sys.exit(f"batch {batch} has not finished within {PATIENCE_S} s")


def main():
    modules = [module.name for module in pkgutil.walk_packages(made.__path__, "made.")]
    for name in modules:
        importlib.import_module(name)
    server, key = os.environ["TIDEMILL_SERVER"], os.environ["TIDEMILL_KEY"]
    with AuthenticatedClient(base_url=server, token=key, raise_on_unexpected_status=True) as client:
        job, batch = run(client)
        ended = finished(client, job, batch)
        wrong = JobSpec(**{**JOB, "name": "a/b"}, retries=-1)
        problem = done(Problem, apply_jobs.sync(client=client, body=ApplyRequest(jobs=[wrong])))
    print(
        json.dumps(
            {
                "batch": batch,
                "result": ended.result,
                "logical_time": ended.logical_time.isoformat(),
                "parameters": ended.parameters,
                "code": problem.code,
                "status": problem.status,
                "fields": [{"field": it.field, "rule": it.rule} for it in problem.errors],
                "modules": len(modules),
            }
        )
    )


if __name__ == "__main__":
    main()
