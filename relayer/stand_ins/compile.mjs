// Compiles the contracts: `node compile.mjs PACKAGES ARTEFACTS`, where PACKAGES is the folder that
// `relayer/tests/prepare` fills. Writes the ABI and the bytecode of each contract that can be deployed.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const [packages, artefacts] = process.argv.slice(2);
const solc = createRequire(resolve(packages, "package.json"))("solc");
const folder = fileURLToPath(new URL("contracts/", import.meta.url));
const sources = Object.fromEntries(
  readdirSync(folder).map((file) => [file, { content: readFileSync(join(folder, file), "utf8") }]),
);
const input = {
  language: "Solidity",
  sources,
  settings: {
    evmVersion: "cancun",
    metadata: { bytecodeHash: "none", appendCBOR: false },
    optimizer: { enabled: true, runs: 200 },
    viaIR: true,
    outputSelection: { "*": { "*": ["abi", "evm.bytecode.object"] } },
  },
};
const find = (path) => {
  const file = path.replace(/^.*\//, "");
  return sources[file] ? { contents: sources[file].content } : { error: "no such file" };
};
const output = JSON.parse(solc.compile(JSON.stringify(input), { import: find }));
for (const { formattedMessage } of output.errors ?? []) process.stderr.write(formattedMessage);
if (output.errors?.length) process.exit(1);

for (const contracts of Object.values(output.contracts)) {
  for (const [name, { abi, evm }] of Object.entries(contracts)) {
    const bytecode = evm.bytecode.object;
    if (!bytecode) continue;
    const lines = abi.map((item) => `    ${JSON.stringify(item)}`).join(",\n");
    writeFileSync(join(artefacts, `${name}.json`), `{\n  "abi": [\n${lines}\n  ],\n  "bytecode": "0x${bytecode}"\n}\n`);
  }
}
