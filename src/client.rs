//! A program's way into Tidegate: one value for one database, over the [`Store`] and the [`worker`].

mod error;
mod respond;
mod singleton;
mod submit;
mod worker;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use sqlx::{ConnectOptions, PgConnection, PgPool};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

pub use self::{
    error::Error,
    respond::{Respond, RespondMany, Target},
    singleton::Singleton,
    submit::Submit,
    worker::{RunningWorker, Worker},
};
use crate::{
    database::{self, PoolSettings},
    error::StoreError,
    listener,
    news::Waiters,
    request::{JsonText, Request, RequestError, RequestId, Status},
    schema::{self, Migrations},
    stage::Stages,
    store::{Cancelled, Kind, Lease, Outlook, Response, Store},
};

/// A result whose error is one of [`Tidegate`].
type Result<T, E = Error> = std::result::Result<T, E>;

/// Tidegate on one database. Cheap to clone; clones share their connections.
///
/// ```no_run
/// # async fn example() -> Result<(), tidegate::Error> {
/// use tidegate::{Kind, Tidegate};
///
/// let tidegate = Tidegate::connect("postgres://localhost/app").await?;
/// tidegate.migrate().await?;
/// tidegate.register(Kind::direct("payout").rate(20)).await?;
/// let submitted = tidegate.submit("payout", &"7 to Ann").key("invoice 42").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tidegate(Arc<Inner>);

struct Inner {
    store: Store,
    /// The URL to migrate, if it was given: a pool does not keep all of it.
    url: Option<String>,
    waiters: Waiters,
    /// Receives notifications, from the first wait on.
    listening: OnceLock<AbortOnDropHandle<()>>,
}

impl Tidegate {
    /// Connects to the database at `url`, with up to ten connections.
    ///
    /// # Errors
    ///
    /// The URL cannot be read, or the database does not answer.
    pub async fn connect(url: &str) -> Result<Self> {
        let pool = database::connect(url, &PoolSettings::default()).await?;
        Ok(Self::new(pool, Some(url.to_owned())))
    }

    /// Uses connections of the caller's. They need `synchronous_commit` on, or a crash of the server loses requests that
    /// were accepted.
    #[must_use]
    pub fn from_pool(pool: PgPool) -> Self {
        Self::new(pool, None)
    }

    fn new(pool: PgPool, url: Option<String>) -> Self {
        let store = Store::new(pool);
        Self(Arc::new(Inner {
            waiters: Waiters::new(store.clone(), usize::MAX),
            store,
            url,
            listening: OnceLock::new(),
        }))
    }

    /// The URL of the database, if it was given.
    #[doc(hidden)]
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        self.0.url.as_deref()
    }

    /// A method for each SQL function.
    #[doc(hidden)]
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Brings the schema to the version of this program, as `tidegate migrate`. Harmless when it has this version.
    ///
    /// # Errors
    ///
    /// See [`MigrateError`](crate::MigrateError).
    pub async fn migrate(&self) -> Result<()> {
        self.migrate_with(&[]).await
    }

    /// As [`migrate`](Self::migrate), and then brings schemas of the program itself to its version, in order. Each has a
    /// history of its own, in its table `refinery_schema_history`, which refinery keeps.
    ///
    /// ```no_run
    /// # async fn example(tidegate: tidegate::Tidegate) -> Result<(), tidegate::Error> {
    /// use tidegate::Migrations;
    ///
    /// let ledger = Migrations::new("ledger")
    ///     .file("V1__entries", "create table ledger.entry (request uuid primary key, cents bigint not null)")
    ///     .check("negative_entry", "-- No entry is negative.\nselect e.request as id from ledger.entry as e where e.cents < 0");
    /// tidegate.migrate_with(&[ledger]).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// See [`MigrateError`](crate::MigrateError). A database that has one of the migrations with another text is refused
    /// before anything changes.
    pub async fn migrate_with(&self, programs: &[Migrations]) -> Result<()> {
        let options = || self.store().pool().connect_options().to_url_lossy().to_string();
        schema::migrate_with(&self.0.url.clone().unwrap_or_else(options), programs).await?;
        Ok(())
    }

    /// Makes a kind and those of its queues that are missing. Changes nothing if the kind exists, so a program may repeat
    /// it at each start.
    ///
    /// # Errors
    ///
    /// The kind exists with another flow or other queues; an invalid name or value; a database error.
    pub async fn register(&self, kind: Kind) -> Result<()> {
        self.store().kind_add(&kind).await?;
        Ok(())
    }

    /// Submits a request of a kind, when the returned value is awaited.
    pub fn submit<'a>(&'a self, kind: &str, payload: &impl Serialize) -> Submit<'a> {
        Submit::new(self.store(), kind, json_text(payload))
    }

    /// Stores a response of the downstream, a share or a verdict, when the returned value is awaited: to a request, by its
    /// id or by the reference of its receipt.
    pub fn respond(&self, to: impl Into<Target>, response: &impl Serialize) -> Respond<'_> {
        Respond::new(&self.0, Response::new(to, response))
    }

    /// Stores up to 1000 responses, shares and verdicts in one statement, when the returned value is awaited; many cost a
    /// fraction of as many calls of [`respond`](Self::respond).
    pub fn respond_many<'a>(&'a self, responses: &'a [Response]) -> RespondMany<'a> {
        RespondMany::new(&self.0, responses)
    }

    /// Fails a request that awaits its response, when the downstream takes its receipt back: false, and nothing has changed,
    /// if none awaits a response there.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn fail(&self, to: impl Into<Target>, error: RequestError) -> Result<bool> {
        let (id, reference) = to.into().parts();
        let failed = self.store().fail_receipt(id, reference.as_deref(), &error).await?;
        self.0.waiters.moved(failed.map(|id| (id, Status::Failure)));
        Ok(failed.is_some())
    }

    /// Where a request stands; `None` for an unknown id.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn get(&self, id: RequestId) -> Result<Option<Outlook>> {
        Ok(self.store().outlook(id).await?)
    }

    /// Waits until a request has ended.
    ///
    /// # Errors
    ///
    /// [`Error::NotEnded`] after the timeout; [`StoreError::UnknownRequest`], a database error.
    pub async fn wait(&self, id: RequestId, timeout: Duration) -> Result<Outlook> {
        self.0.listen();
        let ended = async {
            let Some(mut waiter) = self.0.waiters.wait_for(id) else {
                return Err(Error::NotEnded { id, timeout });
            };
            loop {
                match self.get(id).await? {
                    None => return Err(StoreError::UnknownRequest(format!("there is no request {id}")).into()),
                    Some(outlook) if outlook.status.is_terminal() => return Ok(outlook),
                    Some(_) => waiter.ended().await,
                }
            }
        };
        let ended = tokio::time::timeout(timeout, ended).await;
        ended.unwrap_or(Err(Error::NotEnded { id, timeout }))
    }

    /// Cancels a request that waits, or ends one that is being sent unless that succeeds.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn cancel(&self, id: RequestId) -> Result<Cancelled> {
        Ok(self.store().cancel(id).await?)
    }

    /// Which of these leases are held, for a transaction that may only commit while they are: until its end no other
    /// session moves their requests or takes them over, also when a lease runs out meanwhile.
    ///
    /// ```no_run
    /// # use sqlx::PgPool;
    /// # use tidegate::{Tidegate, request::Request};
    /// # async fn example(tidegate: Tidegate, pool: PgPool, request: Request<u64>) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut transaction = pool.begin().await?;
    /// if tidegate.hold_leases(&mut transaction, &[request.lease()]).await?.is_empty() {
    ///     return Ok(());
    /// }
    /// // Write what this stage has decided.
    /// transaction.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It waits for no lock: a lease is also missing while another transaction has its request locked. Settles of the
    /// requests wait for the end of the transaction, so end it soon, and do not change the requests in it.
    ///
    /// # Errors
    ///
    /// A database error. The transaction is lost then.
    pub async fn hold_leases(&self, transaction: &mut PgConnection, leases: &[Lease]) -> Result<Vec<Lease>> {
        Ok(self.store().hold_leases(transaction, leases).await?)
    }

    /// Sets how many shares complete a request, when its readiness check finds out; [`Kind::threshold`] by default. False
    /// once the check has lost its lease: another one may be under way.
    ///
    /// # Errors
    ///
    /// [`StoreError::Misuse`] for less than one share; a database error.
    pub async fn set_response_threshold<P: Sync>(&self, request: &Request<P>, shares: i32) -> Result<bool> {
        Ok(self.store().set_response_threshold(request.lease(), shares).await?)
    }

    /// A task that one process of the fleet runs at a time, under this name; [`Singleton::run`] runs it.
    pub fn singleton(&self, name: impl Into<String>) -> Singleton {
        Singleton::new(self.store().clone(), name.into())
    }

    /// A worker for the kinds that `stages` has stages for.
    pub fn worker(&self, stages: Stages) -> Worker {
        Worker::new(self.store().clone(), stages)
    }
}

impl Inner {
    /// Listens on a connection of its own, so that a small pool has all of its connections for statements.
    fn listen(&self) {
        self.listening.get_or_init(|| {
            let subscribers: Vec<Box<dyn listener::Subscriber>> = vec![Box::new(self.waiters.clone())];
            let pool = self.store.with_own_pool(1).pool().clone();
            let listens = listener::listen(pool, self.store.clone(), subscribers, CancellationToken::new());
            AbortOnDropHandle::new(tokio::spawn(listens))
        });
    }
}

impl Outlook {
    /// The response of a request, as a type.
    ///
    /// # Errors
    ///
    /// [`Error::NoResponse`] with the error in which the request ended; [`Error::ResponseType`].
    pub fn response<T: DeserializeOwned>(&self) -> Result<T> {
        let Some(response) = &self.response else {
            let (id, status, error) = (self.id, self.status, self.error.clone());
            return Err(Error::NoResponse { id, status, error });
        };
        serde_json::from_str(response.get()).map_err(|source| Error::ResponseType { id: self.id, source })
    }
}

/// A value as JSON text.
fn json_text(value: &impl Serialize) -> Result<JsonText> {
    let text = JsonText::of(value);
    Ok(text.map_err(|error| StoreError::Unstorable(format!("it is no JSON: {error}")))?)
}
