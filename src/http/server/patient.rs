//! A stream that gives up on a client who takes nothing of what is sent to it.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// Writes with a time limit on getting nowhere; reads as they come (hyper and the handlers limit those).
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Runs while a write gets nowhere.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            stuck: None,
        }
    }

    /// A write's outcome; an error when writes have got nowhere for too long.
    fn progress<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let patience = self.patience;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(stuck.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.progress(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.progress(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.progress(shut, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.progress(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_who_takes_nothing_is_given_up_and_a_slow_one_is_not() {
        let (ours, mut theirs) = duplex(10);
        let mut patient = Patient::new(ours, Duration::from_secs(30));
        let slow = tokio::spawn(async move {
            let mut taken = [0; 1];
            for _ in 0..20 {
                sleep(Duration::from_secs(20)).await;
                theirs.read_exact(&mut taken).await.unwrap();
            }
            theirs
        });
        // 20 of 30 bytes are taken over 400 s, the last 10 fit; then nobody takes anything.
        patient.write_all(&[1; 30]).await.unwrap();
        let _theirs = slow.await.unwrap();

        let stuck = patient.write_all(&[1; 11]).await;

        assert_eq!(stuck.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
