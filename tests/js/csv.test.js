// What begins with a sign is a number, or words that no spreadsheet runs.
import assert from "node:assert/strict";
import { test } from "node:test";
import { csvCell } from "../../app/canvas/csv.js";

test("words that a spreadsheet would run are defused", () => {
  for (const start of ["=", "+", "-", "@", "\t", "\r"]) {
    assert.match(csvCell(`${start}HYPERLINK`), /^"?'/);
  }
  assert.equal(csvCell('=HYPERLINK("http://x","y")'), '"\'=HYPERLINK(""http://x"",""y"")"');
  assert.equal(csvCell("-1+1|cmd"), "'-1+1|cmd");
});

test("numbers and other words stay what they are", () => {
  for (const text of ["-0.189", "+3", "-1.5e-9", "12", "-12%", "flash2", "N = 4", "a-b", ""])
    assert.equal(csvCell(text), text);
  assert.equal(csvCell(-0.25), "-0.25");
  assert.equal(csvCell(null), "");
  assert.equal(csvCell("1,024"), '"1,024"');
});
