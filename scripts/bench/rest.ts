import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createDevices, createFullDevice } from './fleet';
import type { Measured } from './latencies';
import { compare, type Row, print, isShort, type Subject } from './measure';
import { PlantroomServer } from './plantroomServer';
import { requestOnce, runRestLoad, type RestLoad } from './restLoad';
import { ServerProcess } from './serverProcess';

const rounds = isShort ? 3 : 9;
const FLEET = 1000;
// Long enough for the JIT compiler.
const WARM_MS = isShort ? 1500 : 6000;

/**
 * Measures a small REST call over HTTP/1.1 with TLS against a bare fastify server with the same JSON response, and further
 * calls for information.
 */
export async function benchRest(): Promise<void> {
  const server = await PlantroomServer.start();
  try {
    await createDevices(server, server.key, FLEET, (text) => print(`  ${text}`));
    const common = {
      address: server.process.ready.http ?? '',
      ca: server.ca,
      headers: server.headers(),
      verb: 'GET',
      status: 200,
      concurrency: 32,
    };
    const path = `/api/v2/devices/${await createFullDevice(server, server.key)}`;
    const { text, etag } = await requestOnce({ ...common, path });
    const file = join(server.folder, 'device.json');
    writeFileSync(file, text);
    const echo = await ServerProcess.start(join(__dirname, 'bench-rest-echo.js'), [
      file,
      join(server.folder, 'data', 'tls'),
    ]);
    try {
      print(`\nGET device, ${Buffer.byteLength(text)} bytes of JSON, 32 concurrent, alternating`);
      const pair = [
        createSubject('bare fastify echo, HTTP/1.1, TLS', echo, { ...common, address: echo.ready.http ?? '', path }),
        createSubject('GET device, HTTP/1.1, TLS', server.process, { ...common, path }),
      ];
      for (const { load } of pair) await load(WARM_MS); // a production server is warm
      const rows = await compare(pair, rounds);
      const [baseline, get] = rows as [Row, Row];
      print(
        `  -> ${get.name}: ${(get.perSecond / baseline.perSecond).toFixed(2)} of the echo's calls/s (goal: 0.60), ${(baseline.cpu / get.cpu).toFixed(2)} by CPU time\n`,
      );
      await compare(
        [
          createSubject('GET device with If-None-Match (304), HTTP/1.1, TLS', server.process, {
            ...common,
            path,
            status: 304,
            headers: { ...common.headers, 'if-none-match': etag ?? '' },
          }),
          createSubject('GET device, HTTP/2, TLS', server.process, { ...common, path, isHttp2: true }),
          createSubject('GET devices, 50 of 1000, HTTP/1.1, TLS', server.process, {
            ...common,
            path: '/api/v2/devices',
          }),
          createSubject('POST device, HTTP/1.1, TLS', server.process, {
            ...common,
            path: '/api/v2/devices',
            verb: 'POST',
            body: (n) => JSON.stringify({ name: `Valve ${n}` }),
          }),
        ],
        rounds,
      );
    } finally {
      await echo.stop();
    }
  } finally {
    await server.remove();
  }
}

function createSubject(
  name: string,
  server: ServerProcess,
  load: RestLoad,
): Subject & { load: (milliseconds: number) => Promise<Measured> } {
  return { name, server, load: async (milliseconds) => await runRestLoad(load, milliseconds) };
}
