//! The limit of open files, and so of connections, of this process.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit to `wanted`, as far as the system allows; returns the new limit.
///
/// Shells set a small limit for the sake of programs that use `select`; a server does not.
///
/// # Errors
///
/// The system's error; the limit is then unchanged.
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
