//! `tidegate-fhevm init`

use tidegate::Tidegate;
use tidegate_cli::logs::print_out;
use tidegate_fhevm::kinds;

use super::GlobalArgs;

pub(super) async fn run(global: GlobalArgs) -> anyhow::Result<()> {
    let location = global.database.locate().await?;
    let tidegate = Tidegate::connect(&location.url).await?;
    tidegate.migrate_with(&[tidegate_evm::migrations(), tidegate_fhevm::migrations()]).await?;
    match kinds::init(tidegate.store().pool()).await?[..] {
        [] => print_out(format_args!("nothing changed: every kind is there")),
        ref made => print_out(format_args!("made {}", made.join(", "))),
    }
    Ok(())
}
