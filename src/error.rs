//! Errors of the store, with messages for operators and callers.

mod tls;

use sqlx::postgres::PgDatabaseError;

use crate::{request::UnknownWord, sql_files};

/// An error of the store, with its remedy where there is one.
///
/// A lost lease is never an error: it is a value that the caller has to check.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No such kind (SQLSTATE TG002).
    #[error("{0}")]
    UnknownKind(String),
    /// The kind's nominal times are not set (TG003).
    #[error("{0}")]
    KindNotConfigured(String),
    /// An idempotency key was used before with another payload (TG004).
    #[error("{0}")]
    KeyReused(String),
    /// No such queue, or one of the other stage (TG005).
    #[error("{0}")]
    UnknownQueue(String),
    /// No such request (TG006).
    #[error("{0}")]
    UnknownRequest(String),
    /// An invalid argument (TG007).
    #[error("{0}")]
    Misuse(String),
    /// No such setting (TG010).
    #[error("{0}")]
    UnknownSetting(String),
    /// The database user lacks a right (SQLSTATE 42501).
    #[error("the database user may not do this: {0}")]
    NotPermitted(String),
    /// A callback URL is not allowed (TG009).
    #[error("{0}")]
    CallbackRefused(String),
    /// A batch is larger than a gate's high mark: it would always be refused (TG011).
    #[error("{0}")]
    BatchTooLarge(String),
    /// The kind requires the caller's idempotency key, and a request has none (TG012).
    #[error("{0}")]
    KeyMissing(String),
    /// A policy cannot hold: over its budget or its latency target, or against its semantics (TG013).
    #[error("{0}")]
    PolicyRefused(String),
    /// Another transaction keeps a gate's lock for too long (SQLSTATE 55P03, with Tidegate's message): nothing was
    /// stored.
    #[error("{0}")]
    GateBusy(String),
    /// Another transaction holds the idempotency key of a submission for too long: nothing was stored.
    #[error("{0}")]
    KeyBusy(String),
    /// The transition is not legal (TG001).
    #[error("{0}")]
    IllegalTransition(String),
    /// The value cannot be stored, such as JSON with a NUL character (SQLSTATE class 22), or nested too deep or too
    /// large for the database (class 54).
    #[error("the database cannot store this value: {0}")]
    Unstorable(String),
    /// The database has no Tidegate schema, or an older one.
    #[error("the database is not migrated: run `tidegate migrate` ({0})")]
    NotMigrated(String),
    /// The database cannot be reached, or the connection was lost.
    #[error("the database cannot be reached: {0}")]
    Unavailable(String),
    /// Any other error of the database.
    #[error("the database refused: {0}")]
    Database(#[source] sqlx::Error),
}

/// The result of a call of the store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Logs a warning about an error of the store; one of an unavailable database at level debug only, because the store
/// logs once that the database is unavailable, and once that it is back.
#[doc(hidden)]
#[macro_export]
macro_rules! warn_of {
    ($error:expr, $($said:tt)+) => {
        if matches!($error, $crate::StoreError::Unavailable(_)) {
            tracing::debug!(error = %$error, $($said)+);
        } else {
            tracing::warn!(error = %$error, $($said)+);
        }
    };
}
#[doc(hidden)]
pub use warn_of;

impl StoreError {
    /// Whether the same call may succeed later, with nothing changed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        // Deadlocks and serialization failures, lack of resources, errors of the server's system, lock and statement timeouts.
        let may_pass = |code: String| {
            ["40", "53", "58"].iter().any(|class| code.starts_with(class)) || code == "55P03" || code == "57014"
        };
        matches!(self, Self::Unavailable(_) | Self::GateBusy(_)) || self.code().is_some_and(may_pass)
    }

    /// Whether a lock was not granted in time (SQLSTATE 55P03).
    #[must_use]
    pub fn is_lock_timeout(&self) -> bool {
        self.code().as_deref() == Some("55P03")
    }

    /// The SQLSTATE of another error of the database.
    fn code(&self) -> Option<String> {
        match self {
            Self::Database(error) => Some(error.as_database_error()?.code()?.into_owned()),
            _ => None,
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let sqlx::Error::Database(database) = &error else {
            return driver_error(error);
        };

        let code = database.code().unwrap_or_default().into_owned();
        let hint = database
            .try_downcast_ref::<PgDatabaseError>()
            .and_then(PgDatabaseError::hint)
            .map(|hint| format!("; {hint}"))
            .unwrap_or_default();
        let message = match database.constraint() {
            // Constraints are named as sentences. A trigger that enforces one has a message of its own, and names no
            // table.
            Some(constraint) if code == "23514" && database.table().is_some() => constraint.replace('_', " "),
            _ => format!("{}{hint}", database.message()),
        };
        match code.as_str() {
            "TG001" => Self::IllegalTransition(message),
            "TG002" => Self::UnknownKind(message),
            "TG003" => Self::KindNotConfigured(message),
            "TG004" => Self::KeyReused(message),
            "TG005" => Self::UnknownQueue(message),
            "TG006" => Self::UnknownRequest(message),
            "TG007" => Self::Misuse(message),
            "TG010" => Self::UnknownSetting(message),
            "42501" => Self::NotPermitted(with_missing_role(message)),
            "TG011" => Self::BatchTooLarge(message),
            "TG012" => Self::KeyMissing(message),
            "TG013" => Self::PolicyRefused(message),
            "TG009" => Self::CallbackRefused(message),
            // Other lock timeouts keep PostgreSQL's message.
            "55P03" if message.starts_with("gate \"") => Self::GateBusy(message),
            "42P01" if message.contains("\"pgmq.q_") => {
                Self::NotMigrated(format!("{message}; if a queue was removed at this moment, try again"))
            }
            // Undefined schema, table, function, column or type: the schema is missing or of another version.
            "3F000" | "42P01" | "42883" | "42703" | "42704" => Self::NotMigrated(message),
            // Shutting down, starting up, connection lost, no connections allowed, too many of them, no such database
            // or role.
            "57P01" | "57P02" | "57P03" | "57P05" | "55000" | "53300" | "3D000" | "28P01" => Self::Unavailable(message),
            "28000" => Self::Unavailable(login_refusal(message)),
            "25006" => Self::Unavailable(format!("it takes no writes ({message})")),
            // Prepared statements of one session meet another server process, or those of another session.
            "42P05" | "26000" => Self::Unavailable(format!(
                "a pooler gives each transaction another server process, and has lost a prepared statement: set PgBouncer's \
                 max_prepared_statements (1.21 or newer) or its pool_mode to session, or connect directly ({message})"
            )),
            // A value that a named constraint forbids.
            "23502" | "23514" => Self::Misuse(message),
            code if code.starts_with("08") => Self::Unavailable(message),
            code if code.starts_with("22") || code.starts_with("54") => Self::Unstorable(message),
            _ => Self::Database(error),
        }
    }
}

/// The refusal of a right, with the roles that have it.
fn with_missing_role(message: String) -> String {
    let denied = message.strip_prefix("permission denied for ").map(|what| what.split_once(' '));
    let roles = match denied {
        Some(Some(("function", function))) => sql_files::roles_that_call(function).join(" or "),
        Some(Some(("schema", "tidegate"))) => {
            "tidegate_reader, tidegate_api, tidegate_node, tidegate_worker or tidegate_admin".to_owned()
        }
        // All roles may read the tables of the schema.
        Some(Some(("table", table))) if sql_files::admin_changes(table) => "tidegate_admin".to_owned(),
        _ => String::new(),
    };
    if roles.is_empty() {
        return message;
    }
    format!("{message}; it needs the role {roles}: `grant ROLE to USER`")
}

/// An error that is no answer of the database.
fn driver_error(error: sqlx::Error) -> StoreError {
    match &error {
        // A word that this program does not know: the schema is of another version.
        sqlx::Error::ColumnDecode { source, .. } if source.is::<UnknownWord>() => {
            StoreError::NotMigrated(source.to_string())
        }
        sqlx::Error::Io(error) => {
            let failure = error.get_ref().and_then(|inner| tls::failure(inner));
            StoreError::Unavailable(failure.unwrap_or_else(|| error.to_string()))
        }
        sqlx::Error::Tls(error) => {
            let failure = tls::failure(&**error);
            StoreError::Unavailable(failure.unwrap_or_else(|| driver_tls_failure(&error.to_string())))
        }
        // The driver's message has this beginning once for each of its layers.
        sqlx::Error::Configuration(error) => {
            let why = error.to_string().replace("error with configuration: ", "");
            StoreError::Unavailable(driver_tls_failure(&why))
        }
        sqlx::Error::PoolTimedOut => StoreError::Unavailable("no connection within the time for it".to_owned()),
        sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
            StoreError::Unavailable("this program is closing its connections".to_owned())
        }
        sqlx::Error::Protocol(detail) => {
            StoreError::Unavailable(format!("the server is not PostgreSQL, or its answer was cut off ({detail})"))
        }
        _ => StoreError::Database(error),
    }
}

/// What to do for a server that requires another client's certificate.
const CLIENT_CERTIFICATE: &str = "name a certificate that its ssl_ca_file has signed with sslcert and sslkey";

/// The server's reason for refusing a login, and what to do if TLS was the reason.
fn login_refusal(message: String) -> String {
    let remedy = if message.ends_with("no encryption") {
        "the server may take this user with TLS only: set sslmode=verify-full and sslrootcert"
    } else if message.contains("client certificate") {
        CLIENT_CERTIFICATE
    } else if message.starts_with("certificate authentication failed") {
        "the common name of the certificate in sslcert has to be the user's name, unless pg_ident.conf maps it"
    } else {
        return message;
    };
    format!("{message}: {remedy}")
}

/// The driver's reason why it did not try TLS, and what to do.
fn driver_tls_failure(why: &str) -> String {
    if why == "server does not support TLS" {
        "the server has no TLS, and the URL's sslmode requires it: turn on ssl at the server, or set sslmode=disable if \
         the network between is trusted"
            .to_owned()
    } else if why.ends_with("without TLS support enabled") {
        "the URL's sslmode requires TLS, and this program is built without it: add the feature tls of the crate tidegate".to_owned()
    } else {
        format!("TLS failed ({why}): check sslmode, sslrootcert, sslcert and sslkey")
    }
}
