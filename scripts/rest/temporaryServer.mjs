// A temporary server for tools that test the REST API: on loopback, in a folder that is deleted afterwards.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/**
 * Starts a server, runs `work` with its address, folder and the headers of every call, and deletes the server. Returns the
 * result of `work`. `tls`: use TLS with a private CA, whose certificate is in `caFile`.
 */
export async function withTemporaryServer(work, { tls = false } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-rest-'));
  const keyFile = join(folder, 'key.json');
  // A tool that tries invalid keys uses one address, and needs the detailed error of each attempt.
  const settings = {
    DATA_DIR: join(folder, 'data'),
    RATE_LIMIT_FAILURES_PER_MINUTE: '0',
    ...(!tls && { TLS_MODE: 'off' }),
    GRPC_LISTEN: '127.0.0.1:0',
    HTTP_LISTEN: '127.0.0.1:0',
    METRICS_LISTEN: 'off',
    BOOTSTRAP_KEY_FILE: keyFile,
  };
  const env = {
    ...process.env,
    ...Object.fromEntries(Object.entries(settings).map(([name, value]) => [`PLANTROOM_${name}`, value])),
  };
  const server = spawn(process.execPath, ['dist/main.js', 'serve'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => server.once('exit', resolve));
  try {
    const address = await waitForAddress(server);
    const base = tls ? `https://${address.replace('127.0.0.1', 'localhost')}` : `http://${address}`;
    const { organizationId, apiKey } = JSON.parse(readFileSync(keyFile, 'utf8'));
    return await work({
      base,
      folder,
      caFile: join(folder, 'data/tls/ca.pem'),
      headers: { 'X-API-Key': apiKey, 'X-Organization-Id': organizationId },
    });
  } finally {
    server.kill('SIGTERM');
    await ended;
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Waits for the HTTP address of the server, and prints its error log lines. */
async function waitForAddress(server) {
  return await new Promise((resolve, reject) => {
    server.once('exit', (code) => reject(new Error(`the server exited with code ${code}`)));
    createInterface({ input: server.stdout }).on('line', (line) => {
      const { event, http, level } = line.startsWith('{') ? JSON.parse(line) : {};
      if (event === 'server.ready') resolve(http);
      if (level === 'error') console.error(line);
    });
  });
}
