// Talk to the service: errors as ApiError, the key kept for this tab, and whether the service answers at all.

const KEY = "clickvec-key";
const RETRY = [1000, 2000, 4000, 8000];

export class ApiError extends Error {
  constructor(code, message, status = 0) {
    super(message);
    Object.assign(this, { code, status });
  }
}

let tellState = null; // set by app.js: (isOffline) => void
export const onState = (listener) => { tellState = listener; };
let isOffline = false;
let retries = 0;
let askForKey = null; // set by app.js: (message) => promise of a key, or null if the user has none

export const setKeyDialog = (dialog) => { askForKey = dialog; };
export const key = () => { try { return sessionStorage.getItem(KEY) || ""; } catch { return memoryKey; } };
let memoryKey = "";
export function keepKey(value) {
  memoryKey = value;
  try { value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY); } catch { /* only in memory */ }
}

function setOffline(offline) {
  if (offline === isOffline) return;
  isOffline = offline;
  tellState?.(offline);
  if (offline) { retries = 0; setTimeout(probe, RETRY[0]); }
}

// Ask whether the service is back, less and less often.
export async function probe() {
  if (!isOffline) return;
  try {
    await fetch("/healthz", { cache: "no-store" });
    setOffline(false);
  } catch {
    retries += 1;
    setTimeout(probe, RETRY[Math.min(retries, RETRY.length - 1)]);
  }
}

async function fetchOnce(method, path, body, signal) {
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  // A header has ASCII only. Any other key is wrong, and the service says so.
  if (key()) headers.authorization = `Bearer ${key().replace(/[^!-~]/g, "?")}`;
  try {
    const response = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await response.text();
    setOffline(false);
    return [response, text];
  } catch (error) {
    if (error.name === "AbortError") throw error;
    setOffline(true);
    throw new ApiError("offline", "Check that the service is running. The page continues by itself as soon as it answers.");
  }
}

// Ask for a key if the service wants one. `forbidden` (a key for reading where one for writing is needed) asks too
// if `elevate` is given.
export async function request(method, path, body, { signal, elevate = false } = {}) {
  for (let attempt = 0; ; attempt += 1) {
    const used = key();
    const [response, text] = await fetchOnce(method, path, body, signal);
    let answer = null;
    try { answer = JSON.parse(text); } catch { /* a proxy's error page */ }
    if (response.ok && answer !== null) return answer;
    const error = new ApiError(answer?.error?.code || "unexpected", answer?.error?.message || `The answer has the status ${response.status} and is not JSON.`, response.status);
    const wantsKey = error.status === 401 || (elevate && error.status === 403);
    if (!wantsKey || !askForKey || attempt > 4) throw error;
    if (key() !== used) continue; // another request has got one meanwhile
    if (!(await askForKey(used || attempt ? error.message : ""))) throw error;
  }
}

export const get = (path, options) => request("GET", path, undefined, options);
export const post = (path, body, options) => request("POST", path, body, options);

// One question at a time: a new one aborts the one before. The promise of an outdated question gives undefined.
export function latest() {
  let controller = null;
  const ask = async (method, path, body, options) => {
    controller?.abort();
    const mine = (controller = new AbortController());
    try {
      const answer = await request(method, path, body, { ...options, signal: mine.signal });
      return mine.signal.aborted ? undefined : answer;
    } catch (error) {
      if (error.name === "AbortError" || mine.signal.aborted) return undefined;
      throw error;
    }
  };
  ask.cancel = () => controller?.abort();
  return ask;
}

// Get an answer that takes long to compute the first time: while the service is still computing it, ask again.
export async function patiently(path, options) {
  for (;;) {
    const answer = await get(path, options);
    if (!answer.pending) return answer;
    options.signal?.throwIfAborted();
  }
}
