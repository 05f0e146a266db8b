//! Whole lives of the four families, from the submission to the result.

use futures_util::future::join_all;

use crate::{scene::Scene, support::campaign};

#[tokio::test(flavor = "multi_thread")]
async fn each_family_gets_what_the_network_answers_by_one_transaction_per_request() {
    let scene = Scene::new().await;
    let _relay = scene.relay();
    let requests: Vec<_> = (0..campaign(15, 200)).map(|number| scene.request(number)).collect();

    let ids = join_all(requests.iter().map(|request| scene.submit(request))).await;

    for (request, id) in requests.iter().zip(&ids) {
        scene.check_result(request, *id).await;
    }
    scene.check_chain().await;
    assert_eq!(scene.count("select count(*) from fhevm.reference where not watched").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_url_is_read_from_the_host_chain_and_stored() {
    let scene = Scene::new().await;
    // The newest final block has to be one that has the contracts.
    scene.network.hosts[0].0.mine(40).await.unwrap();
    let _watch = scene.watch();

    let store = tidegate_fhevm::store::Store::new(scene.database.pool.clone());
    crate::support::eventually("the key URL is stored", || async { store.key_url().await.unwrap().is_some() }).await;

    let answer = store.key_url().await.unwrap().unwrap();
    let key = format!("{:064x}", tidegate_fhevm_stand_ins::host::first_key());
    let place = &answer["fheKeyInfo"][0]["fhePublicKey"];
    assert_eq!(place["dataId"], format!("0x{key}"));
    assert_eq!(place["urls"][0], format!("http://127.0.0.1:1/PUB-p1/PublicKey/{key}"));
}
