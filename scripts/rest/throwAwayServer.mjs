// A server of its own for a tool that tries REST: on loopback, without TLS, in a folder that is removed afterwards.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** Starts it, works with it (its address, the folder, the headers that every call needs), and removes it. Gives what `work` gives. */
export async function withServer(work) {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-rest-'));
  const keyFile = join(folder, 'key.json');
  // A tool that tries wrong keys comes from one address, and wants to see what each is told.
  const settings = { DATA_DIR: join(folder, 'data'), RATES_FAILED_PER_MINUTE: '0', TLS_MODE: 'off', GRPC_LISTEN: '127.0.0.1:0', HTTP_LISTEN: '127.0.0.1:0', METRICS_LISTEN: 'off', BOOTSTRAP_KEY_FILE: keyFile };
  const env = { ...process.env, ...Object.fromEntries(Object.entries(settings).map(([name, value]) => [`PLANTROOM_${name}`, value])) };
  const server = spawn(process.execPath, ['dist/main.js', 'serve'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => server.once('exit', resolve));
  try {
    const base = `http://${await addressOf(server)}`;
    const { organizationId, apiKey } = JSON.parse(readFileSync(keyFile, 'utf8'));
    return await work({ base, folder, headers: { 'X-API-Key': apiKey, 'X-Organization-Id': organizationId } });
  } finally {
    server.kill('SIGTERM');
    await ended;
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Where it listens. What it logs is not shown, but for what went wrong. */
async function addressOf(server) {
  return await new Promise((resolve, reject) => {
    server.once('exit', (code) => reject(new Error(`the server ended with ${code}`)));
    createInterface({ input: server.stdout }).on('line', (line) => {
      const { event, http, level } = line.startsWith('{') ? JSON.parse(line) : {};
      if (event === 'server.ready') resolve(http);
      if (level === 'error') console.error(line);
    });
  });
}
