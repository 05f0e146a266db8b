"""urllib3 submits while the gate is closed and polls until the result, by its own `Retry` alone."""

import sys
import uuid

import urllib3
from urllib3.util import Retry

api = sys.argv[1]
submitting = Retry(total=20, status_forcelist=[429, 503], allowed_methods=None, respect_retry_after_header=True)
polling = Retry(total=50, status_forcelist=[202, 429, 503], allowed_methods=None, respect_retry_after_header=True)
client = urllib3.PoolManager()
key = {"Idempotency-Key": f"urllib3-{uuid.uuid4()}"}


def submit():
    return client.request("POST", f"{api}/v1/user-decrypt", json={"from": "urllib3"}, headers=key, retries=submitting)


taken = submit()
retried = [attempt.status for attempt in taken.retries.history]
print(f"POST: {taken.status}, after {retried}")
assert taken.status == 202, taken.data
assert retried and set(retried) == {429}, retried

ended = client.request("GET", api + taken.headers["Location"], retries=polling)
print(f"GET: {ended.status}, after {[attempt.status for attempt in ended.retries.history]}, {ended.data[:200]}")
assert ended.status == 200, ended.data
assert ended.json()["status"] == "succeeded", ended.data
assert ended.json()["job_id"] == taken.json()["job_id"]

replayed = submit()
print(f"POST again: {replayed.status}, replayed: {replayed.headers.get('Idempotency-Replayed')}")
assert replayed.status == 200, replayed.data
assert replayed.headers["Idempotency-Replayed"] == "true"
assert replayed.json() == ended.json()
