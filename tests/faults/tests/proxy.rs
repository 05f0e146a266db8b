//! Whether the proxy's faults have their effects on connections.

use std::time::Duration;

use tidegate_faults::proxy::{Flow, Proxy, Told, Upstream};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// A proxy to a listener, and a connection through it: both ends.
async fn connected() -> (Proxy, TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = Upstream::Tcp(vec![listener.local_addr().unwrap()]);
    let proxy = Proxy::start(upstream).await.unwrap();
    let mut caller = TcpStream::connect(proxy.address).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    pass(&mut caller, &mut server).await;
    pass(&mut server, &mut caller).await;
    (proxy, caller, server)
}

async fn pass(from: &mut TcpStream, to: &mut TcpStream) {
    from.write_all(b"x").await.unwrap();
    assert_eq!(to.read_u8().await.unwrap(), b'x');
}

async fn hears_nothing(end: &mut TcpStream) -> bool {
    timeout(Duration::from_millis(50), end.read_u8()).await.is_err()
}

async fn is_over(end: &mut TcpStream) -> bool {
    let read = timeout(Duration::from_secs(10), end.read_u8()).await;
    read.unwrap().is_err()
}

#[tokio::test]
async fn what_is_stalled_arrives_when_the_network_heals() {
    let (proxy, mut caller, mut server) = connected().await;
    proxy.flow(Flow::Stalled);
    caller.write_all(b"a").await.unwrap();
    server.write_all(b"b").await.unwrap();
    assert!(hears_nothing(&mut server).await && hears_nothing(&mut caller).await);
    proxy.heal();
    assert_eq!(server.read_u8().await.unwrap(), b'a');
    assert_eq!(caller.read_u8().await.unwrap(), b'b');
}

#[tokio::test]
async fn a_mute_network_carries_questions_and_no_answers() {
    let (proxy, mut caller, mut server) = connected().await;
    proxy.flow(Flow::Mute);
    pass(&mut caller, &mut server).await;
    server.write_all(b"b").await.unwrap();
    assert!(hears_nothing(&mut caller).await);
    proxy.heal();
    assert_eq!(caller.read_u8().await.unwrap(), b'b');
}

#[tokio::test]
async fn a_cut_tells_whom_it_should_and_the_other_end_when_the_network_heals() {
    let (proxy, mut caller, mut server) = connected().await;
    proxy.cut(Told::Both);
    assert!(is_over(&mut caller).await && is_over(&mut server).await);

    let (proxy, mut caller, mut server) = connected().await;
    proxy.cut(Told::Server);
    assert!(is_over(&mut server).await && hears_nothing(&mut caller).await);
    proxy.heal();
    assert!(is_over(&mut caller).await);

    let (proxy, mut caller, mut server) = connected().await;
    proxy.cut(Told::Caller);
    assert!(is_over(&mut caller).await && hears_nothing(&mut server).await);
    proxy.heal();
    assert!(is_over(&mut server).await);
}

#[tokio::test]
async fn refused_connections_end_at_once_and_later_ones_pass() {
    let (proxy, mut caller, _server) = connected().await;
    proxy.flow(Flow::Refused);
    assert!(is_over(&mut caller).await);
    let mut second = TcpStream::connect(proxy.address).await.unwrap();
    assert!(is_over(&mut second).await);
}
