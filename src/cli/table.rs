//! Tables and lists for a terminal.

use comfy_table::{CellAlignment, Table, presets::NOTHING};

/// A plain table: a header, whose columns are two blanks apart, and rows; numbers to the right.
pub(super) fn table<const N: usize>(header: &str, rows: impl IntoIterator<Item = [String; N]>) -> Table {
    let header: Vec<_> = header.split("  ").collect();
    debug_assert_eq!(header.len(), N, "{header:?}");
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(header);
    let mut numeric = [true; N];
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            numeric[column] &= cell
                .chars()
                .all(|character| character.is_ascii_digit() || ".-".contains(character));
        }
        table.add_row(row.map(|cell| plain(&cell)));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        if numeric[index] {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
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
    use super::plain;

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
