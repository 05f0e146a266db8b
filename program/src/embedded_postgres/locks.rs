//! Locks between processes, which the kernel releases when their holder dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::EmbeddedPostgresError;

/// A lock on a file, held until the value is dropped or the process ends.
#[derive(Debug)]
pub(super) struct FileLock(File);

impl FileLock {
    /// Waits for the lock together with any number of other shared holders.
    pub(super) fn shared(path: &Path) -> Result<Self, EmbeddedPostgresError> {
        Self::wait(path, File::lock_shared)
    }

    /// Waits for the lock alone.
    pub(super) fn exclusive(path: &Path) -> Result<Self, EmbeddedPostgresError> {
        Self::wait(path, File::lock)
    }

    /// Takes the lock alone, or returns `None` at once if any process holds it.
    pub(super) fn try_exclusive(path: &Path) -> Result<Option<Self>, EmbeddedPostgresError> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(EmbeddedPostgresError::io("lock", path)(error)),
        }
    }

    fn wait(path: &Path, lock: impl Fn(&File) -> io::Result<()>) -> Result<Self, EmbeddedPostgresError> {
        let file = open(path)?;
        loop {
            match lock(&file) {
                Ok(()) => return Ok(Self(file)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(EmbeddedPostgresError::io("lock", path)(error)),
            }
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child another thread is about to start holds a copy of
        // the descriptor until it executes its program, and with it the lock.
        if let Err(error) = self.0.unlock() {
            tracing::debug!(%error, "could not unlock a file before closing it");
        }
    }
}

fn open(path: &Path) -> Result<File, EmbeddedPostgresError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(EmbeddedPostgresError::io("open", path))
}
