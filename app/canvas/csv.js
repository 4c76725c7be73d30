// Cells of a CSV file, for a spreadsheet that takes what begins with a sign for a formula and runs it.

const FORMULA = /^([\s\p{Cc}\p{Cf}]*[=+\-@＝＋－＠]|[\t\r])/u;
const NUMBER = /^[-+]?(\d[\d,]*\.?\d*|\.\d+)(e[-+]?\d+)?%?$/i;

/** A value as it stands in a line: words that a spreadsheet would run begin with an apostrophe. */
export function csvCell(value) {
  const text = String(value ?? "");
  const safe = FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Rows of values as a file; Excel needs the mark at the front to take it for UTF-8. */
export function csvFile(rows) {
  const lines = rows.map((row) => row.map(csvCell).join(","));
  return new Blob(["\ufeff", lines.join("\r\n"), "\r\n"], { type: "text/csv" });
}
