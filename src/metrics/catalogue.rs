//! Every metric: name, form, labels, meaning. `docs/monitoring.md` has the same as a table, and a test compares.
//!
//! Labels have few values, which the program or an operator defines: routes, statuses, kinds, queues. Names that
//! callers invent are counted as `unknown`, `unmatched` or `other`.

/// The form of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Form {
    /// Only grows, from zero at the start of the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Observations, in buckets with these upper bounds.
    Histogram(&'static [f64]),
}

/// One metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its form.
    pub form: Form,
    /// The names of its labels, in order.
    pub labels: &'static [&'static str],
    /// Its meaning.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($id:ident = $form:expr, $name:literal [$($label:literal),*], $help:literal;)+) => {
        $(
            #[doc = $help]
            pub static $id: Metric = Metric {
                name: $name,
                form: $form,
                labels: &[$($label),*],
                help: $help,
            };
        )+

        /// Every metric.
        pub static ALL: &[&Metric] = &[$(&$id),+];
    };
}

/// Seconds, from an answer without the database to the time limit of a call.
const CALL_SECONDS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Seconds, from a fast downstream to a slow one.
const STAGE_SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Polls of one request.
const POLL_COUNTS: &[f64] = &[1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0];

/// Seconds between an end and the first poll that answers it, from a waiting caller to one that has left.
const LATENESS_SECONDS: &[f64] = &[0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 300.0];

/// Seconds by which an end is later than its ETA; the database counts with the same bounds, in `finish_sample`.
/// The upper bounds of the bins in which the database counts the errors of ETAs.
pub const ETA_ERROR_SECONDS: &[f64] = &[-30.0, -5.0, -1.0, 0.0, 1.0, 5.0, 30.0];

/// Submissions per statement.
const GROUP_SIZES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0];

use Form::{Counter, Gauge, Histogram};

metrics! {
    BUILD_INFO = Gauge, "tidegate_build_info" ["version"], "Always 1; the label has the version";

    HTTP_REQUESTS = Counter, "tidegate_http_requests_total" ["route", "method", "status"],
        "Answered HTTP requests; route `unmatched`: no such path";
    HTTP_DURATION = Histogram(CALL_SECONDS), "tidegate_http_request_duration_seconds" ["route", "method"],
        "Time from a request's head to the answer's";
    HTTP_IN_FLIGHT = Gauge, "tidegate_http_requests_in_flight" [], "Requests of /v1 that are under way";
    HTTP_IN_FLIGHT_MAX = Gauge, "tidegate_http_requests_in_flight_max" [], "The most at once; one more gets 503";

    SUBMISSIONS = Counter, "tidegate_submissions_total" ["kind", "outcome"],
        "Submissions over HTTP: `accepted`, `replayed`, `refused` (gate closed), `failed` (any other error)";
    REPLAYS = Counter, "tidegate_replays_total" ["kind"],
        "Submissions answered with an earlier request (duplicates), over HTTP or by SQL, whole fleet";
    GATE_REFUSALS = Counter, "tidegate_gate_refusals_total" ["kind", "by"],
        "Submissions over HTTP that a closed or full gate has refused, by what decided: this node's `copy`, which counts a batch as one, or the `database`, which counts its requests";
    GATE_COPY_CLOSED = Gauge, "tidegate_gate_copy_closed" ["gate"],
        "Whether the gate is closed in this node's copy; gates of kinds and submitters, too";
    GATE_COPY_AGE = Gauge, "tidegate_gate_copy_age_seconds" [],
        "Time since this node last read the gates; above 6, its copy refuses no submission";
    SUBMISSION_GROUP_SIZE = Histogram(GROUP_SIZES), "tidegate_submission_group_size" [], "Submissions per statement";
    POLLS = Counter, "tidegate_polls_total" ["kind", "answer"], "Requests that polls found: `in_progress`, `ended`";
    POLLS_PER_REQUEST = Histogram(POLL_COUNTS), "tidegate_polls_per_request" ["kind"],
        "Polls of a request alone up to its end";
    POLL_LATENESS = Histogram(LATENESS_SECONDS), "tidegate_poll_lateness_seconds" ["kind"],
        "Time from a request's end to the first poll of it alone that returned it";
    WAITING_CALLERS = Gauge, "tidegate_waiting_callers" ["how"],
        "Callers that wait here: `held` (`Prefer: wait`), `stream` (server-sent events)";
    WAITING_CALLERS_MAX = Gauge, "tidegate_waiting_callers_max" [],
        "How many may; one more is answered at once, or gets 503 instead of a stream";

    DATABASE_UP = Gauge, "tidegate_database_up" [], "Whether the database answered the last reading in time";
    DATABASE_ERRORS = Counter, "tidegate_database_errors_total" ["error"],
        "Statements that failed: `unavailable` (no database, or too slow), `busy` (deadlock, lock or statement timeout), \
         `not_migrated`, `other`";
    DATABASE_CONNECTIONS = Gauge, "tidegate_database_connections" ["state"], "This process's connections: `idle`, `in_use`";
    DATABASE_CONNECTIONS_MAX = Gauge, "tidegate_database_connections_max" [], "How many it may have";

    REQUESTS = Gauge, "tidegate_requests" ["kind", "status"], "Requests that are kept, by where they are in their life";
    QUEUE_DEPTH = Gauge, "tidegate_queue_depth" ["queue"], "Requests in the queue: waiting, held and snoozed";
    QUEUE_WAITING = Gauge, "tidegate_queue_waiting" ["queue"], "Messages that may be taken now";
    QUEUE_HELD = Gauge, "tidegate_queue_held" ["queue"], "Requests under a lease";
    QUEUE_BACKING_OFF = Gauge, "tidegate_queue_backing_off" ["queue"], "Snoozed messages: a backoff or a delayed start";
    QUEUE_OLDEST_AGE = Gauge, "tidegate_queue_oldest_age_seconds" ["queue"],
        "How long its oldest message has been in the queue; 0: empty";
    QUEUE_UNSERVED = Gauge, "tidegate_queue_unserved" ["queue", "kind"],
        "1 for each kind whose requests wait here and that no live worker takes, else absent";
    QUEUE_DRAIN_RATE = Gauge, "tidegate_queue_drained_per_second" ["queue", "window"],
        "Messages served per second over the last `10s`, `1m`, `5m`";
    QUEUE_RATE_LIMIT = Gauge, "tidegate_queue_rate_limit_per_second" ["queue"],
        "D, sends per second, fleet-wide; absent: no limit, 0: stopped";
    QUEUE_CONCURRENCY_LIMIT = Gauge, "tidegate_queue_concurrency_limit" ["queue"],
        "C, checks at once, fleet-wide; absent: no limit, 0: stopped";
    QUEUE_PAUSED = Gauge, "tidegate_queue_paused" ["queue"], "Whether claims are stopped";
    FAIR_ACTIVE_KEYS = Gauge, "tidegate_fair_active_keys" ["queue"], "Submitters or kinds that take turns in a fair queue";
    FAIR_IDLE_TURNS = Gauge, "tidegate_fair_idle_turns" ["queue"],
        "Those with nothing left that are remembered until the others have caught up";
    FAIR_ARRIVALS = Gauge, "tidegate_fair_arrivals" ["queue"],
        "Rows of the journal that no claim and no maintenance has folded; those of snoozed messages wait for their times";
    GATE_CLOSED = Gauge, "tidegate_gate_closed" ["queue"], "Whether the queue's gate refuses submissions";
    GATE_HIGH_WATER = Gauge, "tidegate_gate_high_water" ["queue"], "The depth at which the gate closes";
    GATE_LOW_WATER = Gauge, "tidegate_gate_low_water" ["queue"], "The depth at which it opens again";
    ETA_ERROR = Histogram(ETA_ERROR_SECONDS), "tidegate_eta_error_seconds" ["kind"],
        "How much later than stated at submit a request has ended; negative: earlier";
    ETA_P90_STATED = Counter, "tidegate_eta_p90_stated_total" ["kind"], "Ended requests that had a stated p90 time";
    ETA_P90_HELD = Counter, "tidegate_eta_p90_held_total" ["kind"], "Those of them that ended within it; nine in ten is right";
    UNRESOLVED = Gauge, "tidegate_unresolved_requests" ["kind"],
        "Ended requests that may have been executed, counted up to 100,000";
    UNRESOLVED_OLDEST_AGE = Gauge, "tidegate_unresolved_oldest_age_seconds" ["kind"],
        "The time since the oldest of them ended; absent: there is none";
    CONTRADICTED = Gauge, "tidegate_contradicted_requests" ["kind"],
        "Ended requests that two sources say different things about, such as an operator and a late response";
    WEBHOOKS = Gauge, "tidegate_webhook_deliveries" ["state"],
        "Deliveries to callback URLs, counted up to 100,000: `waiting` (for an attempt), `under_way`, `failed` (given up)";
    RESPONSES_EXPIRED = Counter, "tidegate_responses_expired_total" [],
        "Responses deleted because no request had their reference for as long as one could";
    WEBHOOK_OLDEST_AGE = Gauge, "tidegate_webhook_oldest_age_seconds" [],
        "Age of the oldest delivery that is neither made nor given up; 0: there is none";
    SLI_RETRY_RATE = Gauge, "tidegate_sli_retry_rate" ["kind", "stage"],
        "Retries per request over five minutes; absent: no request";
    SLI_TIMEOUT_RATE = Gauge, "tidegate_sli_timeout_rate" ["kind", "stage"], "Timeouts per request over five minutes";
    SLI_ERROR_RATIO = Gauge, "tidegate_sli_error_ratio" ["kind", "stage"], "Share of failed calls over five minutes";
    SLI_DUP_DROP_RATE = Gauge, "tidegate_sli_dup_drop_rate" ["kind", "stage"],
        "Share of submissions that were duplicates, over HTTP or by SQL, over five minutes";
    SLI_LATENCY = Gauge, "tidegate_sli_latency_seconds" ["kind", "stage", "quantile"],
        "Latency of calls over five minutes: quantiles 0.5 and 0.99";
    SLI_LATENCY_TARGET = Gauge, "tidegate_sli_latency_target_seconds" ["kind", "stage"],
        "The target for the quantile 0.99 (`slo_p99_ms` of the kind); absent: none";
    SLI_CIRCUIT_OPEN_RATIO = Gauge, "tidegate_sli_circuit_open_ratio" ["kind", "stage"],
        "For what share of the last five minutes the breaker was not closed";
    THREADS_RETRY_RATE = Gauge, "Threads_retry_rate" ["kind", "stage"],
        "`Threads.retry.rate`: another name of `tidegate_sli_retry_rate`";
    THREADS_TIMEOUT_RATE = Gauge, "Threads_timeout_rate" ["kind", "stage"],
        "`Threads.timeout.rate`: another name of `tidegate_sli_timeout_rate`";
    THREADS_DEDUP_DROP_RATE = Gauge, "Threads_dedup_drop_rate" ["kind", "stage"],
        "`Threads.dedup.drop_rate`: another name of `tidegate_sli_dup_drop_rate`";
    THREADS_HEDGE_COUNT = Counter, "Threads_hedge_count" ["kind", "stage"],
        "`Threads.hedge.count`: another name of `tidegate_hedges_total`";
    THREADS_CIRCUIT_OPEN_RATIO = Gauge, "Threads_circuit_open_ratio" ["kind", "stage"],
        "`Threads.circuit.open_ratio`: another name of `tidegate_sli_circuit_open_ratio`";
    CALLS = Counter, "tidegate_calls_total" ["kind", "stage", "outcome"],
        "Calls settled, whole fleet: `answered`, `failed`, `timed_out`";
    RETRIES = Counter, "tidegate_retries_total" ["kind", "stage"], "Calls that were to be made again, whole fleet";
    HEDGES = Counter, "tidegate_hedges_total" ["kind", "stage"], "Hedged calls, whole fleet";
    BREAKER_STATE = Gauge, "tidegate_breaker_state" ["kind", "stage", "state"],
        "1 for the state the breaker is in: `closed`, `half_open`, `open`; absent: there is none";
    POLICY_STRETCH = Gauge, "tidegate_policy_stretch" ["kind", "stage"],
        "By what backoffs are multiplied while a stage heals; 1: as declared";
    POLICY_TIMEOUT = Gauge, "tidegate_policy_timeout_seconds" ["kind", "stage"],
        "Timeout of one call, as its mode has found it; of adaptive ones the bound";
    ADAPTIVE_TIMEOUT = Gauge, "tidegate_adaptive_timeout_seconds" ["kind", "stage"],
        "Adaptive timeout of one call, as the fleet last folded it; absent: another mode";
    ADAPTIVE_SRTT = Gauge, "tidegate_adaptive_srtt_seconds" ["kind", "stage"],
        "Smoothed latency of its calls; absent: nothing was measured yet";
    ADAPTIVE_K_MARGIN = Gauge, "tidegate_adaptive_k_margin" ["kind", "stage"],
        "How many times four deviations the timeout is above the smoothed latency";
    ADAPTIVE_HIGH_LOAD = Gauge, "tidegate_adaptive_high_load" ["kind", "stage"],
        "1 while the timeout is held at the best case because of high load, 0 otherwise";
    WORKERS = Gauge, "tidegate_worker_processes" ["state"],
        "Workers known: `alive`, `stopped` (by themselves), `lost` (not seen for 30 s)";
    MAINTENANCE_LAG = Gauge, "tidegate_maintenance_lag_seconds" ["duty"], "For how long a maintenance duty has been overdue";
    MAINTENANCE_PASSED_OVER = Gauge, "tidegate_maintenance_passed_over" ["duty"],
        "Requests that a maintenance duty can neither end nor delete";
    RECOVERED = Counter, "tidegate_recovered_total" ["what"],
        "What `tidegate recover` has corrected, by figure: `reset`, `rebuilt`, `expired` and the others of its summary";

    WORKER_CLAIMED = Counter, "tidegate_worker_claimed_total" ["queue"], "Requests claimed by this worker";
    WORKER_CALL_DURATION = Histogram(STAGE_SECONDS), "tidegate_worker_call_duration_seconds" ["queue"],
        "Time from a request's claim to its outcome; a send's wait for its time included";
    WORKER_HEDGES = Counter, "tidegate_worker_hedges_total" ["queue"], "Calls beyond the first of a slow request";
    WORKER_SETTLED = Counter, "tidegate_worker_settled_total" ["queue", "outcome"],
        "Outcomes stored: `passed`, `snoozed`, `check_failed`, `receipt`, `retry`, `rejected`, `released`";
    WORKER_LEASES_LOST = Counter, "tidegate_worker_leases_lost_total" ["queue"],
        "Requests that were this worker's no more before their outcome was stored";
}
