// Driver contract helpers (see ../README.md).
import readline from "node:readline";
export const url = process.env.DATABASE_URL;
export const keyed = process.env.PEER_KEYED === "1";
export const tuned = process.env.PEER_MODE === "tuned";
export const cmd = process.argv[2];
export const opt = (k, d) => { const i = process.argv.indexOf("--" + k); return i < 0 ? d : Number(process.argv[i + 1]); };
const rl = readline.createInterface({ input: process.stdin });
const waiters = []; const lines = [];
rl.on("line", (l) => (waiters.length ? waiters.shift()(l) : lines.push(l)));
rl.on("close", () => { while (waiters.length) waiters.shift()("STOP"); lines.push("STOP"); });
export const line = () => new Promise((r) => (lines.length ? r(lines.shift()) : waiters.push(r)));
export const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
const now = () => Number(process.hrtime.bigint()) / 1000;
let keys = 0;
export const key = () => `key-${process.pid}-${keys++}`;
let count = 0; let onHit = null;
export const hit = (n = 1) => { count += n; if (onHit) onHit(now()); };
export const readyGo = async () => { console.log("READY"); await line(); };
export const serve = async () => {
  let last = 0;
  setInterval(() => { if (count !== last) { console.log("C " + count); last = count; } }, 20);
  await line();
  process.exit(0);
};
export const report = (n, t0) => console.log(JSON.stringify({ n, secs: (performance.now() - t0) / 1000 }));
export const insert1 = async (add) => {
  const n = opt("n", 10000), c = opt("c", 8), longest = opt("secs", 3600) * 1000, t0 = performance.now();
  let done = 0;
  const one = async () => { for (let i = 0; i < n / c && performance.now() - t0 < longest; i++) { await add(); done++; } };
  await Promise.all(Array.from({ length: c }, one));
  report(done, t0);
};
export const bulk = async (add) => {
  const n = opt("n", 100000), b = opt("b", 1000), t0 = performance.now();
  for (let i = 0; i < n / b; i++) await add(b);
  report(n, t0);
};
export const latency = async (add) => {
  const n = opt("n", 500), max = opt("secs", 60) * 1e6, gap = opt("gap", 20);
  await sleep(opt("warm", 1500));
  const lat = [], ins = [], start = now();
  for (let i = 0; i < n + 5; i++) {
    await sleep(5 + Math.random() * gap);
    const started = new Promise((r) => (onHit = r));
    const t0 = now(); await add(); const t1 = now();
    const s = await Promise.race([started, sleep(70000).then(() => null)]);
    if (s === null) break;
    if (i >= 5) { lat.push(Math.round(s - t0)); ins.push(Math.round(t1 - t0)); }
    if (now() - start > max) break;
  }
  console.log(JSON.stringify({ lat_us: lat, ins_us: ins }));
  process.exit(0);
};
