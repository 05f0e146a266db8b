//! The budget: a table of the manual, and its comparison with what was counted.

use std::{fs, ops::Sub, path::Path, process::ExitCode};

use crate::calls::Call;

const MANUAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/benchmarks.md");
/// How the table begins.
const HEAD: &str = "| call | instructions | cache lines |\n|---|---|---|\n";
/// The version of PostgreSQL that the budget is for.
const MAJOR: u32 = 15;
/// How far above its budget a call may be, in percent. `perform 1` in `submit` costs 0.9.
const TOLERANCE: f64 = 0.5;

/// What one call costs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    pub instructions: u64,
    /// Lines loaded into the first-level caches.
    pub lines: u64,
}

impl Cost {
    /// The total of an account of callgrind.
    pub fn read(account: &Path) -> Self {
        let text = String::from_utf8_lossy(&fs::read(account).unwrap()).into_owned();
        let words = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        let (events, totals) = (words("events:"), words("totals:"));
        let total = |event: &str| -> u64 {
            let place = events.iter().position(|name| name == event).unwrap();
            totals[place].parse().unwrap()
        };
        Self { instructions: total("Ir"), lines: total("I1mr") + total("D1mr") + total("D1mw") }
    }

    /// The lower quartile of each count.
    pub fn lower_quartile(costs: impl Iterator<Item = Self>) -> Self {
        let (mut instructions, mut lines): (Vec<_>, Vec<_>) = costs.map(|cost| (cost.instructions, cost.lines)).unzip();
        instructions.sort_unstable();
        lines.sort_unstable();
        Self { instructions: instructions[instructions.len() / 4], lines: lines[lines.len() / 4] }
    }
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { instructions: self.instructions - other.instructions, lines: self.lines - other.lines }
    }
}

/// Prints what was counted beside the budget; it fails if a call is above it, or has none. A server of another version than
/// that of the budget never fails.
pub fn compare(costs: &[(&Call, Cost)], major: u32) -> ExitCode {
    let budget = read();
    println!("{:<34} {:>14} {:>9}   {:>12} {:>10}", "call", "instructions", "budget", "cache lines", "budget");
    let mut above = Vec::new();
    for (call, cost) in costs {
        let Some((_, allowed)) = budget.iter().find(|(name, _)| name == call.name) else {
            above.push(format!("{} has no budget", call.name));
            continue;
        };
        let (instructions, lines) =
            (percent(cost.instructions, allowed.instructions), percent(cost.lines, allowed.lines));
        println!(
            "{:<34} {:>14} {instructions:>+8.1}%   {:>12} {lines:>+9.1}%",
            call.name,
            grouped(cost.instructions),
            grouped(cost.lines)
        );
        if instructions > TOLERANCE {
            above.push(format!("{} takes {instructions:.1} % more instructions than its budget", call.name));
        }
    }
    if major != MAJOR {
        println!(
            "\nThe budget is for PostgreSQL {MAJOR}: the differences from it are those of PostgreSQL {major}, too."
        );
        return ExitCode::SUCCESS;
    }
    if above.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("\n{}\n\nIf it is worth that, write the new budget: make instructions UPDATE=1", above.join("\n"));
    ExitCode::FAILURE
}

/// Writes the table.
pub fn write(costs: &[(&Call, Cost)]) {
    let text = fs::read_to_string(MANUAL).unwrap();
    let (before, _, after) = split(&text);
    let rows: String = costs
        .iter()
        .map(|(call, cost)| format!("| {} | {} | {} |\n", call.name, grouped(cost.instructions), grouped(cost.lines)))
        .collect();
    print!("{HEAD}{rows}");
    fs::write(MANUAL, format!("{before}{HEAD}{rows}{after}")).unwrap();
}

fn read() -> Vec<(String, Cost)> {
    let text = fs::read_to_string(MANUAL).unwrap();
    let number = |cell: &str| cell.replace(',', "").parse().unwrap();
    let row = |line: &str| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        (cells[0].to_owned(), Cost { instructions: number(cells[1]), lines: number(cells[2]) })
    };
    split(&text).1.lines().map(row).collect()
}

/// The manual before the table, its rows, and what follows.
fn split(manual: &str) -> (&str, &str, &str) {
    let (before, rest) = manual.split_once(HEAD).expect("the manual has the table");
    let length = rest.split_inclusive('\n').take_while(|line| line.starts_with('|')).map(str::len).sum();
    let (rows, after) = rest.split_at(length);
    (before, rows, after)
}

fn percent(cost: u64, budget: u64) -> f64 {
    (cost as f64 / budget as f64 - 1.0) * 100.0
}

/// With a comma after each thousand.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
