//! The `tidegate` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments
        .next()
        .is_some_and(|word| word == "embedded-postgres-keeper")
    {
        if let Some(directory) = arguments.next() {
            return match tidegate::embedded_postgres::keep(directory.as_ref()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("{error}");
                    ExitCode::FAILURE
                }
            };
        }
    }
    ExitCode::SUCCESS
}
