//! A key in the memory of this process.

use std::{
    env, fmt, fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use alloy::{
    consensus::{SignableTransaction, Signed, TxEip1559},
    primitives::Address,
    signers::{SignerSync, local::PrivateKeySigner},
};
use futures_util::future::{BoxFuture, ready};

use super::{SignError, Signer};

/// A key in the memory of this process. `Debug` shows its address only.
#[derive(Clone)]
pub struct LocalSigner(PrivateKeySigner);

/// Why a key could not be read. It has no part of the key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The variable is not set.
    #[error("the environment variable {0} has no key")]
    Unset(String),
    /// The file cannot be read.
    #[error("the key file {} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Other users may read the file.
    #[error("other users may read the key file {}: set its mode to 0600", .0.display())]
    Open(PathBuf),
    /// It is no key.
    #[error("{0} is no private key: it has 64 hexadecimal digits, with or without 0x")]
    Invalid(String),
}

impl LocalSigner {
    /// The key in an environment variable, in hexadecimal digits.
    ///
    /// # Errors
    ///
    /// When it is not set, or no key.
    pub fn from_env(variable: &str) -> Result<Self, KeyError> {
        let text = env::var(variable).map_err(|_| KeyError::Unset(variable.to_owned()))?;
        Self::parse(&text, || format!("the value of {variable}"))
    }

    /// The key in a file that its owner alone may read and write.
    ///
    /// # Errors
    ///
    /// When it cannot be read, others may read it, or it is no key.
    pub fn from_file(path: &Path) -> Result<Self, KeyError> {
        let unreadable = |source| KeyError::Unreadable { path: path.to_owned(), source };
        let mode = fs::metadata(path).map_err(unreadable)?.permissions().mode();
        if mode & 0o177 != 0 {
            return Err(KeyError::Open(path.to_owned()));
        }
        let text = fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(&text, || format!("the content of {}", path.display()))
    }

    fn parse(text: &str, place: impl Fn() -> String) -> Result<Self, KeyError> {
        let key = text.trim().parse().map_err(|_| KeyError::Invalid(place()))?;
        Ok(Self(key))
    }
}

impl From<PrivateKeySigner> for LocalSigner {
    fn from(key: PrivateKeySigner) -> Self {
        Self(key)
    }
}

impl Signer for LocalSigner {
    fn address(&self) -> Address {
        self.0.address()
    }

    fn sign(&self, transaction: TxEip1559) -> BoxFuture<'_, Result<Signed<TxEip1559>, SignError>> {
        let signature = self.0.sign_hash_sync(&transaction.signature_hash());
        Box::pin(ready(match signature {
            Ok(signature) => Ok(transaction.into_signed(signature)),
            Err(error) => Err(SignError(error.to_string())),
        }))
    }
}

impl fmt::Debug for LocalSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LocalSigner").field(&self.address()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    const KEY: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, format!("{KEY}\n")).unwrap();
        for mode in [0o644, 0o640, 0o601, 0o610, 0o700] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(matches!(LocalSigner::from_file(&path), Err(KeyError::Open(_))), "{mode:o}");
        }
        for mode in [0o600, 0o400] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let signer = LocalSigner::from_file(&path).unwrap();
            let address: Address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266".parse().unwrap();
            assert_eq!(signer.address(), address);
        }
    }

    #[test]
    fn no_part_of_a_key_is_shown() {
        let key = KEY.trim_start_matches("0x");
        let signer = LocalSigner::parse(KEY, String::new).unwrap();
        let broken = format!("{key}zz");
        let error = LocalSigner::parse(&broken, || "the value of KEY".to_owned()).unwrap_err();
        for shown in [format!("{signer:?} {signer:#?}"), format!("{error:?} {error}")] {
            let shown = shown.to_lowercase();
            let leaks = (0..key.len() - 8).any(|at| shown.contains(&key[at..at + 8]));
            assert!(!leaks, "{shown}");
        }
    }

    #[test]
    fn an_environment_without_the_variable_is_named() {
        let error = LocalSigner::from_env("TIDEGATE_TEST_NO_SUCH_KEY").unwrap_err();
        assert!(error.to_string().contains("TIDEGATE_TEST_NO_SUCH_KEY"), "{error}");
    }
}
