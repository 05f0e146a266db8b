// Makes what a real KMS would have made, once: `node assets.mjs PACKAGES FOLDER`. The CRS takes 90 s of computing time.
// With a third argument it encrypts the value 42, and writes the ciphertext with its proof to that file.
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const [packages, folder, recording] = process.argv.slice(2);
const require = createRequire(resolve(packages, "package.json"));
const { createTfheKeypair } = require("@zama-fhe/relayer-sdk/node");
const LIMIT = 2n ** 29n;

const [key, crs] = ["key.bin", "crs.bin"].map((name) => join(folder, name));
if (!existsSync(crs)) {
  mkdirSync(folder, { recursive: true });
  const made = createTfheKeypair();
  writeFileSync(key, made.publicKey.safe_serialize(LIMIT));
  // The CRS comes last and at once: where it is, all is.
  writeFileSync(`${crs}.part`, made.crs.safe_serialize(LIMIT));
  renameSync(`${crs}.part`, crs);
}
if (recording) {
  const tfhe = require("node-tfhe");
  const builder = tfhe.CompactCiphertextList.builder(tfhe.TfheCompactPublicKey.safe_deserialize(readFileSync(key), LIMIT));
  builder.push_u64(42n);
  const parameters = tfhe.CompactPkeCrs.safe_deserialize(readFileSync(crs), LIMIT);
  const list = builder.build_with_proof_packed(parameters, new Uint8Array(92), tfhe.ZkComputeLoad.Verify);
  writeFileSync(recording, list.safe_serialize(LIMIT));
}
