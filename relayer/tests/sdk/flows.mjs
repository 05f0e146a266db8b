// Runs the published SDK against a relayer: `node flows.mjs PACKAGES SETUP`, where SETUP is what `tidegate-fhevm-stand-ins
// sdk` gives: addresses, chain ids, an API key. Prints a line for each flow and each report of progress, and exits with 0 if all
// flows end as they should.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [packages, text] = process.argv.slice(2);
const setup = JSON.parse(text);
const require = createRequire(resolve(packages, "package.json"));
const { createInstance } = require("@zama-fhe/relayer-sdk/node");
const { Wallet, getAddress } = require("ethers");

const inHeader = (value) => ({ __type: "ApiKeyHeader", value });
const instance = await createInstance({ ...setup.instance, auth: inHeader(setup.key) });
const contract = getAddress("0x00000000000000000000000000000000000c0de5");
let progress;
const options = {
  onProgress: (report) => {
    progress.push({ ...report, at: Date.now() });
    console.log(`progress ${report.type}`);
    if (report.type === "throttled") operate("gates", "release");
  },
};

function prove(userAddress, more) {
  const ciphertextWithZKProof = new Uint8Array(readFileSync(new URL("ciphertext.bin", import.meta.url)));
  const { chainId, aclContractAddress } = setup.instance;
  const proof = { chainId: BigInt(chainId), aclContractAddress, contractAddress: contract, userAddress, ciphertextWithZKProof };
  return instance.requestZKProofVerification(proof, { ...options, ...more });
}

// What an operator does to the queue of input proofs, or to its gate.
async function operate(things, command) {
  const url = new URL(`/v1/admin/${things}/fhevm_input_proof/${command}`, setup.instance.relayerUrl);
  const answer = await fetch(url, { method: "POST", headers: { Authorization: `Bearer ${setup.key}` } });
  assert.equal(answer.status, 200);
}

// Real shares need a real KMS: the SDK takes the answer, and then fails to reconstruct the value from it.
async function reconstruct(call, message) {
  await assert.rejects(call, (error) => {
    assert.equal(error.message, message);
    assert.match(String(error.cause), /response parsing failed/);
    return true;
  });
}

const signing = () => ({
  ...instance.generateKeypair(),
  wallet: Wallet.createRandom(),
  start: Math.floor(Date.now() / 1000) - 60,
});

const sign = (wallet, { domain, types, message }) => {
  const { EIP712Domain, ...signed } = types;
  return wallet.signTypedData(domain, signed, message);
};

const pairs = [{ handle: setup.handle, contractAddress: contract }];

const flows = {
  async "input proof, accepted"() {
    const { handles, inputProof } = await prove(Wallet.createRandom().address);
    assert.equal(handles.length, 1);
    assert.ok(inputProof.length > 65);
  },

  async "input proof, rejected"() {
    await assert.rejects(prove(setup.rejectedUser), { name: "RelayerV2ResponseInputProofRejectedError" });
  },

  async "public decrypt"() {
    const { clearValues } = await instance.publicDecrypt([setup.handle], options);
    assert.deepEqual(clearValues, { [setup.handle]: BigInt(setup.clearValue) });
  },

  async "user decrypt"() {
    const { publicKey, privateKey, wallet, start } = signing();
    const signature = await sign(wallet, instance.createEIP712(publicKey, [contract], start, 1));
    const { address } = wallet;
    const call = instance.userDecrypt(
      pairs, privateKey, publicKey, signature, [contract], address, start, 1, options,
    );
    await reconstruct(call, "An error occured during decryption");
  },

  async "delegated user decrypt"() {
    const { publicKey, privateKey, wallet, start } = signing();
    const delegator = Wallet.createRandom().address;
    const typed = instance.createDelegatedUserDecryptEIP712(publicKey, [contract], delegator, start, 1);
    const signature = await sign(wallet, typed);
    const call = instance.delegatedUserDecrypt(
      pairs, privateKey, publicKey, signature, [contract], delegator, wallet.address, start, 1, options,
    );
    await reconstruct(call, "An error occurred during the delegated user decryption request.");
  },

  async "429, then 202"() {
    await operate("gates", "close");
    const { handles } = await prove(Wallet.createRandom().address);
    assert.equal(handles.length, 1);
    const [throttled, queued] = progress;
    assert.deepEqual([throttled.type, queued.type], ["throttled", "queued"]);
    assert.ok(throttled.retryAfterMs >= 1000 && queued.at - throttled.at >= throttled.retryAfterMs);
  },

  async "timeout of 1500 ms, and the same call again"() {
    const { address } = Wallet.createRandom();
    await operate("queues", "pause");
    await assert.rejects(prove(address, { timeout: 1500 }), { name: "RelayerV2TimeoutError" });
    const { jobId } = progress[0];
    assert.equal(progress.at(-1).type, "timeout");
    await operate("queues", "resume");
    await prove(address);
    assert.deepEqual(new Set(progress.map((report) => report.jobId)), new Set([jobId]));
  },

  async "no API key, and an unknown one: rejected"() {
    for (const auth of [undefined, inHeader("unknown")]) {
      await assert.rejects(prove(Wallet.createRandom().address, { auth }), {
        name: "RelayerV2ResponseApiError",
        status: 401,
      });
    }
  },
};

let failed = 0;
for (const [name, flow] of Object.entries(flows)) {
  progress = [];
  try {
    await flow();
    if (!name.endsWith("rejected")) assert.equal(progress.at(-1).type, "succeeded");
    console.log(`ok ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}`);
    console.error(error);
  }
}
// A provider of ethers keeps the program running.
process.exit(failed ? 1 : 0);
