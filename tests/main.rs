//! All integration tests, in one program: a folder for each subject, a module for each question.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub, reason = "tests")]

mod access {
    pub mod api_keys;
    pub mod roles;
}
mod agreement;
mod audit {
    pub mod contracts;
    pub mod replay;
}
mod breaker {
    pub mod breakers;
    pub mod claims;
    pub mod credentials;
}
mod claim {
    pub mod claimers;
    pub mod clock;
    pub mod concurrency;
    pub mod fates;
    pub mod fencing;
    pub mod holds;
    pub mod leases;
    pub mod old_snapshots;
    pub mod pacing_model;
    pub mod paused_kinds;
    pub mod rates;
}
mod cli {
    pub mod commands;
    pub mod contracts;
    pub mod gates;
    pub mod hints;
    pub mod keys;
    pub mod kinds;
    pub mod requests;
}
mod config {
    pub mod doors;
    pub mod history;
    pub mod kind_add;
    pub mod kinds;
    pub mod live;
    pub mod names;
    pub mod removals;
}
mod database {
    pub mod connections;
    pub mod copies;
    pub mod embedded_postgres;
    pub mod failover;
    pub mod lock_order;
    pub mod passwords;
    pub mod pooler;
    pub mod private_cluster;
    pub mod schemas;
    pub mod surroundings;
    pub mod tls;
    pub mod upgrades;
}
mod eta {
    pub mod observed;
    pub mod quality;
    pub mod quote;
    pub mod retry_after;
}
mod gate {
    pub mod back_pressure;
    pub mod quotas;
    pub mod refusals;
    pub mod tickets;
}
mod house {
    pub mod alerts;
    pub mod bodies;
    pub mod circles;
    pub mod commands;
    pub mod comments;
    pub mod dashboard;
    pub mod formulas;
    pub mod lengths;
    pub mod links;
    pub mod reference;
    pub mod sql_docs;
    pub mod state_machine_docs;
    pub mod tidy;
    pub mod words;
}
mod http;
mod invariant {
    pub mod checker;
    pub mod doctor;
    pub mod textfile;
}
mod library {
    pub mod examples;
    pub mod facade;
    pub mod migrations;
    pub mod packages;
}
mod maintenance {
    pub mod duties;
    pub mod passed_over;
    pub mod retention;
    pub mod times;
}
mod policy {
    pub mod congestion;
    pub mod hedging;
    pub mod library;
    pub mod outages;
    pub mod policies;
    pub mod simulation;
}
mod queue {
    pub mod branches;
    pub mod counters;
    pub mod fair_agreement;
    pub mod fair_claims;
    pub mod fair_duties;
    pub mod fair_keys;
    mod fair_queues;
    pub mod fair_settings;
    pub mod positions;
    pub mod survey_plans;
    pub mod surveys;
    pub mod watermark;
}
mod recovery {
    pub mod at_once;
    pub mod losses;
    pub mod rebuilt_queues;
    pub mod redrive;
    pub mod repeats;
    pub mod waits;
    pub mod whole;
}
mod request {
    pub mod application_triggers;
    pub mod cancels;
    pub mod constraints;
    pub mod deadlines;
    pub mod endings;
    pub mod executed;
    pub mod explain;
    pub mod guards;
    pub mod hand_edits;
    pub mod hand_inserts;
    pub mod history;
    pub mod lists;
    pub mod monitoring;
    pub mod partitions;
    pub mod plans;
    pub mod races;
    pub mod resolutions;
    pub mod searches;
    pub mod transitions;
}
mod respond {
    pub mod asks;
    pub mod failures;
    pub mod inbox;
    pub mod many;
    pub mod references;
    pub mod responses;
    pub mod shares;
    pub mod thresholds;
    pub mod transactions;
}
mod settle {
    pub mod effects;
    pub mod last_errors;
    pub mod rounds;
    pub mod uncertain_sends;
}
mod singleton;
mod submit {
    pub mod canonical;
    pub mod derived_keys;
    pub mod keys;
    pub mod plain;
    pub mod same_keys;
    pub mod submission;
    pub mod terms;
}
mod support;
mod timeout {
    pub mod calls;
    pub mod estimator;
    pub mod scenarios;
}
mod trace {
    pub mod traceparents;
}
mod webhook;
mod worker {
    pub mod calls;
    pub mod lives;
    pub mod news;
    pub mod payloads;
    pub mod searches;
    pub mod shared_queues;
}
