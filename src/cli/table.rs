//! Tables for people.

use comfy_table::{CellAlignment, Table, presets::NOTHING};

/// A plain table: a header, rows, numbers to the right.
pub(super) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(header);
    let mut numeric = [true; N];
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            numeric[column] &= cell
                .chars()
                .all(|character| character.is_ascii_digit() || ".-".contains(character));
        }
        table.add_row(row);
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
