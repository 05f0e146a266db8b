//! How many files, and so connections, this process may have open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit to what is wanted, as far as the system allows; returns what it is then.
///
/// Shells hand down a small limit for the sake of programs that cannot deal with more; a server can.
///
/// # Errors
///
/// Whatever the system has against it; the limit is then as it was.
pub(crate) fn raise(wanted: u64) -> nix::Result<u64> {
    let (now, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let raised = wanted.clamp(now, most.max(now));
    if raised > now {
        setrlimit(Resource::RLIMIT_NOFILE, raised, most)?;
    }
    Ok(raised)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_never_lowered_and_never_above_what_the_system_allows() {
        let (now, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();

        assert_eq!(raise(1).unwrap(), now);
        assert_eq!(raise(u64::MAX).unwrap(), most);
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (most, most));
    }
}
