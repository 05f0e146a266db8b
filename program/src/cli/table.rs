//! Tables and lists for a terminal.

use comfy_table::{CellAlignment, Table, presets::NOTHING};
use terminal_size::{Width, terminal_size};

/// A plain table: a header, whose columns are two blanks apart, and rows; numbers to the right. Where the terminal is
/// too narrow for it, a paragraph for each row instead.
pub(super) fn table<const N: usize>(header: &str, rows: impl IntoIterator<Item = [String; N]>) -> String {
    let width = terminal_size().map(|(Width(width), _)| width.into());
    fitted(header, &rows.into_iter().collect::<Vec<_>>(), width)
}

fn fitted<const N: usize>(header: &str, rows: &[[String; N]], width: Option<usize>) -> String {
    let header: Vec<_> = header.split("  ").collect();
    debug_assert_eq!(header.len(), N, "{header:?}");
    let wide = wide(&header, rows);
    match width {
        Some(width) if wide.lines().any(|line| line.trim_end().chars().count() > width) => narrow(&header, rows, width),
        _ => wide,
    }
}

/// Each row as its first cell, and below it the other cells behind their names, in lines of this width.
fn narrow<const N: usize>(header: &[&str], rows: &[[String; N]], width: usize) -> String {
    let mut lines = Vec::new();
    for row in rows {
        lines.push(format!("{} {}", header[0], plain(&row[0])));
        let mut line = String::new();
        for (name, cell) in header.iter().zip(row).skip(1) {
            let part = format!("{name}: {}", plain(cell));
            if !line.is_empty() && line.chars().count() + part.chars().count() + 4 > width {
                lines.push(format!("  {line}"));
                line.clear();
            }
            if !line.is_empty() {
                line.push_str(", ");
            }
            line.push_str(&part);
        }
        lines.push(format!("  {line}"));
    }
    lines.join("\n")
}

fn wide<const N: usize>(header: &[&str], rows: &[[String; N]]) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(header);
    let mut numeric = [true; N];
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            numeric[column] &= cell.chars().all(|character| character.is_ascii_digit() || ".-".contains(character));
        }
        table.add_row(row.iter().map(|cell| plain(cell)));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        if numeric[index] {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

/// A value that may be missing.
pub(super) fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A time, to the second.
pub(super) fn time(at: chrono::DateTime<chrono::Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// Prints the first lines of a list, indented, and how many more there are.
pub(super) fn print_first(lines: impl ExactSizeIterator<Item = String>) {
    const SHOWN: usize = 20;
    let more = lines.len().saturating_sub(SHOWN);
    for line in lines.take(SHOWN) {
        outln!("  {line}");
    }
    if more > 0 {
        outln!("  … and {more} more (--json lists them all)");
    }
}

/// Text from elsewhere, for a terminal: characters that move the cursor, begin a line or change the writing direction
/// are escaped.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        let turns = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if character.is_control() || turns {
            plain.extend(character.escape_default());
        } else {
            plain.push(character);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::{fitted, plain};

    const HEADER: &str = "queue  stage  limit  waiting  held  backing off  drained/s 10s  1m  gate";

    /// A picture at a width: no line is longer, and no word is broken.
    #[track_caller]
    fn assert_picture(width: Option<usize>, expected: &str) {
        let rows = [
            ["payout", "tx", "20/s", "1200", "40", "3", "19.9", "20", "accepting"],
            ["card_payment_of_the_shop", "tx", "none", "0", "0", "0", "0", "0", "too_many_requests"],
        ];
        let rows = rows.map(|row| row.map(str::to_owned)).to_vec();
        let picture = fitted(HEADER, &rows, width);
        let picture: Vec<_> = picture.lines().map(str::trim_end).collect();
        assert_eq!(picture.join("\n"), expected);
        let fits = |line: &&str| width.is_none_or(|width| line.chars().count() <= width);
        assert!(picture.iter().all(fits));
    }

    const AT_120: &str = " queue                     stage  limit  waiting  held  backing off  drained/s 10s  1m  gate
 payout                    tx     20/s      1200    40            3           19.9  20  accepting
 card_payment_of_the_shop  tx     none         0     0            0              0   0  too_many_requests";

    #[test]
    fn a_table_is_a_picture_of_its_terminal() {
        assert_picture(None, AT_120);
        assert_picture(Some(120), AT_120);
        assert_picture(
            Some(80),
            "queue payout
  stage: tx, limit: 20/s, waiting: 1200, held: 40, backing off: 3
  drained/s 10s: 19.9, 1m: 20, gate: accepting
queue card_payment_of_the_shop
  stage: tx, limit: none, waiting: 0, held: 0, backing off: 0, drained/s 10s: 0
  1m: 0, gate: too_many_requests",
        );
    }

    #[test]
    fn control_and_direction_characters_are_escaped_and_the_rest_stays() {
        for (text, shown) in [
            ("W_retry ≤ 5 s: „ja“", "W_retry ≤ 5 s: „ja“"),
            ("a\nrequest is completed", "a\\nrequest is completed"),
            ("\u{1b}[2J\u{9b}1m", "\\u{1b}[2J\\u{9b}1m"),
            ("user\u{202e}txt.exe", "user\\u{202e}txt.exe"),
        ] {
            assert_eq!(plain(text), shown);
        }
    }
}
