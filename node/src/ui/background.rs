//! Work that goes on while its pages are read.

use tidegate::internals::error::StoreError;

/// The result of work in a task of its own. A panic, whose place is in the log, is an error like others: the pages must
/// not show the work as under way for ever.
pub(super) async fn result_of<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, String> {
    match tokio::spawn(work).await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("it broke off: this node's log says where".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::result_of;

    #[tokio::test]
    async fn a_panic_is_an_error() {
        let broken = result_of::<()>(async { panic!("as a test of what then happens") }).await;
        assert_eq!(broken.unwrap_err(), "it broke off: this node's log says where");
        assert_eq!(result_of(async { Ok(7) }).await, Ok(7));
    }
}
